#include "sim/serving/detail/deployment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/serving/detail/sent_waves.h"
#include "sim/serving/serving_forms.h"

namespace plumbline::sim {
namespace {

constexpr int halvings = 60;

// Returns the largest value up to `most` that `allowed` accepts, which accepts all values below one that it accepts and
// is taken to accept 0. Values that are far apart need passes of their own: those above and below the halving of `most`
// that is next to `guess` are tried first.
template <class Allowed>
double largest(double most, double guess, const Allowed& allowed) {
  if (allowed(most)) return most;
  int rejected = 0, accepted = halvings + 1;  // halvings of `most`
  int next = static_cast<int>(std::clamp(std::ceil(std::log2(most / guess)), 1.0, 1.0 * halvings));
  for (int step = 1; accepted - rejected > 1; step *= 2) {
    const bool is_accepted = allowed(std::ldexp(most, -next));
    (is_accepted ? accepted : rejected) = next;
    next = is_accepted ? next - step : next + step;
    if (next <= rejected || next >= accepted) next = (rejected + accepted) / 2;
  }
  if (accepted > halvings) return 0;
  double low = std::ldexp(most, -accepted), high = std::ldexp(most, -rejected);
  for (int i = accepted; i < halvings; ++i) (allowed((low + high) / 2) ? low : high) = (low + high) / 2;
  return low;
}

}  // namespace

Deployment::Deployment(const model::Plan& plan, const model::ClusterShape& cluster, Pool prefill, Pool decode)
    : prefill_(std::move(prefill)), decode_(std::move(decode)) {
  const PoolModel& model = *decode_.model;
  computed_ = computed_tokens(model.request().input, plan.inference.prefix_hit_rate);
  chunked_ = plan.inference.chunked_prefill_tokens > 0;
  waves_ = plan.inference.arrivals == "waves";
  if (plan.inference.requests) requests_ = static_cast<double>(*plan.inference.requests);
  if (disaggregated()) {
    const PoolMemory& memory = model.memory();
    const double sent = memory.keys_values * model.request().input / model.request().context + memory.states;
    sent_ = sent / cluster.inter_node_bandwidth().value();
  }
  tokenized_ = model.costs().tokenizing_seconds(model.request().input);
  ttft_ = tokenized_ + prefill_.model->prompt_seconds() + sent_ + model.costs().sending_seconds(1);
  most_batch_ = model.requests_per_rank() * decode_.ranks();
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
  const double prompts = std::clamp(arrive, 1.0, most_prompts(of_rank));
  const double share = std::clamp(arrive, 1 / static_cast<double>(model.instance().attention_data), 1.0);  // of ranks
  return sim::prefill_share(of_rank, computed_, output,
                            model.added_seconds(of_rank, prompts, share) / (share * prompts * tokens));
}

bool Deployment::mixes() const { return !disaggregated() && chunked_ && decode_.model->mixes_prompts(); }

double Deployment::most_prompts(double of_rank) const {
  const PoolModel& model = *prefill_.model;
  return !disaggregated() && chunked_ ? model.prompts_of_step(of_rank) : model.prompts_of_pass();
}

// Ranks that share experts replay no graph where one of them has a prompt (NVIDIA/TensorRT-LLM
// tensorrt_llm/_torch/pyexecutor/cuda_graph_runner.py, is_all_gen_only of all ranks; sgl-project/sglang
// python/sglang/srt/managers/scheduler_dp_attn_mixin.py, can_cuda_graph of all ranks), so that the host of each
// launches such a step kernel by kernel.
double Deployment::launch_share(double batch) const {
  if (!mixes()) return 0;
  const PoolModel& model = *decode_.model;
  const double tokens = model.tokens_per_step(), per_rank = batch / decode_.ranks();
  const auto groups = static_cast<double>(model.instance().attention_data);
  const double passes = groups * per_rank / model.request().output * tokens * model.chunks();
  return launch_wait(passes, launched_seconds(per_rank, 1), model.engine_step_seconds(per_rank),
                     prefill_share(batch) * tokens) /
         tokens;
}

double Deployment::engine_tpot(double batch) const {
  const PoolModel& model = *decode_.model;
  return model.engine_step_seconds(batch / decode_.ranks()) / model.tokens_per_step() + prefill_share(batch) +
         launch_share(batch);
}

double Deployment::sender_tpot(double batch) const {
  const PoolModel& model = *decode_.model;
  return model.costs().streaming_seconds(batch / decode_.ranks()) / model.tokens_per_step();
}

// Tokens are sent while the engine computes, prompts too.
double Deployment::steady_tpot(double batch) const { return std::max(engine_tpot(batch), sender_tpot(batch)); }

bool Deployment::waits_for_sender(const ServingState& state) const {
  return sender_tpot(state.batch) > engine_tpot(state.batch);
}

double Deployment::mixed_step(double of_rank, double prompts, double share) const {
  const PoolModel& model = *decode_.model;
  const double engine = std::max(model.engine_step_seconds(of_rank) + model.added_seconds(of_rank, prompts, share),
                                 launched_seconds(of_rank, prompts));
  return waves_ && sends_behind() ? engine : std::max(engine, model.costs().streaming_seconds(of_rank));
}

double Deployment::launched_seconds(double of_rank, double prompts) const {
  const PoolModel& model = *decode_.model;
  return model.costs().engine_seconds(0, model.prefill().launches, of_rank + prompts);
}

// Of a step with prompts the seconds are those of decoding in all stages and of the prompts in one.
double Deployment::latency(double pass, double per_rank) const {
  const PoolModel& model = *prefill_.model;
  if (!mixes()) return model.pass_latency();
  return static_cast<double>(model.instance().pipeline - 1) * (pass - model.step_seconds(per_rank));
}

// Passes of a pool for prefill hold what arrived during the one before. On GPUs that decode, too, as many requests end
// in a step as others begin.
double Deployment::prompts_of_rank(double batch, double tpot) const {
  const PoolModel &model = *prefill_.model, &decode = *decode_.model;
  const double output = decode.request().output;
  if (!disaggregated()) return batch / decode_.ranks() * decode.tokens_per_step() / output * model.chunks();
  constexpr int rounds = 32;
  const double rate = batch / (output * tpot) * model.chunks() / prefill_.ranks(), most = model.prompts_of_pass();
  double arrive = 0;
  for (int i = 0; i < rounds; ++i) arrive = std::min(most, rate * model.prompt_pass_seconds(arrive));
  return arrive;
}

// A prompt waits for the rest of the pass or step that runs, for those that the engine has launched by then, and for
// those of others that do not fit in the next; then its chunks are computed one a pass. Without a pool for prefill a
// decode step follows each pass, or has the prompts. Before it comes the time to turn its text into tokens, after it
// that to send the first token among those of other requests. Nothing runs where no other request is in flight.
double Deployment::steady_ttft(double batch, double tpot) const {
  const PoolModel &model = *prefill_.model, &decode = *decode_.model;
  const double of_rank = batch / decode_.ranks(), output = decode.request().output, chunks = model.chunks();
  const auto groups = static_cast<double>(model.instance().attention_data);
  const double most = most_prompts(of_rank);
  const auto pass = [&](double prompts) {
    return mixes() ? mixed_step(of_rank, std::clamp(prompts, 1.0, most), std::clamp(prompts, 1 / groups, 1.0))
                   : model.prompt_pass_seconds(prompts);
  };
  const double between = disaggregated() || mixes() ? 0 : decode.step_seconds(of_rank);
  const double arrive = prompts_of_rank(batch, tpot);
  double busy = std::clamp(of_rank * groups - 1, 0.0, 1.0);
  double use = arrive / most;
  if (disaggregated()) {
    const double rate = batch / (output * tpot) * chunks / prefill_.ranks();
    busy = std::min(1.0, rate * groups * pass(0));
    use = rate * pass(most) / most;
  }
  constexpr double most_use = 0.95;  // where more arrive, Little's law has the wait
  const double own = pass(std::min(arrive, most));
  const double rest = (between + own) / 2 - between;
  const double mean = tpot * decode.tokens_per_step() / (mixes() ? 1 : 1 + std::min(1.0, arrive));
  const double launched = disaggregated() ? 0 : model.costs().steps_ahead() * mean;
  const double outside = tokenized_ + decode.costs().sending_seconds(of_rank);
  const double loaded = latency(own, of_rank) + chunks * (own + between) + rest + launched + sent_ + outside;
  const double backlog = backlog_seconds(between + pass(most), std::min(use, most_use), most);
  return ttft_ + busy * std::max(0.0, loaded - ttft_) + (disaggregated() ? backlog : busy * backlog);
}

RequestTimes Deployment::times(double batch) const {
  if (waves_) return wave_times(batch);
  const double tpot = steady_tpot(batch);
  return {steady_ttft(batch, tpot), tpot};
}

double Deployment::decode_share(const ServingState& state) const {
  if (disaggregated()) return 1;
  if (!waves_) return 1 - prefill_share(state.batch) / state.tpot;
  const PoolModel& model = *decode_.model;
  const double decoding = model.request().output / model.tokens_per_step() *
                          model.step_seconds(state.batch / decode_.ranks()) * state.requests / state.batch;
  return std::min(1.0, decoding);
}

double Deployment::worst_step(const ServingState& state) const {
  const double of_rank = state.batch / decode_.ranks(), step = decode_.model->step_seconds(of_rank);
  const double others = std::max(0.0, state.concurrency - 1);
  if (disaggregated() || others == 0) return step;
  const PoolModel& model = *decode_.model;
  const double most = most_prompts(of_rank), prompts = std::min(most, others);
  if (mixes()) return std::max(step, mixed_step(of_rank, prompts, 1));
  if (chunked_) return step + model.added_seconds(of_rank, prompts, 1);
  return step + model.prefill().time.seconds * model.prompt_pass_seconds(prompts) / model.prompt_pass_seconds(most);
}

double Deployment::prefill_requests_per_s() const {
  return prefill_.ranks() / (prefill_.model->prefill_seconds_per_token() * computed_);
}

double Deployment::later_tokens() const { return std::max(1.0, decode_.model->request().output - 1); }

double Deployment::wave_period(const RequestTimes& times) const { return times.ttft + later_tokens() * times.tpot; }

double Deployment::in_flight(double batch) const {
  if (waves_) return batch;
  const RequestTimes times = this->times(batch);
  const double decoding = decode_.model->request().output * times.tpot;
  return batch * (times.ttft + decoding) / decoding;
}

// A pool for prefill computes so many prompts per second; a step that also decodes computes at most the rest of a
// chunk.
double Deployment::fed_batch(double batch) const {
  const double output = decode_.model->request().output;
  if (disaggregated()) {
    const double rate = prefill_requests_per_s() * output;
    return largest(batch, batch, [&](double b) { return b <= batch_of_rate(rate, steady_tpot(b)); });
  }
  if (!chunked_) return batch;
  return largest(batch, batch, [&](double b) {
    const double of_rank = b / decode_.ranks(), prompts = decode_.model->prompt_tokens(of_rank) / computed_;
    return of_rank <= prompts * output / decode_.model->tokens_per_step();
  });
}

// The number in flight grows with the batch, so that the batch of a number is found between 0 and it. What prefill or
// space lets fewer requests decode, others wait (Little's law).
ServingState Deployment::state(double concurrency) const {
  if (waves_) return wave(concurrency);
  const double output = decode_.model->request().output;
  const double most = std::min(concurrency, most_batch_);
  double batch = largest(most, most, [&](double b) {
    const RequestTimes times = this->times(b);
    return b <= active_batch(concurrency, output, times.tpot, times.ttft);
  });
  ServingState state{.concurrency = concurrency};
  const double fed = fed_batch(batch);
  state.fed = fed < batch * (1 - batch_rounding);
  batch = fed;
  state.batch = batch;
  state.tpot = steady_tpot(batch);
  state.requests = batch / (output * state.tpot);
  state.prompts = state.fed ? prefill_.model->prompts_of_pass() : prompts_of_rank(batch, state.tpot);
  state.ttft = concurrency / state.requests - output * state.tpot;
  return state;
}

bool Deployment::full(const ServingState& state) const {
  if (waves_) return state.batch + 1 > most_batch_ * (1 + batch_rounding);
  return state.batch >= most_batch_ * (1 - batch_rounding) ||
         (!state.fed && state.concurrency + 1 > most_concurrency() * (1 + batch_rounding));
}

std::optional<double> Deployment::concurrency_within(const RequestTimes& limits) const {
  // Times per token are about linear.
  const double one = std::min(1.0, most_batch_);
  const double shortest = times(one).tpot, longest = times(most_batch_).tpot;
  const double share = (limits.tpot - shortest) / (longest - shortest);
  const double guess = share > 0 && share < 1 ? one + share * (most_batch_ - one) : share > 0 ? most_batch_ : one;
  const double batch = largest(most_batch_, guess, [&](double b) {
    const RequestTimes times = this->times(b);
    return times.tpot <= limits.tpot && times.ttft <= limits.ttft;
  });
  const double found = in_flight(batch);
  if (found < 1) return std::nullopt;
  return found;
}

bool Deployment::sends_behind() const { return mixes() && decode_.model->instance().attention_data == 1; }

double Deployment::wave_step(double of_rank) const {
  return sends_behind() ? decode_.model->engine_step_seconds(of_rank) : decode_.model->step_seconds(of_rank);
}

Deployment::WavePasses Deployment::wave_passes(double batch, double decoding) const {
  const PoolModel& model = *prefill_.model;
  const double prompts = std::max(1.0, batch / prefill_.ranks()), held = std::min(most_prompts(decoding), prompts);
  const double passes = prompts * model.chunks() / held;
  const bool divided = mixes() && !model.costs().whole_prompts();  // so that all passes but the last are full
  return {divided ? passes : std::ceil(passes - batch_rounding),
          mixes() ? mixed_step(decoding, held, 1) : model.prompt_pass_seconds(held),
          std::max(1.0, held / model.chunks())};
}

double Deployment::steps_of_request() const {
  const PoolModel& decode = *decode_.model;
  return decode.request().output / decode.tokens_per_step() + (mixes() ? prefill_.model->chunks() - 1 : 0);
}

// Others run while a prompt waits.
double Deployment::busy_share(const WavePasses& passes) const {
  return mixes() ? std::clamp(passes.count / prefill_.model->chunks() - 1, 0.0, 1.0) : 0;
}

double Deployment::steps_waited(double batch, const WavePasses& passes, double outside) const {
  const double ahead = prefill_.model->costs().steps_ahead();
  const bool queued = steps_of_request() + ahead + 1 < passes.count;  // as a group ends
  const double between = queued ? passes.seconds : wave_step(batch / decode_.ranks());
  return busy_share(passes) * (steps_begun(outside, between) + ahead);
}

// For the first group of a wave the steps that it waits for have no prompts, so that they are short; but the groups
// that end meanwhile queue behind it, and as all passes are full none of them makes up for it: of as many steps each
// waits for those that follow the passes of other groups with their prompts. It waits for prompts before it only where
// a wave has more passes than a request has steps, those of its chunks included, the last of which gives the first
// token.
RequestTimes Deployment::staggered_times(double batch, const WavePasses& wave, double waits) const {
  const double step = wave_step(batch / decode_.ranks()), steps = steps_of_request();
  const double chunks = prefill_.model->chunks(), groups = wave.count / chunks;
  const double apart_steps = mixes() ? std::max(0.0, steps + waits - wave.count) : steps;  // of a wave, without prompts
  const double missed = std::min(waits, apart_steps);  // of the first group's waits; the next misses its chunks' less
  const double with_prompts = std::max(0.0, waits - steps_of_groups(missed, chunks, groups) / std::max(1.0, groups));
  const double waited = with_prompts * wave.seconds + (waits - with_prompts) * step;
  const double queue = mixes() ? std::max(0.0, wave.count - steps - waits) * wave.seconds : 0;
  const double ttft = chunks * wave.seconds + waited + queue;
  return {ttft, std::max(0.0, wave.count * wave.seconds + apart_steps * step - ttft) / later_tokens()};
}

// The engine does not wait for what is sent: its tokens queue in front of the process that sends them, and a client
// holds its place until it has the last (ROCm/ATOM pull request 2161: the model finished a wave while the API process
// still drained its output, and no next request entered the engine). Returned is what the queue adds, by a replay with
// it and one without. A process that keeps pace with each step adds nothing.
RequestTimes Deployment::behind_sender(double batch, const WavePasses& passes, const RequestTimes& engine) const {
  const PoolModel& model = *decode_.model;
  const double of_rank = batch / decode_.ranks(), full = wave_step(of_rank), half = wave_step(of_rank / 2);
  if (model.costs().streaming_seconds(of_rank) <= full) return engine;
  WaveLoad load{.requests = of_rank, .prompts = of_rank / passes.count};
  if (requests_) load.waves = std::max(1.0, *requests_ / batch);
  load.tokens = model.request().output / model.tokens_per_step();
  load.step_of_request = (full - half) / (of_rank / 2);
  load.step = full - load.step_of_request * of_rank;
  load.step_of_prompt = std::max(0.0, passes.seconds - half) / load.prompts;
  load.ahead = model.costs().steps_ahead();
  load.late = tokenized_ * (passes.prompts + 1) / 2;
  const WaveTimes alone = replay_waves(load);
  load.send = model.costs().streaming_seconds(1);
  const WaveTimes sent = replay_waves(load);
  const double period = wave_period(engine) + std::max(0.0, sent.latency - alone.latency);
  const double ttft = engine.ttft + std::max(0.0, sent.ttft - alone.ttft);
  return {ttft, std::max(0.0, period - ttft) / later_tokens()};
}

// All requests start together: their prompts fill passes, which the last of them waits for. Where passes have decode
// steps too, requests end and start again as many at a time as a pass holds. After the first wave a prompt is with the
// scheduler when the last token of the request before it is sent and its text is tokens, one after another of those
// that end together; it waits for the steps that begin until then, and for those that the engine has launched by then
// (PassCosts::steps_ahead). Elsewhere they end together, and each wave is like the first. A pool for prefill that takes
// longer for a wave than its requests lets them wait. Of requests without number the first wave counts for nothing.
//
// Half of the requests decode in the mean of the first wave's passes, which they fill one after another; in later ones
// all but those that wait for their prompts' passes, fewer at the end of a wave, or are in them. Only in the first wave
// have all groups of attention data parallelism prompts together: after it each computes its own when it has a place
// for them, and the others wait for it, as in a steady state (NVIDIA/TensorRT-LLM
// docs/source/blogs/tech_blog/blog10_ADP_Balance_Strategy.md, the baseline: a rank may compute a prompt in an iteration
// in which the others only decode; waiting for each other's prompts, attention_dp_config.enable_balance, is off by
// default).
RequestTimes Deployment::wave_times(double batch) const {
  const PoolModel &model = *prefill_.model, &decode = *decode_.model;
  const double per_rank = batch / decode_.ranks(), chunks = model.chunks();
  const double waves = requests_ ? std::max(1.0, *requests_ / batch) : std::numeric_limits<double>::infinity();
  const WavePasses first = wave_passes(batch, per_rank / 2);
  const double outside = decode.costs().sending_seconds(per_rank) + tokenized_ * (first.prompts + 1) / 2;
  const double waits = steps_waited(batch, first, outside), steps = steps_of_request();
  const double missing = std::min(waits, first.count);  // at first; none waits at the end of a wave
  const double waiting = missing * (1 - missing / (2 * first.count));
  const double decoding = per_rank / first.count * std::max(0.0, std::min(steps, first.count - waiting) - chunks);
  const RequestTimes one = staggered_times(batch, first, waits);
  const RequestTimes later = staggered_times(batch, wave_passes(batch, decoding), waits);
  const double together = (first.count + chunks) / 2 * first.seconds;
  const bool staggered = mixes() || disaggregated();
  // What is outside of the engine is in the steps that a prompt waits for, where it waits for some.
  const double added = outside * (1 - busy_share(first) * (1 - 1 / waves));
  RequestTimes times;
  times.ttft = latency(first.seconds, per_rank / 2) + sent_ + added +
               (staggered ? later.ttft + (together - later.ttft) / waves : together);
  // The kernels that dispatch prompts may be slower than a decode step's, of which passes with both are made up.
  times.ttft = std::max(times.ttft, ttft_);
  if (disaggregated()) {
    times.tpot = decode.step_seconds(per_rank) / decode.tokens_per_step();
    times.ttft = std::max(times.ttft, first.count * first.seconds - later_tokens() * times.tpot);
  } else {
    times.tpot = staggered ? later.tpot + (one.tpot - later.tpot) / waves
                           : std::max(0.0, one.tpot + (one.ttft - together) / later_tokens());
    if (mixes() && decode.instance().attention_data > 1) {
      const double by_chance = steady_tpot(batch);
      times.tpot = by_chance + (one.tpot - by_chance) / waves;
    }
  }
  return sends_behind() ? behind_sender(batch, first, times) : times;
}

// A last wave that is not full takes its own time.
ServingState Deployment::wave(double concurrency) const {
  const double together = std::min(concurrency, requests_.value_or(concurrency));
  ServingState state{.concurrency = together};
  state.batch = std::min(together, most_batch_);
  const RequestTimes times = wave_times(state.batch);
  const WavePasses prefill = wave_passes(state.batch, state.batch / decode_.ranks() / 2);
  state.fed = disaggregated() && prefill.count * prefill.seconds >= wave_period(times) * (1 - batch_rounding);
  state.tpot = times.tpot;
  state.requests = state.batch / wave_period(times);
  if (requests_) {
    const double full = std::floor(*requests_ / state.batch + batch_rounding), rest = *requests_ - full * state.batch;
    const double last = rest > batch_rounding * state.batch ? wave_period(wave_times(rest)) : 0;
    state.requests = *requests_ / (full * wave_period(times) + last);
  }
  state.prompts = std::min(prefill_.model->prompts_of_pass(), std::max(1.0, state.batch / prefill_.ranks()));
  state.ttft = times.ttft + (together / state.batch - 1) * wave_period(times);
  return state;
}

}  // namespace plumbline::sim
