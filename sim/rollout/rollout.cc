#include "sim/rollout/rollout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/cost/collective_cost.h"
#include "model/cost/constants.h"
#include "model/economics/ownership.h"
#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "model/plan/rollout.h"
#include "model/program/compile.h"
#include "model/result/result.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/predict/simulate.h"
#include "sim/rollout/detail/rollout_forms.h"
#include "sim/serving/pool_model.h"
#include "sim/serving/serving.h"
#include "sim/serving/serving_forms.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {

namespace {

using model::Plan;
using model::RolloutResult;

constexpr std::uint64_t answers_seed = 1;
constexpr int drawn_steps = 8;  // whose mean is predicted

// Returns an error of the engines about the plan's own keys.
model::Error error_of_plan(const Plan& plan, model::Error error) {
  constexpr std::string_view degrees = "parallelism.";
  std::string key = error.key;
  if (key.starts_with(degrees)) key = "rollout." + key.substr(degrees.size());
  if (key == "cluster.gpus" && !model::is_colocated(plan)) key = "rollout.gpus";
  if (key == "inference.input_tokens") {
    key = "rollout.max_answer_tokens";
    error.hint = "shorten it, use more GPUs for an engine (rollout.tensor), or set inference.kv_cache = \"fp8\"";
  }
  if (key == error.key) return error;
  if (model::is_colocated(plan) && !plan.rollout.offload.value_or(true))
    error.hint += ", or set rollout.offload = true";
  return model::plan_error(plan, error.kind, std::move(key), std::move(error.message), std::move(error.hint));
}

// Return the bytes of the parameters that a rank keeps, and of these with the optimizer's states. What it gathers of
// other ranks' shards is there while it computes, and of one model at a time.
double kept_parameters(const model::RankMemory& rank) { return rank.parameters_bytes - rank.gathered_bytes; }
double kept_states(const model::RankMemory& rank) { return kept_parameters(rank) + rank.optimizer_bytes; }

// Returns the rank of the update that keeps most.
model::RankMemory fullest_states(const model::StepResult& update) {
  const auto fullest = std::ranges::max_element(update.memory.ranks, {}, kept_states);
  return fullest == update.memory.ranks.end() ? model::RankMemory() : *fullest;
}

// What a GPU holds besides the policy that trains on it: a critic, and models that nothing changes, in policies. Next
// to adapters the reference model is the policy without them. A reward model is divided over the GPUs as the policy is.
struct OtherModels {
  double critics = 0, frozen = 0;

  explicit OtherModels(const Inputs& inputs) {
    const model::RolloutPasses passes = model::passes_of(inputs.plan);
    critics = passes.critic ? 1 : 0;
    frozen = passes.reference && model::adapters_of(inputs.plan).rank == 0 ? 1 : 0;
    if (!inputs.reward) return;
    const std::int64_t length = inputs.plan.batch.sequence_length;
    frozen += model::model_metrics(*inputs.reward, length).parameters /
              model::model_metrics(inputs.architecture, length).parameters;
  }
  double bytes(const model::RankMemory& rank) const {
    return critics * kept_states(rank) + frozen * kept_parameters(rank);
  }
};

bool offloads(const Plan& plan) { return model::is_colocated(plan) && plan.rollout.offload.value_or(true); }

// An engine whose decode steps depend on how long answers are by then. What attention reads grows with the tokens in
// the cache, so that steps lie on a line between those with no answer yet and those with the longest one.
class Engine {
 public:
  // `decoding` is the mean length of the answers that a step decodes, weighed by how many steps they take; an engine
  // holds as many requests as have space when they are half of it.
  static model::Result<Engine> make(const Inputs& inputs, double decoding) {
    Engine engine;
    engine.costs_ = TRY(PassCosts::make(inputs));
    const double longest = static_cast<double>(inputs.plan.inference.output_tokens);
    const auto pool = [&](double output) {
      Plan plan = inputs.plan;
      plan.inference.output_tokens = std::llround(std::max(1.0, output));
      return PoolModel::make(inputs, *engine.costs_, plan, model::PoolKind::both);
    };
    engine.longest_ = longest;
    engine.last_ = TRY(pool(2 * longest));
    engine.first_ = TRY(pool(2));
    engine.mean_ = TRY(pool(decoding));
    return engine;
  }

  const model::Instance& instance() const { return mean_->instance(); }
  const PoolMemory& memory() const { return mean_->memory(); }
  double groups() const { return static_cast<double>(instance().attention_data); }  // with requests of their own
  double most() const { return mean_->requests_per_rank() * groups(); }
  double tokens_per_step() const { return mean_->tokens_per_step(); }
  double prefill(double computed) const { return mean_->prefill_seconds_per_token() * computed / groups(); }
  double step(double requests, double answered) const {
    const double batch = requests / groups(), first = first_->step_seconds(batch);
    const double share = longest_ > 1 ? std::clamp((answered - 1) / (longest_ - 1), 0.0, 1.0) : 0;
    return first + share * (last_->step_seconds(batch) - first);
  }

 private:
  std::shared_ptr<const PassCosts> costs_;
  std::shared_ptr<const PoolModel> first_, mean_, last_;
  double longest_ = 1;
};

struct Generation {              // of a step, in the mean of those that are drawn
  double seconds = 0, busy = 0;  // of the last engine; of all, in the mean
  double tail = 0, longest = 0, tokens = 0;
};

// Draws the answers of steps, deals them to engines and lets each drain. With a staleness of several steps an engine
// goes on with the answers of the next ones while the last of a step end.
Generation generate(const Plan& plan, const AnswerLengths& lengths, const Engine& engine, std::int64_t instances) {
  const auto together = static_cast<std::size_t>(plan.rollout.staleness.value_or(1));
  const auto of_step =
      static_cast<std::size_t>(std::llround(model::trained_answers(plan) * model::passes_of(plan).oversampling));
  const auto engines = static_cast<std::size_t>(instances);
  const double prompt = static_cast<double>(plan.rollout.prompt_tokens);
  const double computed = computed_tokens(prompt, model::engine_plan(plan).inference.prefix_hit_rate);
  const auto step = [&](double requests, double answered) { return engine.step(requests, answered); };
  const double steps = drawn_steps, steps_together = static_cast<double>(together), all = static_cast<double>(engines);
  Generation mean;
  for (int drawn = 0; drawn < drawn_steps; ++drawn) {
    model::Random random(answers_seed, static_cast<std::uint64_t>(drawn) << 32);
    std::vector<std::vector<double>> dealt(engines);
    double longest = 0;
    for (std::size_t i = 0; i < of_step * together; ++i) {
      const double length = lengths.draw(random);
      dealt[i % engines].push_back(length);
      longest = std::max(longest, length);
      mean.tokens += length / steps_together / steps;
    }
    double last = 0;
    for (const std::vector<double>& own : dealt) {
      if (own.empty()) continue;
      const Drain drained = drain(own, engine.most(), engine.prefill(computed), engine.tokens_per_step(), step);
      last = std::max(last, drained.seconds);
      mean.busy += drained.seconds / steps_together / all / steps;
      mean.tail += (drained.seconds - drained.nine_tenths) / steps_together / all / steps;
    }
    mean.seconds += last / steps_together / steps;
    mean.longest += longest / steps;
  }
  return mean;
}

// Returns the mean length of the answers that a step decodes: E[length^2] / E[length].
double decoding_length(const AnswerLengths& lengths) {
  constexpr int draws = 65536;
  model::Random random(answers_seed);
  double sum = 0, squares = 0;
  for (int i = 0; i < draws; ++i) {
    const double length = lengths.draw(random);
    sum += length;
    squares += length * length;
  }
  return squares / sum;
}

// Returns the share of the tokens of an update's sequences that its samples have. Micro-batches are alike and not full,
// as software that packs samples by a limit of tokens makes them; their time grows with their tokens.
double filled_share(const Plan& plan) {
  const double sequences = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  const double tokens = model::trained_answers(plan) * model::sample_tokens(plan);
  return std::min(1.0, tokens / static_cast<double>(plan.rollout.updates) / sequences);
}

// Returns the seconds of an update over its samples.
double filled_update(const Plan& plan, const model::StepTimes& update) {
  const double optimizer = update.optimizer_s.value_or(0);
  return optimizer + filled_share(plan) * (update.time_s - optimizer);
}

// Returns the seconds of a forward pass over all samples of a step: the micro-batches of its updates follow each other
// through the stages.
double forward_pass(const Plan& plan, const model::Layout& layout, const model::StepTimes& update) {
  constexpr auto forward = static_cast<std::size_t>(model::OpType::F);
  const auto slots = static_cast<double>(update.slot_counts[forward]);
  const double chunk =
      slots > 0 ? update.slots_mean_s[forward].value_or(0) / slots : update.chunk_s[forward].value_or(0);
  const auto count = static_cast<double>(plan.rollout.updates * layout.micro_batches * plan.schedule.virtual_stages);
  return filled_share(plan) * chunk * (count + static_cast<double>(plan.parallelism.pipeline - 1));
}

// Returns the seconds until the engines have the policy's weights. Each parameter is gathered in full on the ranks over
// which it is divided, before an engine takes its part; engines on GPUs of their own get it by a broadcast over both
// pools (volcengine/verl verl/workers/sharding_manager/fsdp_vllm.py, update_params; docs/advance/one_step_off.md).
double synchronization(const Inputs& inputs, const model::CollectiveCost& collectives, double weights) {
  const Plan& plan = inputs.plan;
  const auto& degrees = plan.parallelism;
  const std::int64_t node = inputs.cluster.gpus_per_node;
  const std::int64_t whole = degrees.tensor * degrees.pipeline;
  const std::int64_t shards = degrees.shard_group > 0 ? degrees.shard_group * whole : plan.cluster.gpus;
  const std::int64_t held = std::min(plan.cluster.gpus, degrees.zero_stage == 3 ? shards : whole * degrees.expert);
  const auto time = [&](model::Collective collective, std::int64_t ranks) {
    return collectives.time(collective, model::CollectiveGroup::strided(ranks, 1, node), model::Bytes(weights));
  };
  const double gathered = time(model::Collective::all_gather, held);
  if (model::is_colocated(plan)) return gathered;
  return gathered + time(model::Collective::broadcast, plan.cluster.gpus + model::rollout_gpus(plan));
}

class Prediction {
 public:
  Prediction(const Inputs& inputs, const model::StepResult& update)
      : inputs_(inputs),
        plan_(inputs.plan),
        update_(update),
        passes_(model::passes_of(inputs.plan)),
        trained_(fullest_states(update)),
        others_(inputs) {}

  model::Result<RolloutResult> make() {
    const auto& r = plan_.rollout;
    const Inputs engines = TRY(engine_inputs());
    const AnswerLengths lengths(static_cast<double>(r.answer_tokens), r.answer_tokens_sd,
                                static_cast<double>(r.max_answer_tokens));
    const Engine engine = TRY(Engine::make(engines, decoding_length(lengths)));
    const auto collectives = TRY(model::CollectiveCost::make(inputs_.profile, inputs_.cluster));
    const auto layout = TRY(model::make_layout(plan_, inputs_.architecture));
    const std::int64_t gpus = model::rollout_gpus(plan_), each = engine.instance().gpus();
    if (gpus % each != 0)
      return tl::unexpected(
          model::plan_error(plan_, model::ErrorKind::infeasible, "cluster.gpus",
                            fmt::format("{} GPUs that generate are no whole number of engines of {}", gpus, each),
                            fmt::format("use {}", (gpus / each + 1) * each)));
    result_.algorithm = r.algorithm;
    result_.placement = r.placement;
    result_.engine_gpus = gpus;
    result_.training_gpus = plan_.cluster.gpus;
    result_.gpus = model::is_colocated(plan_) ? gpus : gpus + plan_.cluster.gpus;
    result_.instances = gpus / each;
    result_.requests_at_once = std::floor(engine.most());
    result_.updates = r.updates * r.epochs;
    result_.weights_bytes = engine.memory().weights * static_cast<double>(each);
    result_.cut_share = lengths.cut_share();
    TRY(add_swap());
    add("weights to the engines", "all", synchronization(inputs_, collectives, result_.weights_bytes));
    const Generation generation = generate(plan_, lengths, engine, result_.instances);
    add("generation", "engines", generation.seconds);
    add_training(layout);
    add_memory(engine);
    add_step(generation);
    add_money();
    return std::move(result_);
  }

 private:
  void add(std::string name, std::string pool, double seconds) {
    if (seconds > 0) result_.parts.push_back({std::move(name), std::move(pool), seconds});
  }
  // What trains and stays on the GPUs takes its part of the memory before the engine does.
  model::Result<Inputs> engine_inputs() const {
    Inputs engines = *inputs_.engines;
    if (!engines.routing) engines.routing = std::make_shared<ExpertGroupMemo>();
    engines.plan.inference.output_tokens = plan_.rollout.max_answer_tokens;
    if (!model::is_colocated(plan_) || offloads(plan_)) return engines;
    const double left = 1 - (kept_states(trained_) + others_.bytes(trained_)) / update_.memory.capacity_bytes;
    if (left <= 0)
      return tl::unexpected(model::plan_error(plan_, model::ErrorKind::infeasible, "rollout.offload",
                                              "what trains leaves no memory to an engine",
                                              "set it to true, or shard more (parallelism.zero_stage)"));
    engines.plan.inference.memory_share *= left;
    engines.plan.places["inference.memory_share"] = {};
    return engines;
  }
  // What trains is copied to the host and back; models that nothing changes are copied from there.
  model::Result<void> add_swap() {
    if (!offloads(plan_)) return {};
    model::ConstantReader reader(inputs_.profile);
    const double efficiency = reader.require("host.link_efficiency").value;
    if (reader.error()) return tl::unexpected(*reader.error());
    const double rate = inputs_.cluster.device.host_bandwidth.value() * efficiency;
    if (rate == 0)
      return tl::unexpected(model::plan_error(
          plan_, model::ErrorKind::infeasible, "rollout.offload",
          fmt::format("no constant gives the rate between {} and its host", inputs_.cluster.device.name),
          "set it to false, or add host_bandwidth to the device's file"));
    const double copied =
        2 * (1 + others_.critics) * kept_states(trained_) + others_.frozen * kept_parameters(trained_);
    add("states to the host and back", "all", copied / rate);
    return {};
  }
  void add_training(const model::Layout& layout) {
    const Plan::Rollout& r = plan_.rollout;
    const double forward = forward_pass(plan_, layout, update_.step);
    if (inputs_.reward) {
      const std::int64_t length = plan_.rollout.prompt_tokens + plan_.rollout.answer_tokens;
      const double size = model::model_metrics(*inputs_.reward, length).flops_per_token /
                          model::model_metrics(inputs_.architecture, length).flops_per_token;
      add("reward model", "training", forward * size * passes_.oversampling);
    } else {
      const double answers = model::trained_answers(plan_) * passes_.oversampling;
      add("rewards by rule", "hosts", r.reward_s * std::ceil(answers / static_cast<double>(result_.engine_gpus)));
    }
    if (r.old_log_probs) add("old log-probabilities", "training", forward);
    if (passes_.reference) add("reference log-probabilities", "training", forward);
    if (passes_.critic) add("values of the critic", "training", forward);
    const double trained = static_cast<double>(result_.updates) * filled_update(plan_, update_.step);
    if (passes_.critic) add("training of the critic", "training", trained);
    add("training of the policy", "training", trained);
  }
  void add_memory(const Engine& engine) {
    const PoolMemory& held = engine.memory();
    const bool colocated = model::is_colocated(plan_);
    const double others = others_.bytes(trained_);
    model::RolloutMemory& memory = result_.memory;
    memory.capacity_bytes = update_.memory.capacity_bytes;
    memory.host_capacity_bytes = update_.memory.host_capacity_bytes;
    const model::RankMemory* fullest = model::fullest_rank(update_.memory);
    memory.training_bytes = (fullest != nullptr ? fullest->least_bytes() : 0) + (colocated ? held.reserve : 0);
    memory.generation_bytes = held.weights + held.reserve + held.activations + held.space;
    memory.host_bytes = update_.memory.host_bytes;
    if (offloads(plan_)) {
      const std::int64_t gpus = std::min(inputs_.cluster.device.host_gpus, plan_.cluster.gpus);
      memory.host_bytes += (kept_states(trained_) + others) * static_cast<double>(gpus);
    } else {
      memory.training_bytes += others;
      if (colocated) memory.generation_bytes += kept_states(trained_) + others;
    }
    const bool host = memory.host_capacity_bytes == 0 || memory.host_bytes <= memory.host_capacity_bytes;
    memory.fits = host && std::max(memory.training_bytes, memory.generation_bytes) <= memory.capacity_bytes;
  }
  void add_step(const Generation& generation) {
    const double step = result_.step_s = result_.step_with(1, 1);
    if (model::is_colocated(plan_)) {
      result_.engines_idle = result_.training_idle =
          (generation.seconds - generation.busy + result_.seconds_of("hosts")) / step;
    } else {
      const double both = result_.seconds_of("all");
      result_.engines_idle = 1 - (both + generation.busy) / step;
      result_.training_idle = 1 - (both + result_.seconds_of("training")) / step;
    }
    result_.tail_s = generation.tail;
    result_.longest_tokens = generation.longest;
    result_.tokens_per_s = model::trained_answers(plan_) * model::sample_tokens(plan_) / step;
    result_.tokens_per_s_per_gpu = result_.tokens_per_s / static_cast<double>(result_.gpus);
    result_.generated_tokens_per_s = generation.tokens / generation.seconds;
  }
  void add_money() {
    constexpr double hour = 3600, day = 24 * hour;
    const double gpu_hours = result_.step_s * static_cast<double>(result_.gpus) / hour;
    const auto price = model::hourly_price(plan_, inputs_.cluster).value;
    if (price && price->value > 0) result_.step_usd = gpu_hours * price->value;
    if (!plan_.rollout.steps) return;
    model::RunCost& run = result_.run.emplace();
    run.steps = static_cast<double>(*plan_.rollout.steps);
    if (plan_.run.goodput) run.goodput = model::number_of(*plan_.run.goodput).value_or(1);
    const double passed = run.steps / run.goodput;  // in steps
    run.days = passed * result_.step_s / day;
    run.gpu_hours = passed * gpu_hours;
    if (result_.step_usd) run.cost_usd = passed * *result_.step_usd;
  }

  const Inputs& inputs_;
  const Plan& plan_;
  const model::StepResult& update_;
  model::RolloutPasses passes_;
  model::RankMemory trained_;  // of the rank with the most states
  OtherModels others_;
  RolloutResult result_;
};

}  // namespace

model::Result<RolloutResult> predict_rollout(const Inputs& inputs, const model::StepResult& update) {
  return Prediction(inputs, update).make().map_error([&](model::Error error) {
    return error_of_plan(inputs.plan, std::move(error));
  });
}

// Intervals of steps of reinforcement learning, from the draws of both halves, and results that have both.

namespace {

constexpr std::size_t copies_of_draw = 16;  // values of what is left of the updates for each draw

// Returns the draws of an update over its prediction, with what is left of steps.
std::vector<double> update_ratios(const Inputs& inputs, const std::vector<double>& drawn, std::uint64_t seed) {
  const Left left = inputs.left.value_or(Left{});
  const double deviation = std::hypot(left.common, left.own);
  std::vector<double> ratios = normal_column("what is left of updates", seed, drawn.size() * copies_of_draw);
  for (std::size_t i = 0; i < ratios.size(); ++i)
    ratios[i] = drawn[i / copies_of_draw] * std::exp(left.location + deviation * ratios[i]);
  return ratios;
}

// Returns the draws of a decode step over its prediction, with what is left of the engine, at the answers in flight.
model::Result<std::vector<double>> decode_ratios(const Inputs& inputs, const model::RolloutResult& rollout,
                                                 IntervalOptions options) {
  Inputs engines = *inputs.engines;
  engines.plan.inference.concurrency =
      std::max<std::int64_t>(1, std::llround(rollout.requests_at_once)) * rollout.instances;
  const auto serving = TRY(predict_serving(engines));
  options.parts = false;
  return TRY(draw_serving_interval(engines, serving, options)).tpot_ratio;
}

}  // namespace

model::Result<void> add_rollout_interval(const Inputs& inputs, model::StepResult& update, const StepDraws& draws,
                                         const IntervalOptions& options) {
  model::RolloutResult& rollout = *update.rollout;
  const std::vector<double> training = update_ratios(inputs, draws.time_ratio, options.seed);
  const auto decode = TRY(unless_stopped(decode_ratios(inputs, rollout, options)));
  if (!decode) return {};
  std::vector<double> steps;
  for (std::size_t i = 0; i < std::min(training.size(), decode->size() * copies_of_draw); ++i)
    steps.push_back(rollout.step_with((*decode)[i / copies_of_draw], training[i]));
  rollout.interval_s = model::quantiles_of(std::move(steps));
  return {};
}

model::Result<void> add_rollout(const Inputs& inputs, model::StepResult& update, const std::optional<StepDraws>& draws,
                                const IntervalOptions& options) {
  if (!inputs.engines) return {};
  auto rollout = predict_rollout(inputs, update);
  if (!rollout && rollout.error().kind == model::ErrorKind::input) return tl::unexpected(rollout.error());
  if (!rollout) {
    update.rollout_error = std::move(rollout.error());
    return {};
  }
  update.rollout = std::move(*rollout);
  return draws ? add_rollout_interval(inputs, update, *draws, options) : model::Result<void>();
}

namespace {

using model::ErrorKind;
using model::Result;

constexpr std::size_t tried_updates = 3;  // fastest ones of a number of GPUs, until one fits with its engines

// Numbers of GPUs that generate on GPUs of their own: eighths of all, in whole nodes where there are several.
std::vector<std::int64_t> engine_shares(const Plan& plan, std::int64_t gpus, std::int64_t node) {
  if (asked(plan, "rollout.gpus")) return {model::rollout_gpus(plan)};
  const std::int64_t eighth = std::max<std::int64_t>(1, gpus / 8);
  const std::int64_t unit = gpus > node ? (eighth + node - 1) / node * node : eighth;
  std::vector<std::int64_t> shares;
  for (std::int64_t share = unit; share < gpus; share += unit) shares.push_back(share);
  return shares;
}

std::vector<std::int64_t> engine_tensors(const Plan& plan, std::int64_t engine_gpus, std::int64_t node) {
  const std::int64_t own = plan.rollout.tensor.value_or(1);
  if (asked(plan, "rollout.tensor")) return {own};
  std::vector<std::int64_t> tensors;
  for (std::int64_t tensor = 1; tensor <= node; tensor *= 2)
    if (engine_gpus % tensor == 0) tensors.push_back(tensor);
  if (std::ranges::find(tensors, own) == tensors.end()) tensors.push_back(own);
  return tensors;
}

// Returns the plan with `engine_gpus` of the GPUs for generation, or with all of them for both halves.
Plan divided(Plan plan, const std::string& placement, std::int64_t gpus, std::int64_t engine_gpus) {
  auto& r = plan.rollout;
  r.placement = placement;
  if (model::is_colocated(plan)) {
    r.gpus.reset();
    plan.cluster.gpus = gpus;
  } else {
    r.gpus = engine_gpus;
    r.offload.reset();
    plan.cluster.gpus = gpus - engine_gpus;
  }
  if (placement != "asynchronous") r.staleness.reset();
  return plan;
}

// The fastest updates on a number of GPUs that train.
struct Updates {
  Inputs inputs;
  std::vector<RankedPlan> plans;
};

double seconds_per_sequence(const RankedPlan& found) {
  return found.result.step.time_s / static_cast<double>(found.plan.batch.global_batch_size);
}

Result<Updates> find_updates(const Plan& plan, const LoadInputs& load, SearchOptions options, const Watch& watch) {
  Updates updates{TRY(load(plan)), {}};
  options.top = tried_updates;
  options.stopped = watch.stopped;
  options.on_progress = {};
  const SearchResult found = TRY(search(updates.inputs, options));
  std::vector<Plan> plans;
  for (const Candidate& candidate : found.best) {
    plans.push_back(candidate.plan);
    plans.back().search = {};
    if (plans.size() == tried_updates) break;
  }
  auto simulations = simulate_top_plans(updates.inputs, plans, watch.stopped);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!simulations[i]) continue;
    model::StepResult& result = simulations[i]->result;
    Inputs own = updates.inputs;
    own.plan = plans[i];
    if (result.memory.fits) add_fit(own, result.memory);
    if (result.memory.fits && *result.memory.fits_probability >= plan.search.min_fit)
      updates.plans.push_back({std::move(plans[i]), std::move(result), {}});
  }
  std::ranges::stable_sort(updates.plans, {}, seconds_per_sequence);
  if (!updates.plans.empty()) return updates;
  const bool evaluated = found.evaluated > 0 || found.removed.empty();
  const std::string rule = evaluated ? "none that was evaluated fits in memory" : found.removed.back().rule;
  return model::infeasible("rollout", fmt::format("no update on {} GPUs: {}", plan.cluster.gpus, rule),
                           "leave more GPUs to the training, or shard more");
}

// Returns what the step costs in the middle of its interval.
PlanCost cost_of(const model::RolloutResult& rollout) {
  const model::RolloutResult middle = model::middle_rollout(rollout);
  PlanCost cost;
  cost.gpus = static_cast<double>(middle.gpus);
  cost.step_s = middle.step_s;
  if (!middle.run) return cost;
  cost.days = middle.run->days;
  cost.gpu_hours = middle.run->gpu_hours;
  cost.usd = middle.run->cost_usd;
  return cost;
}

// Predicts the step of a split's best plan as that plan is read, whose engines have what was searched, too, and adds
// its interval, of which there is none where it was stopped.
Result<void> predict_found(const LoadInputs& load, RankedPlan& best, unsigned threads, const Watch& watch) {
  Inputs inputs = TRY(load(best.plan));
  inputs.plan = best.plan;
  best.result.rollout = TRY(predict_rollout(inputs, best.result));
  best.cost = cost_of(*best.result.rollout);
  const IntervalOptions options{.threads = threads, .parts = false, .watch = {watch.stopped}};
  auto drawn = TRY(unless_stopped(draw_interval(inputs, best.result, options)));
  if (!drawn) return {};
  best.result.interval = std::move(drawn->interval);
  TRY(add_rollout_interval(inputs, best.result, drawn->draws, options));
  best.cost = cost_of(*best.result.rollout);
  return {};
}

// Fills the split with the fastest update that fits next to the engines which make the shortest step with it.
Result<void> decide(const Updates& updates, const Plan::Rollout& rollout_keys, const std::vector<std::int64_t>& tensors,
                    RolloutSplit& split) {
  for (const RankedPlan& update : updates.plans) {
    for (const std::int64_t tensor : tensors) {
      Inputs own = updates.inputs;
      own.plan = update.plan;
      own.plan.rollout = rollout_keys;
      own.plan.rollout.tensor = tensor;
      auto engines = std::make_shared<Inputs>(*own.engines);
      engines->plan.parallelism.tensor = tensor;
      own.engines = std::move(engines);
      const auto rollout = predict_rollout(own, update.result);
      if (!rollout && rollout.error().kind == ErrorKind::input) return tl::unexpected(rollout.error());
      if (!rollout || !rollout->memory.fits) {
        split.refusal = rollout ? "training, generation or their states on the hosts do not fit in memory"
                                : rollout.error().message;
        continue;
      }
      if (split.best && split.best->cost.step_s <= rollout->step_s) continue;
      split.best = RankedPlan{own.plan, update.result, cost_of(*rollout)};
      split.best->result.rollout = *rollout;
    }
    if (!split.best) continue;
    split.refusal.clear();
    break;
  }
  return {};
}

}  // namespace

Result<void> search_splits(RolloutAnswer& answer, std::size_t option, std::int64_t gpus, const LoadInputs& load,
                           const LoadInputs& load_found, const SearchOptions& options, const Watch& watch) {
  const Inputs& given = answer.options[option].inputs;
  const std::int64_t node = given.cluster.gpus_per_node;
  const auto wanted = [&](const std::string& placement) {
    return !asked(given.plan, "rollout.placement") || given.plan.rollout.placement == placement;
  };
  std::vector<RolloutSplit> splits;
  if (wanted("colocated")) splits.push_back({option, "colocated", gpus, gpus, {}, {}});
  for (const std::int64_t share : engine_shares(given.plan, gpus, node))
    for (const char* placement : {"split", "asynchronous"})
      if (wanted(placement)) splits.push_back({option, placement, gpus - share, share, {}, {}});
  std::optional<Result<Updates>> updates;
  std::int64_t trained = 0;  // GPUs of `updates`
  for (std::size_t i = 0; i < splits.size(); ++i) {
    RolloutSplit& split = splits[i];
    if (watch.on_progress) watch.on_progress(i, splits.size());
    if (watch.stops()) {
      answer.complete = false;
      break;
    }
    if (split.training_gpus < 1) {
      split.refusal = fmt::format("rollout.gpus = {} leaves none of {} GPUs to the training", split.engine_gpus, gpus);
      answer.splits.push_back(std::move(split));
      continue;
    }
    Plan plan = divided(given.plan, split.placement, gpus, split.engine_gpus);
    if (!updates || trained != split.training_gpus) {
      trained = split.training_gpus;
      const auto completed = model::complete_rollout(plan);
      updates = completed ? find_updates(plan, load, options, watch) : tl::unexpected(completed.error());
      if (watch.stops()) {  // of whose updates not all were decided
        answer.complete = false;
        break;
      }
    }
    if (!*updates && updates->error().kind == ErrorKind::input) return tl::unexpected(updates->error());
    if (*updates) {
      TRY(decide(**updates, plan.rollout, engine_tensors(given.plan, split.engine_gpus, node), split));
      if (split.best) TRY(predict_found(load_found, *split.best, options.threads, watch));
    } else {
      split.refusal = updates->error().message;
    }
    if (watch.stops()) answer.complete = false;
    if (answer.complete || split.best) answer.splits.push_back(std::move(split));  // no refusal of what was stopped
  }
  return {};
}

void rank(RolloutAnswer& answer) {
  std::vector<PlanCost> costs;
  std::vector<std::size_t> found, rest;
  for (std::size_t i = 0; i < answer.splits.size(); ++i) {
    if (answer.splits[i].best) {
      costs.push_back(answer.splits[i].best->cost);
      found.push_back(i);
    } else {
      rest.push_back(i);
    }
  }
  std::vector<RolloutSplit> ordered;
  for (const std::size_t place : ranked(costs, answer.objective, answer.limits))
    ordered.push_back(std::move(answer.splits[found[place]]));
  for (const std::size_t place : rest) ordered.push_back(std::move(answer.splits[place]));
  answer.splits = std::move(ordered);
}

}  // namespace plumbline::sim
