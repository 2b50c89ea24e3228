#include "sim/serving/detail/deployment.h"

#include <algorithm>
#include <utility>

#include "sim/serving/serving_forms.h"

namespace plumbline::sim {

namespace {

constexpr int halvings = 60;
constexpr double batch_rounding = 1e-9;

// Returns the largest value up to `most` that `allowed` accepts, which accepts all values below one that it accepts and
// is taken to accept 0.
template <class Allowed>
double largest(double most, const Allowed& allowed) {
  if (allowed(most)) return most;
  double low = 0, high = most;
  for (int i = 0; i < halvings; ++i) (allowed((low + high) / 2) ? low : high) = (low + high) / 2;
  return low;
}

}  // namespace

Deployment::Deployment(const model::Plan& plan, const model::ClusterShape& cluster, Pool prefill, Pool decode)
    : prefill_(std::move(prefill)), decode_(std::move(decode)) {
  const PoolModel& model = *decode_.model;
  computed_ = computed_tokens(model.request().input, plan.inference.prefix_hit_rate);
  chunked_ = plan.inference.chunked_prefill_tokens > 0;
  ttft_ = prefill_.model->prompt_seconds();
  if (disaggregated()) {
    const double sent = model.memory().bytes_per_request * model.request().input / model.request().context;
    ttft_ += sent / cluster.inter_node_bandwidth().value();
  }
  most_batch_ = model.requests_per_rank() * decode_.ranks();
  most_ = in_flight(most_batch_);
}

// Where prompts may follow each decode step, those that arrive during one do, on each rank that has some. Ranks that
// share experts wait for those that have one.
double Deployment::prefill_share(double batch) const {
  if (disaggregated()) return 0;
  const PoolModel& model = *decode_.model;
  const double of_rank = batch / decode_.ranks(), output = model.request().output;
  if (!chunked_) return sim::prefill_share(of_rank, computed_, output, model.prefill_seconds_per_token());
  const double tokens = model.tokens_of_chunk();
  const double arrive = of_rank * model.tokens_per_step() / output * computed_ / tokens;  // on a rank in a step
  const double prompts = std::clamp(arrive, 1.0, std::max(1.0, model.chunk_tokens() / tokens));
  const double share = std::clamp(arrive, 1 / static_cast<double>(model.instance().attention_data), 1.0);  // of ranks
  return sim::prefill_share(of_rank, computed_, output,
                            model.added_seconds(of_rank, prompts, share) / (share * prompts * tokens));
}

double Deployment::launch_share(double batch) const {
  if (disaggregated() || !chunked_ || !decode_.model->costs().mixes_prompts()) return 0;
  const PoolModel& model = *decode_.model;
  const double tokens = model.tokens_per_step(), per_rank = batch / decode_.ranks();
  const double passes = per_rank / model.request().output * tokens * model.chunks();
  return launch_wait(passes, model.prefill().launches, model.step_seconds(per_rank), prefill_share(batch) * tokens) /
         tokens;
}

double Deployment::tpot(double batch) const {
  const PoolModel& model = *decode_.model;
  return model.step_seconds(batch / decode_.ranks()) / model.tokens_per_step() + prefill_share(batch) +
         launch_share(batch);
}

double Deployment::worst_step(double batch) const {
  const double step = decode_.model->step_seconds(batch / decode_.ranks());
  if (disaggregated()) return step;
  const PoolModel& model = *decode_.model;
  if (!chunked_) return step + model.prefill().time.seconds;
  return step +
         model.added_seconds(batch / decode_.ranks(), std::max(1.0, model.chunk_tokens() / model.tokens_of_chunk()), 1);
}

double Deployment::prefill_requests_per_s() const {
  return prefill_.ranks() / (prefill_.model->prefill_seconds_per_token() * computed_);
}

double Deployment::in_flight(double batch) const {
  const double decoding = decode_.model->request().output * tpot(batch);
  return batch * (ttft_ + decoding) / decoding;
}

// A pool for prefill computes so many prompts per second; a step that also decodes computes at most a chunk.
double Deployment::fed_batch(double batch) const {
  const double output = decode_.model->request().output;
  if (disaggregated()) {
    const double rate = prefill_requests_per_s() * output;
    return largest(batch, [&](double b) { return b <= batch_of_rate(rate, tpot(b)); });
  }
  if (!chunked_) return batch;
  const double prompts_of_step = decode_.model->chunk_tokens() / computed_;
  return std::min(batch, decode_.ranks() * prompts_of_step * output / decode_.model->tokens_per_step());
}

// The number in flight grows with the batch, so that the batch of a number is found between 0 and it.
ServingState Deployment::state(double concurrency) const {
  const double output = decode_.model->request().output;
  double batch = largest(std::min(concurrency, most_batch_),
                         [&](double b) { return b <= active_batch(concurrency, output, tpot(b), ttft_); });
  ServingState state{.concurrency = concurrency};
  const double fed = fed_batch(batch);
  state.full = fed >= most_batch_ * (1 - batch_rounding);
  state.fed = fed < batch * (1 - batch_rounding);
  batch = fed;
  state.batch = batch;
  state.tpot = tpot(batch);
  state.requests = batch / (output * state.tpot);
  return state;
}

std::optional<double> Deployment::concurrency_within(double limit) const {
  const double batch = largest(most_batch_, [&](double b) { return tpot(b) <= limit; });
  const double found = in_flight(batch);
  if (found < 1) return std::nullopt;
  return found;
}

}  // namespace plumbline::sim
