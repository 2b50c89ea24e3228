#include "sim/serving/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "model/economics/ownership.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/recurrence.h"
#include "sim/predict/memos.h"
#include "sim/predict/plan_key.h"
#include "sim/serving/detail/deployment.h"
#include "sim/serving/serving_forms.h"

namespace plumbline::sim {

namespace {

using model::PoolKind;
using model::ServingBound;

// What a pool depends on.
std::string pool_key(const model::Plan& plan, PoolKind kind) {
  const model::Instance i = model::instance_of(plan, kind);
  const auto& s = plan.inference;
  PlanKey key;
  key.add(kind, i.tensor, i.pipeline, i.expert, i.attention_data, i.redundant_experts, i.two_micro_batches,
          s.input_tokens, s.output_tokens, s.lengths, s.prefix_hit_rate, s.kv_cache, s.weights, s.expert_imbalance,
          s.expert_skew, s.chunked_prefill_tokens, s.speculative_tokens, s.draft, s.dispatch, s.memory_share);
  key.add(plan.places.contains("inference.memory_share"));
  key.add(s.mixed_chunks, s.stream_interval);
  if (s.acceptance) key.add(s.acceptance->shares);
  key.add(plan.overlap.communication_sms, plan.overlap.communication_kernels, plan.attention.kernel,
          plan.routing.max_nodes_per_token, plan.stack.dispatcher);
  return key.bytes();
}

std::optional<double> price_of(const model::Plan& plan, const model::ClusterShape& cluster) {
  const auto price = model::hourly_price(plan, cluster);
  if (!price.value || price.value->value <= 0) return std::nullopt;
  return price.value->value;
}

std::optional<double> usd(const std::optional<double>& price, double gpus, double tokens_per_s) {
  if (!price || tokens_per_s <= 0) return std::nullopt;
  return usd_per_million(*price * gpus, tokens_per_s);
}

double decode_gpus(const Deployment& deployment, const ServingState& state) {
  return static_cast<double>(deployment.decode().gpus()) * deployment.decode_share(state);
}

// Returns the times that the plan allows components to add up to; infinite ones where it has no limit.
RequestTimes limits_of(const model::Plan& plan, const ServingMargin& margin) {
  constexpr double any = std::numeric_limits<double>::infinity();
  const auto& s = plan.inference;
  return {s.max_ttft_s.value_or(any) / margin.ttft, s.max_tpot_s.value_or(any) / margin.tpot};
}

double output_rate(const Deployment& deployment, const ServingState& state) {
  return state.requests * deployment.decode().model->request().output;
}

ServingRates rates_of(const Deployment& deployment, const ServingState& state) {
  return {state.tpot, deployment.ttft_unloaded(), state.ttft,
          output_rate(deployment, state) / static_cast<double>(deployment.gpus())};
}

double batch_per_gpu(const Deployment& deployment, const ServingState& state) {
  return state.batch / static_cast<double>(deployment.decode().gpus());
}

model::ServingPoint point_of(const RequestTimes& limits, const std::optional<double>& price,
                             const Deployment& deployment, double concurrency) {
  const ServingState state = deployment.state(concurrency);
  model::ServingPoint point;
  point.concurrency = concurrency;
  point.batch_per_gpu = batch_per_gpu(deployment, state);
  point.tpot_s = state.tpot;
  point.ttft_unloaded_s = deployment.ttft_unloaded();
  point.ttft_s = state.ttft;
  const double rate = output_rate(deployment, state);
  point.output_tokens_per_s_per_gpu = rate / static_cast<double>(deployment.gpus());
  point.usd_per_million_output_tokens = usd(price, decode_gpus(deployment, state), rate);
  point.within_limits = state.tpot <= limits.tpot && state.ttft <= limits.ttft;
  return point;
}

bool dominates(const model::ServingPoint& a, const model::ServingPoint& b) {
  const double a_rate = a.output_tokens_per_s_per_gpu, b_rate = b.output_tokens_per_s_per_gpu;
  return a.tpot_s <= b.tpot_s && a_rate >= b_rate && (a.tpot_s < b.tpot_s || a_rate > b_rate);
}

std::vector<model::ServingPoint> points_of(const RequestTimes& limits, const std::optional<double>& price,
                                           const Deployment& deployment) {
  constexpr double per_octave = 2;
  std::vector<model::ServingPoint> points;
  const double held = std::floor(deployment.most_concurrency());
  const double most = held < 1 ? 0 : deployment.state(held).concurrency;
  double last = 0;
  for (int i = 0; last < most; ++i) {
    const double next = std::min(most, std::round(std::exp2(i / per_octave)));
    if (next > last) points.push_back(point_of(limits, price, deployment, next));
    last = std::max(last, next);
  }
  for (model::ServingPoint& point : points)
    point.dominated = std::ranges::any_of(points, [&](const auto& other) { return dominates(other, point); });
  return points;
}

model::ServingPool pool_of(const Deployment::Pool& pool, const PassTime& time, double tokens, double batch) {
  const PoolModel& model = *pool.model;
  const model::Instance& instance = model.instance();
  const PoolMemory& memory = model.memory();
  model::ServingPool result;
  result.name = to_string(model.kind());
  result.gpus = pool.gpus();
  result.instances = pool.instances;
  result.gpus_per_instance = instance.gpus();
  result.tensor = instance.tensor;
  result.pipeline = instance.pipeline;
  result.expert = instance.expert;
  result.attention_data = instance.attention_data;
  result.redundant_experts = instance.redundant_experts;
  result.step_s = time.seconds;
  result.tokens_per_step = tokens;
  result.batch_per_gpu = batch;
  for (std::size_t i = 0; i < PassTime::parts; ++i) {
    const PassTime::Part& part = time.by[i];
    if (part.seconds.sum() + part.hidden == 0) continue;
    result.parts.push_back(
        {std::string(to_string(static_cast<PassPart>(i))), part.seconds.sum(), part.hidden, part.seconds.largest()});
  }
  result.weights_bytes = memory.weights;
  result.reserve_bytes = memory.reserve;
  result.activations_bytes = memory.activations;
  result.kv_bytes = memory.space;
  result.capacity_bytes = memory.capacity;
  const double of_request = memory.keys_values + memory.states * memory.states_per_request;
  result.kv_capacity_tokens =
      memory.space / of_request * model.request().context * static_cast<double>(instance.attention_data);
  result.bound_by = time.bounds().largest();
  return result;
}

std::vector<model::ServingPool> pools_of(const Deployment& deployment, const ServingState& state) {
  const Deployment::Pool &prefill = deployment.prefill(), &decode = deployment.decode();
  std::vector<model::ServingPool> pools;
  if (deployment.disaggregated()) {
    const auto groups = static_cast<double>(prefill.model->instance().attention_data);
    const double prompts = std::max(state.prompts, 1 / groups);  // on a rank
    pools.push_back(pool_of(prefill, prefill.model->prompt_pass(state.prompts),
                            prompts * prefill.model->tokens_of_chunk() * groups,
                            prompts * prefill.ranks() / static_cast<double>(prefill.gpus())));
  }
  const double per_rank = state.batch / decode.ranks();
  const double on_instance = per_rank * static_cast<double>(decode.model->instance().attention_data);
  pools.push_back(pool_of(decode, decode.model->step(per_rank), on_instance * decode.model->tokens_per_step(),
                          batch_per_gpu(deployment, state)));
  return pools;
}

// Returns what binds a deployment: the pool for prefill, the space for keys and values, or what its steps do, the
// prefill in them included.
ServingBound bound_of(const Deployment& deployment, const ServingState& state) {
  if (state.fed) return deployment.prefill().model->prefill().time.bounds().largest();
  if (deployment.waits_for_sender(state)) return ServingBound::host;
  if (deployment.full(state) && !deployment.decode().model->scheduler_binds()) return ServingBound::kv;
  const PoolModel& decode = *deployment.decode().model;
  BoundSeconds all = decode.step(state.batch / deployment.decode().ranks()).bounds();
  if (!deployment.disaggregated()) {
    const PassTime& prefill = decode.prefill().time;
    const double share = (1 - deployment.decode_share(state)) * state.tpot * decode.tokens_per_step();
    all += prefill.bounds() * (share / prefill.seconds);
  }
  return all.largest();
}

}  // namespace

struct ServingPredictor::Memos {
  explicit Memos(const Inputs& given) : inputs(given) {
    if (!inputs.routing) inputs.routing = std::make_shared<ExpertGroupMemo>();
  }

  model::Result<std::shared_ptr<const PassCosts>> pass_costs() {
    return costs.find(0, [&] { return PassCosts::make(inputs); });
  }
  model::Result<std::shared_ptr<const PoolModel>> pool(const model::Plan& plan, PoolKind kind) {
    const auto shared = TRY(pass_costs());
    const auto make = [&]() -> model::Result<std::shared_ptr<const PoolModel>> {
      auto made = TRY(PoolModel::make(inputs, *shared, plan, kind));
      TRY(made->check_longest(inputs));
      return made;
    };
    return pools.find(pool_key(plan, kind), make);
  }
  model::Result<Deployment> deployment(const model::Plan& plan);
  model::Result<double> concurrency(const model::Plan& plan, const Deployment& deployment,
                                    const ServingMargin& margin) const;
  void add_money(const model::Plan& plan, const Deployment& deployment, const ServingState& state,
                 model::ServingResult& result) const;
  void add_demand(const model::Plan& plan, const Deployment& deployment, model::ServingResult& result) const;
  void add_constants(const Deployment& deployment, const ServingState& state, model::ServingResult& result) const;
  void add_notes(const model::Plan& plan, const Deployment& deployment, const ServingState& state,
                 const ServingMargin& margin, model::ServingResult& result) const;

  Inputs inputs;
  model::Memo<int, model::Result<std::shared_ptr<const PassCosts>>> costs;
  model::Memo<std::string, model::Result<std::shared_ptr<const PoolModel>>> pools;
};

namespace {

// A token has at most one row for an expert, so that a rank has the rows of at most all tokens for each of its experts:
// experts over those of a token times the mean.
model::Result<void> check_imbalance(const model::Plan& plan, const model::Architecture& architecture) {
  const auto& experts = architecture.experts;
  const double most = static_cast<double>(experts.routed_experts) / static_cast<double>(experts.experts_per_token);
  const double stated = plan.inference.expert_imbalance.value_or(1);
  if (stated <= most) return {};
  return tl::unexpected(model::plan_error(
      plan, model::ErrorKind::input, "inference.expert_imbalance",
      fmt::format("no rank has {} times the mean of the rows: a token takes {} of the {} experts of {}", stated,
                  experts.experts_per_token, experts.routed_experts, architecture.name),
      fmt::format("use at most {}", std::floor(100 * most) / 100)));
}

// Refuses keys that a deployment does not read.
model::Result<void> check_unread(const model::Plan& plan, const model::Architecture& architecture) {
  const auto& s = plan.inference;
  const auto unread = [&](const char* key, std::string why, std::string hint) {
    return tl::unexpected(model::plan_error(plan, model::ErrorKind::input, key, std::move(why), std::move(hint)));
  };
  if (s.requests && s.arrivals != "waves")
    return unread("inference.requests", "a steady state has no last request",
                  "set inference.arrivals = \"waves\", or leave inference.requests out");
  if (s.mixed_chunks.value_or(false) && s.chunked_prefill_tokens == 0)
    return unread("inference.mixed_chunks", "steps that decode have no tokens for prompts",
                  "set inference.chunked_prefill_tokens above 0, or leave inference.mixed_chunks out");
  // A plan that states inference.disaggregated = false keeps its pools for another time.
  if (!s.disaggregated && !plan.places.contains("inference.disaggregated")) {
    for (const auto& [pool, keys] : {std::pair("inference.prefill.", &s.prefill), {"inference.decode.", &s.decode}}) {
      if (*keys == model::PoolKeys{}) continue;
      const auto given = plan.places.lower_bound(std::string_view(pool));
      const bool known = given != plan.places.end() && given->first.starts_with(pool);
      const std::string key = known ? given->first : std::string(pool) + "gpus";
      return unread(key.c_str(), "prefill and decode share all GPUs",
                    "set inference.disaggregated = true, or leave inference.prefill and inference.decode out");
    }
  }
  if (architecture.experts.routed_experts > 0) return check_imbalance(plan, architecture);
  const auto copies = [&](PoolKind kind) { return model::instance_of(plan, kind).redundant_experts > 0; };
  const auto halves = [&](PoolKind kind) { return model::instance_of(plan, kind).two_micro_batches; };
  for (const auto& [key, is_unread] :
       {std::pair("inference.redundant_experts", copies(PoolKind::prefill) || copies(PoolKind::decode)),
        std::pair("inference.two_micro_batches", halves(PoolKind::prefill) || halves(PoolKind::decode)),
        std::pair("inference.expert_imbalance", s.expert_imbalance.value_or(1) != 1),
        std::pair("inference.expert_skew", s.expert_skew.value_or(0) != 0)})
    if (is_unread) return unread(key, fmt::format("{} has no experts", architecture.name), "leave it out");
  return {};
}

// Returns how many instances have the GPUs of a pool.
model::Result<std::int64_t> instances_of(const model::Plan& plan, PoolKind kind, std::int64_t gpus,
                                         const model::Instance& instance) {
  const std::int64_t each = instance.gpus();
  if (gpus >= each && gpus % each == 0) return gpus / each;
  const std::int64_t below = gpus / each * each;
  const std::string key = kind == PoolKind::both ? "cluster.gpus" : fmt::format("inference.{}.gpus", to_string(kind));
  return tl::unexpected(model::plan_error(
      plan, model::ErrorKind::infeasible, key,
      fmt::format("{} GPUs{} are no whole number of instances of {}: stages {} x tensor {} x attention data {}", gpus,
                  kind == PoolKind::both ? "" : fmt::format(" for {}", to_string(kind)), each, instance.pipeline,
                  instance.tensor, instance.attention_data),
      below > 0 ? fmt::format("use {} or {}", below, below + each) : fmt::format("use {}", each)));
}

// Returns the instances of both pools whose rates match best where the plan leaves the division open.
std::pair<std::int64_t, std::int64_t> matched(std::int64_t gpus, const PoolModel& prefill, const PoolModel& decode) {
  const std::int64_t each_prefill = prefill.instance().gpus(), each_decode = decode.instance().gpus();
  const auto rank_rate = [](double requests, const PoolModel& pool) {
    return requests * static_cast<double>(pool.instance().attention_data);
  };
  const double computed = 1 / prefill.prefill_seconds_per_token();
  const double batch = decode.requests_per_rank();
  const double decoded = batch * decode.tokens_per_step() / decode.step_seconds(batch) / decode.request().output;
  std::pair<std::int64_t, std::int64_t> best = {0, 0};
  double most = 0;
  for (std::int64_t p = 1; p * each_prefill + each_decode <= gpus; ++p) {
    const std::int64_t d = (gpus - p * each_prefill) / each_decode;
    const double rate = std::min(static_cast<double>(p) * rank_rate(computed, prefill) / decode.request().input,
                                 static_cast<double>(d) * rank_rate(decoded, decode));
    if (rate > most) best = {p, d};
    most = std::max(most, rate);
  }
  return best;
}

}  // namespace

model::Result<Deployment> ServingPredictor::Memos::deployment(const model::Plan& plan) {
  TRY(check_unread(plan, inputs.architecture));
  const std::int64_t gpus = plan.cluster.gpus;
  const auto& s = plan.inference;
  if (!s.disaggregated) {
    const auto pool = TRY(this->pool(plan, PoolKind::both));
    const std::int64_t instances = TRY(instances_of(plan, PoolKind::both, gpus, pool->instance()));
    return Deployment(plan, inputs.cluster, {pool, instances}, {pool, instances});
  }
  const auto prefill = TRY(pool(plan, PoolKind::prefill));
  const auto decode = TRY(pool(plan, PoolKind::decode));
  if (!s.prefill.gpus && !s.decode.gpus) {
    const auto [p, d] = matched(gpus, *prefill, *decode);
    const std::int64_t least = prefill->instance().gpus() + decode->instance().gpus();
    if (p == 0)
      return tl::unexpected(
          model::plan_error(plan, model::ErrorKind::infeasible, "cluster.gpus",
                            fmt::format("{} GPUs do not hold an instance of {} for prefill and one of {} for decode",
                                        gpus, prefill->instance().gpus(), decode->instance().gpus()),
                            fmt::format("use {}", least)));
    return Deployment(plan, inputs.cluster, {prefill, p}, {decode, d});
  }
  const std::int64_t prefill_gpus = s.prefill.gpus.value_or(gpus - s.decode.gpus.value_or(0));
  const std::int64_t decode_gpus = s.decode.gpus.value_or(gpus - prefill_gpus);
  if (prefill_gpus <= 0 || decode_gpus <= 0)
    return tl::unexpected(model::plan_error(
        plan, model::ErrorKind::infeasible, s.decode.gpus ? "inference.decode.gpus" : "inference.prefill.gpus",
        fmt::format("of {} GPUs none is left for {}", gpus, prefill_gpus <= 0 ? "prefill" : "decode"),
        "leave an instance to each pool, or give more GPUs (cluster.gpus)"));
  if (prefill_gpus + decode_gpus > gpus)
    return tl::unexpected(model::plan_error(
        plan, model::ErrorKind::infeasible, "inference.decode.gpus",
        fmt::format("{} GPUs for prefill and {} for decode are more than {}", prefill_gpus, decode_gpus, gpus),
        fmt::format("give decode {}", gpus - prefill_gpus)));
  const std::int64_t p = TRY(instances_of(plan, PoolKind::prefill, prefill_gpus, prefill->instance()));
  const std::int64_t d = TRY(instances_of(plan, PoolKind::decode, decode_gpus, decode->instance()));
  return Deployment(plan, inputs.cluster, {prefill, p}, {decode, d});
}

// Of requests that the plan leaves open a whole number. Errors are infeasible ones about limits that not even one
// request alone meets.
model::Result<double> ServingPredictor::Memos::concurrency(const model::Plan& plan, const Deployment& deployment,
                                                           const ServingMargin& margin) const {
  const auto& s = plan.inference;
  const auto unmet = [&](const char* key, double limit, double found, const char* what, const char* remedy) {
    return tl::unexpected(model::plan_error(
        plan, model::ErrorKind::infeasible, key,
        fmt::format("one request alone has {} of {:.4g} ms, the limit is {:.4g} ms", what, found * 1e3, limit * 1e3),
        fmt::format("allow {:.4g} s, or {}", found, remedy)));
  };
  const RequestTimes limits = limits_of(plan, margin);
  if (deployment.ttft_unloaded() > limits.ttft)
    return unmet("inference.max_ttft_s", *s.max_ttft_s, deployment.ttft_unloaded() * margin.ttft,
                 "a time to its first token", "divide prefill over more tensor ranks, or shorten the prompt");
  constexpr double rounding = 1 + 1e-9;  // Batches are bisected until they meet a limit.
  const auto whole = [&](double requests) { return std::max(1.0, std::floor(requests * rounding)); };
  if (!s.max_ttft_s && !s.max_tpot_s)
    return s.concurrency > 0 ? static_cast<double>(s.concurrency) : whole(deployment.most_concurrency());
  const auto within = deployment.concurrency_within(limits);
  if (const double alone = deployment.times(1).tpot; !within && alone > limits.tpot)
    return unmet("inference.max_tpot_s", *s.max_tpot_s, alone * margin.tpot, "a time per output token",
                 "divide the weights over more tensor ranks, store them in fewer bits, or speculate tokens");
  return s.concurrency > 0 ? static_cast<double>(s.concurrency) : whole(within.value_or(1));
}

void ServingPredictor::Memos::add_money(const model::Plan& plan, const Deployment& deployment,
                                        const ServingState& state, model::ServingResult& result) const {
  const auto price = price_of(plan, inputs.cluster);
  const double decoding = decode_gpus(deployment, state);
  const double all = static_cast<double>(deployment.gpus());
  result.usd_per_million_output_tokens = usd(price, decoding, result.output_tokens_per_s);
  result.usd_per_million_input_tokens = usd(price, all - decoding, result.input_tokens_per_s_per_gpu * all);
  result.usd_per_million_tokens_all_in = usd(price, all, result.output_tokens_per_s);
}

// Pools of their own have as many GPUs as their phase of the demand keeps busy, whatever the plan's ratio.
void ServingPredictor::Memos::add_demand(const model::Plan& plan, const Deployment& deployment,
                                         model::ServingResult& result) const {
  if (!plan.inference.demand_output_tokens_per_day) return;
  const double demand = *plan.inference.demand_output_tokens_per_day;
  if (deployment.disaggregated()) {
    const MeanRequest& request = deployment.decode().model->request();
    const double computed = computed_tokens(request.input, plan.inference.prefix_hit_rate) / request.output;
    result.demand_prefill_gpus = units_for(demand * computed, result.prefill_tokens_per_s_per_gpu);
    result.demand_decode_gpus = units_for(demand, result.batch_per_gpu / result.tpot_s);
    result.demand_gpus = *result.demand_prefill_gpus + *result.demand_decode_gpus;
  } else {
    result.demand_gpus = units_for(demand, result.output_tokens_per_s_per_gpu);
  }
  result.usd_per_million_output_tokens_of_demand =
      usd(price_of(plan, inputs.cluster), std::ceil(*result.demand_gpus), rate_of_demand(demand));
}

void ServingPredictor::Memos::add_constants(const Deployment& deployment, const ServingState& state,
                                            model::ServingResult& result) const {
  const auto& parameters = deployment.decode().model->costs().profile().profile.parameters();
  auto indices = deployment.decode().model->constants(state.batch / deployment.decode().ranks());
  const auto of_prefill = deployment.prefill().model->constants(0);
  indices.insert(indices.end(), of_prefill.begin(), of_prefill.end());
  std::ranges::sort(indices);
  const auto [first, last] = std::ranges::unique(indices);
  indices.erase(first, last);
  for (const std::int32_t index : indices) result.constants.push_back(parameters[static_cast<std::size_t>(index)]);
}

void ServingPredictor::Memos::add_notes(const model::Plan& plan, const Deployment& deployment,
                                        const ServingState& state, const ServingMargin& margin,
                                        model::ServingResult& result) const {
  const auto& s = plan.inference;
  result.notes.push_back(fmt::format("The time to the first token is the mean of {}.",
                                     s.arrivals == "waves" ? "a wave of requests that start together"
                                                           : "requests that arrive at random as others end"));
  if (state.concurrency > deployment.most_concurrency())
    result.notes.push_back(
        fmt::format("Of {:.6g} requests in flight some wait: {} {:.6g}.", state.concurrency,
                    deployment.decode().model->scheduler_binds() ? "the engine runs at most" : "there is space for",
                    std::floor(deployment.most_concurrency())));
  if (deployment.decode().model->costs().weights_only(s.weights))
    result.notes.push_back(
        fmt::format("GEMMs read activations in 16 bits: the GPU or its profile has none of {}.", to_string(s.weights)));
  if (state.fed)
    result.notes.push_back(fmt::format("Prefill binds: it starts {:.4g} requests a second, and {:.6g} decode.",
                                       state.requests, state.batch));
  const PoolModel& decode = *deployment.decode().model;
  const double per_rank = state.batch / deployment.decode().ranks();
  if (deployment.waits_for_sender(state))
    result.notes.push_back(
        fmt::format("The process that sends tokens to clients binds: it takes {:.4g} us for each, {:.4g} ms for those "
                    "of a step (inference.stream_interval).",
                    decode.costs().streaming_seconds(1) * 1e6, decode.costs().streaming_seconds(per_rank) * 1e3));
  if (const double requests = decode.requests_of_step(per_rank);
      decode.costs().replays(1) && !decode.costs().replays(requests))
    result.notes.push_back(
        fmt::format("A step of {:.6g} requests of a rank is larger than the engine's largest CUDA graph, of {:.6g}: "
                    "the host launches its kernels one by one.",
                    requests, decode.costs().largest_graph()));
  if (model::draft_of(plan, inputs.architecture) == model::DraftKind::lookup && !s.acceptance)
    result.notes.push_back(
        "Tokens that are looked up are accepted as in edits of a text (inference.acceptance): other text repeats "
        "less.");
  if (s.speculative_tokens == 0 && (s.draft != "auto" || s.acceptance))
    result.notes.push_back(fmt::format("No tokens are speculated (inference.speculative_tokens = 0): {} has no effect.",
                                       s.draft != "auto" ? "inference.draft" : "inference.acceptance"));
  const auto& parts = result.pools.back().parts;
  const auto drafts = std::ranges::find(parts, to_string(PassPart::speculation), &model::ServingPart::name);
  if (drafts != parts.end() && drafts->seconds > result.decode_step_s / 2)
    result.notes.push_back(
        fmt::format("Drafts take {:.0f} % of a step, more than what checks them: compare with "
                    "inference.speculative_tokens = 0, fewer of them, or a smaller draft.",
                    drafts->seconds / result.decode_step_s * 100));
  const double longest = model::longest_request(plan, model::PoolKind::both);
  const std::int64_t positions = inputs.architecture.longest_sequence;
  if (positions > 0 && longest > static_cast<double>(positions))
    result.notes.push_back(fmt::format(
        "Requests grow to {:.0f} tokens, the model was made for {}: an engine ends them there.", longest, positions));
  for (const std::string& sentence : model::unread_key_warnings(plan, inputs.architecture))
    result.notes.push_back(sentence + ".");
  const RequestTimes limits = limits_of(plan, margin);
  constexpr double any = std::numeric_limits<double>::infinity();
  const auto over = [&](const char* what, double limit, const RequestTimes& alone) {
    const auto most = deployment.concurrency_within(alone);
    result.notes.push_back(fmt::format("The time {} is above the limit of {:.4g} ms, which {} meet.", what, limit * 1e3,
                                       most ? fmt::format("at most {:.6g} requests in flight", *most) : "none"));
  };
  constexpr double rounding = 1 + 1e-9;  // Batches are bisected until they meet a limit.
  if (state.tpot > limits.tpot * rounding) over("per output token", *s.max_tpot_s, {any, limits.tpot});
  if (state.ttft > limits.ttft * rounding) over("to the first token", *s.max_ttft_s, {limits.ttft, any});
}

ServingPredictor::ServingPredictor(const Inputs& inputs) : memos_(std::make_shared<Memos>(inputs)) {}

ServingPredictor ServingPredictor::with(const ServingMargin& margin) const {
  ServingPredictor other = *this;
  other.margin_ = margin;
  return other;
}

model::Result<ServingRates> ServingPredictor::rates(const model::Plan& plan) const {
  const auto deployment = TRY(memos_->deployment(plan));
  return rates_of(deployment, deployment.state(TRY(memos_->concurrency(plan, deployment, margin_))));
}

model::Result<model::ServingResult> ServingPredictor::predict(const model::Plan& plan) const {
  const auto deployment = TRY(memos_->deployment(plan));
  const ServingState state = deployment.state(TRY(memos_->concurrency(plan, deployment, margin_)));
  const PoolModel& decode = *deployment.decode().model;
  const PoolModel& prefill = *deployment.prefill().model;
  const auto gpus = static_cast<double>(deployment.gpus());
  model::ServingResult result;
  result.concurrency = state.concurrency;
  result.batch_per_gpu = batch_per_gpu(deployment, state);
  const ServingRates rates = rates_of(deployment, state);
  result.tpot_s = rates.tpot_s;
  result.ttft_unloaded_s = rates.ttft_unloaded_s;
  result.ttft_s = rates.ttft_s;
  result.itl_worst_s = deployment.worst_step(state);
  result.output_tokens_per_s = output_rate(deployment, state);
  result.output_tokens_per_s_per_gpu = rates.output_tokens_per_s_per_gpu;
  result.input_tokens_per_s_per_gpu = state.requests * decode.request().input / gpus;
  result.output_tokens_per_s_per_node =
      result.output_tokens_per_s_per_gpu * static_cast<double>(memos_->inputs.cluster.gpus_per_node);
  result.decode_step_s = decode.step_seconds(state.batch / deployment.decode().ranks());
  result.tokens_per_step = decode.tokens_per_step();
  result.prefill_tokens_per_s_per_gpu = deployment.prefill().ranks() / prefill.prefill_seconds_per_token() /
                                        static_cast<double>(deployment.prefill().gpus());
  result.most_concurrency = deployment.most_concurrency();
  result.prefill_gpus = deployment.prefill().gpus();
  result.decode_gpus = deployment.decode().gpus();
  result.pools = pools_of(deployment, state);
  result.kv_bytes_per_token =
      model::cache_bytes(memos_->inputs.architecture, model::cache_type(plan.inference.kv_cache), 1, 1);
  result.state_bytes_per_request =
      model::request_state_bytes(decode.costs().architecture(PassModel::served)) * decode.memory().states_per_request;
  result.kv_capacity_tokens =
      result.pools.back().kv_capacity_tokens * static_cast<double>(deployment.decode().instances);
  result.bound_by = bound_of(deployment, state);
  memos_->add_money(plan, deployment, state, result);
  memos_->add_demand(plan, deployment, result);
  memos_->add_constants(deployment, state, result);
  memos_->add_notes(plan, deployment, state, margin_, result);
  return result;
}

model::Result<std::vector<model::ServingPoint>> ServingPredictor::frontier(const model::Plan& plan) const {
  return points_of(limits_of(plan, margin_), price_of(plan, memos_->inputs.cluster), TRY(memos_->deployment(plan)));
}

model::Result<model::ServingResult> predict_serving(const Inputs& inputs) {
  const ServingPredictor predictor(inputs);
  auto result = TRY(predictor.predict(inputs.plan));
  result.frontier = TRY(predictor.frontier(inputs.plan));
  return result;
}

}  // namespace plumbline::sim
