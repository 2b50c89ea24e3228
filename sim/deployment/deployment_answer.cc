#include "sim/deployment/deployment_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "model/architecture/metrics.h"
#include "model/base/data_type.h"
#include "sim/deployment/detail/pool_space.h"
#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/search/cluster_option.h"
#include "sim/serving/pass_costs.h"
#include "sim/serving/pool_model.h"
#include "sim/serving/serving.h"
#include "sim/serving/serving_forms.h"
#include "sim/tasks/indices.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {

namespace {

using model::Plan;
using model::Result;
using model::ServingResult;

constexpr double seconds_per_hour = 3600, seconds_per_day = 86400;

constexpr const char* weights_rule = "memory: weights alone exceed the GPU";
constexpr const char* slow_prefill_rule =
    "prefill: other pools compute more tokens/s per GPU within inference.max_ttft_s";
constexpr const char* no_prefill_rule = "prefill: no pool computes a prompt within inference.max_ttft_s";
constexpr const char* slow_rule = "limits: TPOT or TTFT is longer than the plan allows";
constexpr const char* waiting_rule = "requests: some of inference.concurrency would wait for memory or for prefill";
constexpr const char* no_split_rule = "GPUs: too few for an instance of each pool";

// Batches are bisected until they meet a limit but for rounding.
bool exceeds(double found, const std::optional<double>& limit) {
  constexpr double rounding = 1e-9;
  return limit && found > *limit * (1 + rounding);
}

double billed_gpus(const Plan& plan) { return static_cast<double>(plan.cluster.gpus); }

// Returns the output tokens per second that somebody asked for.
double useful_rate(const Plan& plan, const ServingResult& result) {
  const auto& demand = plan.inference.demand_output_tokens_per_day;
  return demand ? std::min(result.output_tokens_per_s, *demand / seconds_per_day) : result.output_tokens_per_s;
}

// Counts deployments that were not kept, by rule.
class RemovedCounts {
 public:
  void add(const std::string& rule, std::uint64_t plans, const std::string& example = "") {
    if (plans == 0) return;
    const auto found = std::ranges::find(removed_, rule, &Removed::rule);
    Removed& entry = found != removed_.end() ? *found : removed_.emplace_back(Removed{rule, 0, example});
    entry.plans += plans;
  }
  std::vector<Removed> take() { return std::move(removed_); }

 private:
  std::vector<Removed> removed_;
};

// The degrees that make two deployments different in the list of the best, those of the pool that decodes; the others
// only tune them.
auto decode_shape(const Plan& plan) {
  const model::Instance decode = model::instance_of(plan, model::PoolKind::decode);
  return std::tuple(plan.inference.disaggregated, decode.tensor, decode.pipeline, decode.expert, decode.attention_data);
}

// Splits to try where it is given how many requests there are: the first, the last, and some between them.
std::vector<PoolSplit> spread(const std::vector<PoolSplit>& splits) {
  constexpr std::size_t most = 5;
  if (splits.size() <= most) return splits;
  std::vector<PoolSplit> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(splits[i * (splits.size() - 1) / (most - 1)]);
  return some;
}

class DeploymentSearch {
 public:
  DeploymentSearch(const Inputs& inputs, const DeploymentPredictor& predictor, const DeploymentGoal& goal,
                   const SearchOptions& options)
      : inputs_(inputs), predictor_(predictor), goal_(goal), options_(options), base_(inputs.plan) {
    base_.search = {};
    base_.places.clear();
    base_.batch = {};
    base_.inference.given = true;
    const bool fixed = goal.objective == Objective::latency || asked(inputs.plan, "inference.concurrency");
    if (!fixed) base_.inference.concurrency = 0;
  }

  Result<DeploymentSearchResult> run() {
    find_shapes();
    for (const bool apart : disaggregations(inputs_.plan)) {
      if (apart)
        TRY(search_pairs());
      else
        TRY(search_single_pools());
    }
    rank();
    add_frontier();
    if (result_.best.empty() && result_.complete) TRY(find_closest());
    result_.removed = removed_.take();
    return std::move(result_);
  }

 private:
  // What became of one plan: a deployment, or the rule by which it was removed.
  struct Outcome {
    std::optional<RankedDeployment> deployment;
    std::string rule, example;
    std::optional<model::Error> wrong;
    bool decided = false;
  };
  struct PrefillPool {
    model::Instance shape;
    double tokens_per_s = 0;  // of an instance, computed
    double per_gpu = 0;
  };

  bool is_free() const { return base_.inference.concurrency == 0; }
  bool stopped() const { return options_.stopped && options_.stopped(); }

  void find_shapes() {
    constexpr std::int64_t any_length = 4096;  // parameters do not depend on it
    const double parameters = model::model_metrics(inputs_.architecture, any_length).parameters;
    const model::Precision format = base_.inference.weights;
    const double bytes = parameters * std::min(model::bytes_per_element(model::weight_type(format)),
                                               model::bytes_per_element(model::activation_type(format)));
    const double room = base_.inference.memory_share * inputs_.cluster.device.memory.value();
    for (const model::Instance& shape : pool_instances(inputs_, base_.cluster.gpus)) {
      const bool fits = bytes / static_cast<double>(shape.gpus()) <= room;
      (fits ? shapes_ : too_large_).push_back(shape);
    }
  }

  bool fills(const model::Instance& shape) const { return base_.cluster.gpus % shape.gpus() == 0; }

  Result<void> search_single_pools() {
    const std::vector<std::int64_t> chunks = chunk_sizes(inputs_.plan);
    const auto too_large = static_cast<std::uint64_t>(
        std::ranges::count_if(too_large_, [&](const model::Instance& shape) { return fills(shape); }));
    std::vector<Plan> plans;
    for (const model::Instance& shape : shapes_) {
      if (!fills(shape)) continue;
      for (const std::int64_t chunk : chunks) {
        Plan& plan = plans.emplace_back(base_);
        use_one_pool(plan, shape);
        plan.inference.chunked_prefill_tokens = chunk;
      }
    }
    removed_.add(weights_rule, too_large * chunks.size());
    result_.space += plans.size() + too_large * chunks.size();
    const auto outcomes = decide(plans.size(), [&](std::size_t i) { return predict(plans[i]); });
    std::ranges::move(plans, std::back_inserter(plans_));
    return keep(outcomes);
  }

  // Two pools do not wait for each other, so that the best prefill pool is the same for each decode pool but for how
  // many instances fit: prefill pools are compared on their own first.
  Result<void> search_pairs() {
    const std::uint64_t fit = shapes_.size(), all = fit + too_large_.size();
    result_.space += all * all;
    removed_.add(weights_rule, all * all - fit * fit);
    const std::vector<PrefillPool> prefill = TRY(prefill_pools());
    removed_.add(prefill.empty() ? no_prefill_rule : slow_prefill_rule, fit * (fit - prefill.size()));
    for (const model::Instance& shape : shapes_) {
      const model::Instance& first = prefill.empty() ? shape : prefill.front().shape;
      const auto splits = pool_splits(inputs_.plan, first, shape);
      if (!splits.empty()) use_two_pools(plans_.emplace_back(base_), first, shape, splits.front());
    }
    if (prefill.empty()) return {};
    const auto outcomes = decide(fit * prefill.size(), [&](std::size_t i) {
      return best_split(prefill[i % prefill.size()], shapes_[i / prefill.size()]);
    });
    return keep(outcomes);
  }

  // Returns the pools with the most computed tokens/s per GPU, the fastest first, of different sizes.
  Result<std::vector<PrefillPool>> prefill_pools() {
    constexpr std::size_t most = 3;
    const auto alone = [&](std::size_t i) {
      Plan plan = base_;
      use_one_pool(plan, shapes_[i]);
      plan.cluster.gpus = shapes_[i].gpus();
      plan.inference.chunked_prefill_tokens = 0;
      plan.inference.concurrency = 1;
      plan.inference.max_tpot_s = plan.inference.demand_output_tokens_per_day = std::nullopt;
      return predict(plan);
    };
    const auto outcomes = decide(shapes_.size(), alone);
    std::vector<PrefillPool> pools;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i].wrong) return tl::unexpected(*outcomes[i].wrong);
      if (!outcomes[i].deployment) continue;
      const double per_gpu = outcomes[i].deployment->result.prefill_tokens_per_s_per_gpu;
      pools.push_back({shapes_[i], per_gpu * static_cast<double>(shapes_[i].gpus()), per_gpu});
    }
    std::ranges::stable_sort(pools, std::greater{}, &PrefillPool::per_gpu);
    std::vector<PrefillPool> kept;
    for (const PrefillPool& pool : pools) {
      const bool known =
          std::ranges::any_of(kept, [&](const PrefillPool& other) { return other.shape.gpus() == pool.shape.gpus(); });
      if (!known && kept.size() < most) kept.push_back(pool);
    }
    return kept;
  }

  // Predicts two pools in the ratio that serves most.
  Outcome best_split(const PrefillPool& prefill, const model::Instance& decode) const {
    const std::vector<PoolSplit> splits = pool_splits(inputs_.plan, prefill.shape, decode);
    if (splits.empty()) return {{}, no_split_rule, "", {}, true};
    const auto predicted = [&](const PoolSplit& split) {
      Plan plan = base_;
      use_two_pools(plan, prefill.shape, decode, split);
      return predict(plan);
    };
    Outcome best;
    const auto take = [&](Outcome outcome) {
      const bool first = !best.decided || (!best.deployment && outcome.deployment);
      if (first || (outcome.deployment && best.deployment && is_better(*outcome.deployment, *best.deployment)))
        best = std::move(outcome);
    };
    if (!is_free()) {
      for (const PoolSplit& split : spread(splits)) take(predicted(split));
      return best;
    }
    // With one instance that decodes prefill is no limit, so that it shows the rate of an instance.
    take(predicted(splits.front()));
    if (!best.deployment) return best;
    const auto& keys = base_.inference;
    const double requests =
        prefill.tokens_per_s / computed_tokens(static_cast<double>(keys.input_tokens), keys.prefix_hit_rate);
    const double prefill_rate = requests * static_cast<double>(keys.output_tokens);
    const double decode_rate = best.deployment->result.output_tokens_per_s;
    const PoolSplit& balanced = *std::ranges::max_element(splits, {}, [&](const PoolSplit& split) {
      return std::min(static_cast<double>(split.prefill_instances) * prefill_rate,
                      static_cast<double>(split.decode_instances) * decode_rate);
    });
    if (balanced.decode_instances != splits.front().decode_instances) take(predicted(balanced));
    return best;
  }

  // Returns whether fewer requests are being served than are in flight (Little's law), besides those whose prompts wait
  // for a pass, so that the time per token of those that are would hide what the others wait.
  bool waits(const Plan& plan, const ServingResult& result) const {
    constexpr double almost = 0.9;
    if (goal_.objective != Objective::latency) return false;
    const double output = mean_request(plan).output;
    const double served = result.output_tokens_per_s / output * (result.ttft_unloaded_s + output * result.tpot_s);
    return served < almost * static_cast<double>(plan.inference.concurrency);
  }

  Outcome predict(const Plan& plan) const {
    if (stopped()) return {};
    auto result = predictor_.predict(plan);
    Outcome outcome;
    outcome.decided = true;
    if (!result) {
      if (result.error().kind == model::ErrorKind::input) outcome.wrong = result.error();
      outcome.rule = result.error().key;
      outcome.example = result.error().message;
      return outcome;
    }
    const auto value = value_of(plan, *result, goal_);
    const auto broken = broken_limits(plan, *result, goal_);
    const auto& keys = plan.inference;
    const bool slow = exceeds(result->tpot_s * goal_.margin.tpot, keys.max_tpot_s) ||
                      exceeds(result->ttft_s * goal_.margin.ttft, keys.max_ttft_s);
    if (slow || waits(plan, *result)) {
      outcome.rule = slow ? slow_rule : waiting_rule;
      return outcome;
    }
    result->constants.clear();  // thousands of deployments are kept until they are ranked
    outcome.deployment = RankedDeployment{plan, std::move(*result), value.value_or(0), broken.empty()};
    return outcome;
  }

  template <class Decide>
  std::vector<Outcome> decide(std::size_t count, const Decide& one) {
    std::vector<Outcome> outcomes(count);
    progress_.total += count;
    for_each_index(count, [&](std::size_t i) {
      outcomes[i] = one(i);
      if (!options_.on_progress) return;
      const std::scoped_lock lock(mutex_);
      ++progress_.done;
      options_.on_progress(progress_);
    });
    return outcomes;
  }

  Result<void> keep(const std::vector<Outcome>& outcomes) {
    for (const Outcome& outcome : outcomes) {
      if (outcome.wrong) return tl::unexpected(*outcome.wrong);
      result_.complete = result_.complete && outcome.decided;
      if (outcome.deployment) {
        ++result_.evaluated;
        found_.push_back(*outcome.deployment);
      } else if (outcome.decided) {
        removed_.add(outcome.rule, 1, outcome.example);
      }
    }
    return {};
  }

  bool is_better(const RankedDeployment& one, const RankedDeployment& other) const {
    if (one.within != other.within) return one.within;
    if (one.value != other.value) return better(goal_.objective, one.value, other.value);
    return one.result.tpot_s < other.result.tpot_s;
  }

  void rank() {
    std::ranges::stable_sort(found_,
                             [&](const RankedDeployment& a, const RankedDeployment& b) { return is_better(a, b); });
    std::map<decltype(decode_shape(base_)), bool> seen;
    std::erase_if(found_,
                  [&](const RankedDeployment& one) { return !seen.emplace(decode_shape(one.plan), true).second; });
    const std::size_t kept = std::min(found_.size(), std::max<std::size_t>(1, options_.top));
    result_.best.assign(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(kept));
  }

  void add_frontier() {
    if (!predictor_.frontier) return;
    std::vector<std::optional<Result<std::vector<model::ServingPoint>>>> frontiers(found_.size());
    for_each_index(found_.size(), [&](std::size_t i) {
      if (!stopped()) frontiers[i] = predictor_.frontier(found_[i].plan);
    });
    std::vector<std::pair<model::ServingPoint, std::size_t>> points;  // with the place of their deployment
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (!frontiers[i] || !*frontiers[i]) continue;
      for (const model::ServingPoint& point : **frontiers[i]) points.emplace_back(point, i);
    }
    std::ranges::stable_sort(points, {}, [](const auto& one) {
      return std::pair(one.first.tpot_s, -one.first.output_tokens_per_s_per_gpu);
    });
    double most = 0;
    for (const auto& [point, place] : points) {
      if (point.output_tokens_per_s_per_gpu <= most) continue;
      most = point.output_tokens_per_s_per_gpu;
      DeploymentPoint& one = result_.frontier.emplace_back(point, found_[place].plan);
      one.plan.inference.concurrency = static_cast<std::int64_t>(point.concurrency);
    }
  }

  Result<void> find_closest() {
    for (Plan& plan : plans_) {
      plan.inference.concurrency = 1;
      plan.inference.max_tpot_s = plan.inference.max_ttft_s = std::nullopt;
    }
    const auto outcomes = decide(plans_.size(), [&](std::size_t i) { return predict(plans_[i]); });
    for (const Outcome& outcome : outcomes) {
      if (outcome.wrong) return tl::unexpected(*outcome.wrong);
      if (!outcome.deployment) continue;
      const ServingResult& result = outcome.deployment->result;
      auto &tpot = result_.shortest_tpot, &ttft = result_.shortest_ttft;
      if (!tpot || result.tpot_s < tpot->result.tpot_s) tpot = outcome.deployment;
      if (!ttft || result.ttft_s < ttft->result.ttft_s) ttft = outcome.deployment;
    }
    return {};
  }

  const Inputs& inputs_;
  const DeploymentPredictor& predictor_;
  const DeploymentGoal& goal_;
  const SearchOptions& options_;
  Plan base_;
  std::vector<model::Instance> shapes_, too_large_;
  std::vector<Plan> plans_;  // one of each pool or pair, to find what comes closest to the limits
  std::vector<RankedDeployment> found_;
  RemovedCounts removed_;
  DeploymentSearchResult result_;
  std::mutex mutex_;
  SearchProgress progress_;
};

}  // namespace

std::optional<double> value_of(const Plan& plan, const ServingResult& result, const DeploymentGoal& goal) {
  if (goal.objective == Objective::latency) return result.tpot_s;
  const double rate = useful_rate(plan, result);
  if (goal.objective == Objective::throughput) return rate / billed_gpus(plan);
  if (!goal.usd_per_gpu_hour) return std::nullopt;
  return rate * seconds_per_hour / (billed_gpus(plan) * *goal.usd_per_gpu_hour);
}

bool better(Objective objective, double value, double other) {
  return objective == Objective::latency ? value < other : value > other;
}

std::vector<std::string> broken_limits(const Plan& plan, const ServingResult& result, const DeploymentGoal& goal) {
  const auto& keys = plan.inference;
  std::vector<std::string> broken;
  const auto add = [&](bool is_broken, fmt::format_string<const double&, const double&> words, const double found,
                       const std::optional<double>& limit) {
    if (is_broken) broken.push_back(fmt::format(words, found, *limit));
  };
  const double tpot = result.tpot_s * goal.margin.tpot, ttft = result.ttft_s * goal.margin.ttft;
  add(exceeds(tpot, keys.max_tpot_s), "a TPOT of {:.4g} s, over inference.max_tpot_s = {:.4g}", tpot, keys.max_tpot_s);
  add(exceeds(ttft, keys.max_ttft_s), "a TTFT of {:.4g} s, over inference.max_ttft_s = {:.4g}", ttft, keys.max_ttft_s);
  const double tokens = result.output_tokens_per_s * seconds_per_day;
  add(tokens < keys.demand_output_tokens_per_day.value_or(0),
      "{:.4g} output tokens a day, below inference.demand_output_tokens_per_day = {:.4g}", tokens,
      keys.demand_output_tokens_per_day);
  const double usd = goal.usd_per_gpu_hour.value_or(0) * billed_gpus(plan);
  add(exceeds(usd, goal.most_usd_per_hour), "{:.4g} USD an hour, over --budget {:.4g}", usd, goal.most_usd_per_hour);
  return broken;
}

Result<DeploymentSearchResult> search_deployments(const Inputs& inputs, const DeploymentPredictor& predictor,
                                                  const DeploymentGoal& goal, const SearchOptions& options) {
  return on_threads(options.threads, [&] { return DeploymentSearch(inputs, predictor, goal, options).run(); });
}

namespace {

void add_fits(DeploymentOption& option, unsigned threads) {
  const IntervalOptions options{.draws = serving_draws, .threads = threads};
  Inputs inputs = option.on.inputs;
  for (RankedDeployment& one : option.search.best) {
    inputs.plan = one.plan;
    add_fit(inputs, one.result, options);
  }
}

model::Result<void> add_interval(DeploymentOption& option, unsigned threads) {
  if (option.search.best.empty() || !option.search.complete) return {};
  RankedDeployment& best = option.search.best.front();
  Inputs inputs = option.on.inputs;
  inputs.plan = best.plan;
  const IntervalOptions options{.draws = serving_draws, .threads = threads};
  auto drawn = TRY(draw_serving_interval(inputs, best.result, options));
  best.result.interval = std::move(drawn.interval);
  const auto price = price_of(option.on).value;
  // Prices of two clusters are two facts; sizes of one cluster have one price.
  const std::vector<double> prices =
      price ? price_draws(*price, "price " + option.on.cluster, options.seed, options.draws)
            : std::vector<double>(options.draws, 1);
  for (std::size_t i = 0; i < options.draws; ++i) {
    model::ServingResult result = best.result;
    result.tpot_s *= drawn.tpot_ratio[i];
    result.output_tokens_per_s *= drawn.rate_ratio[i];
    DeploymentGoal goal = option.goal;
    if (goal.usd_per_gpu_hour) *goal.usd_per_gpu_hour *= prices[i];
    option.value_draws.push_back(value_of(best.plan, result, goal).value_or(best.value));
  }
  return {};
}

// Gives plans that leave it open their requests in flight, of which limits that hold in a share of the cases decide, so
// that `serve` predicts the same; those without a request that keeps them go.
void state_requests(const DeploymentOption& option, const ServingPredictor& serving,
                    std::vector<RankedDeployment>& deployments) {
  std::erase_if(deployments, [&](RankedDeployment& one) {
    auto& requests = one.plan.inference.concurrency;
    if (requests > 0) return false;
    const auto most = serving.predict(one.plan);
    if (!most) return true;
    requests = std::max<std::int64_t>(1, static_cast<std::int64_t>(most->concurrency));
    auto stated = serving.predict(one.plan);
    if (!stated) return true;
    one.result = std::move(*stated);
    one.result.constants.clear();
    one.value = value_of(one.plan, one.result, option.goal).value_or(one.value);
    return false;
  });
  std::ranges::stable_sort(deployments, [&](const RankedDeployment& one, const RankedDeployment& other) {
    return one.within != other.within ? one.within : better(option.goal.objective, one.value, other.value);
  });
}

// Marks the points of the frontier that keep the limits in that share of their own draws, which are made of those near
// the limits by the margin of the best deployment.
void mark_frontier(Inputs inputs, const ServingPredictor& serving, double confidence, const IntervalOptions& draws,
                   std::vector<DeploymentPoint>& frontier) {
  constexpr double any = std::numeric_limits<double>::infinity(), rounding = 1 - 1e-6;
  constexpr double near = 1.2;  // assumed: margins of deployments differ by less
  const auto& keys = inputs.plan.inference;
  for (DeploymentPoint& one : frontier) {
    inputs.plan = one.plan;
    const double slack = std::min(keys.max_ttft_s.value_or(any) / (one.point.ttft_s * serving.margin().ttft),
                                  keys.max_tpot_s.value_or(any) / (one.point.tpot_s * serving.margin().tpot));
    one.point.within_limits = slack >= 1;
    if (slack > near || slack < 1 / near) continue;
    Plan without_limits = one.plan;
    without_limits.inference.max_ttft_s = without_limits.inference.max_tpot_s = std::nullopt;
    const auto result = serving.predict(without_limits);
    const auto drawn = result ? serving_interval_of(inputs, *result, draws) : tl::unexpected(result.error());
    one.point.within_limits = drawn && drawn->limits_probability.value_or(0) >= confidence * rounding;
  }
}

// Returns DeploymentAnswer::best_with.
std::vector<double> shares_best(const DeploymentAnswer& answer) {
  const auto draws_of = [&](std::size_t place) -> const std::vector<double>& {
    return answer.options[answer.order[place]].value_draws;
  };
  std::size_t draws = answer.order.empty() ? 0 : draws_of(0).size();
  for (std::size_t i = 0; i < answer.order.size(); ++i) draws = std::min(draws, draws_of(i).size());
  std::vector<double> shares(draws > 0 ? answer.order.size() : 0);
  for (std::size_t draw = 0; draw < draws; ++draw) {
    std::vector<std::size_t> best;
    for (std::size_t i = 0; i < answer.order.size(); ++i) {
      if (answer.best(0).within && !answer.best(i).within) continue;
      const double value = draws_of(i)[draw];
      if (!best.empty() && better(answer.objective, draws_of(best.front())[draw], value)) continue;
      if (!best.empty() && better(answer.objective, value, draws_of(best.front())[draw])) best.clear();
      best.push_back(i);
    }
    for (const std::size_t i : best) shares[i] += 1 / static_cast<double>(draws * best.size());
  }
  return shares;
}

}  // namespace

model::Result<void> search_option(const DeploymentAnswer& answer, DeploymentOption& option,
                                  const SearchOptions& options) {
  const auto price = price_of(option.on);
  option.goal = {answer.objective, std::nullopt, answer.most_usd_per_hour};
  if (price.value) option.goal.usd_per_gpu_hour = price.value->value;
  option.on.inputs.passes = std::make_shared<PassGraphs>();
  if (!option.on.inputs.routing) option.on.inputs.routing = std::make_shared<ExpertGroupMemo>();
  ServingPredictor serving(option.on.inputs);
  const auto search = [&](bool with_frontier) {
    DeploymentPredictor predictor{[&](const model::Plan& plan) { return serving.predict(plan); }, {}};
    if (with_frontier) predictor.frontier = [&](const model::Plan& plan) { return serving.frontier(plan); };
    return search_deployments(option.on.inputs, predictor, option.goal, options);
  };
  const auto& keys = option.on.inputs.plan.inference;
  const bool limited = keys.max_ttft_s || keys.max_tpot_s;
  auto found = search(!limited);  // limits have a second search, with a margin
  if (found && found->complete && !found->best.empty() && limited) {
    Inputs inputs = option.on.inputs;
    inputs.plan = found->best.front().plan;
    const IntervalOptions draws{.draws = serving_draws, .threads = options.threads, .parts = false};
    serving = TRY(serving_within(inputs, serving, answer.confidence, draws));
    option.goal.margin = serving.margin();
    found = search(true);
    while (found && !found->best.empty()) {
      inputs.plan = found->best.front().plan;
      const auto within = serving_within(inputs, serving, answer.confidence, draws);
      if (within && within->predict(inputs.plan)) {
        serving = *within;  // its requests are those that keep the limits with its own margin
        option.goal.margin = serving.margin();
        state_requests(option, serving, found->best);
        break;
      }
      found->best.erase(found->best.begin());  // not a single request keeps the limits in so many of its own draws
    }
    if (found) mark_frontier(inputs, serving, answer.confidence, draws, found->frontier);
  }
  if (found) {
    option.search = std::move(*found);
    add_fits(option, options.threads);
    return add_interval(option, options.threads);
  }
  if (found.error().kind == model::ErrorKind::input) return tl::unexpected(found.error());
  option.on.error = found.error();
  return {};
}

void rank(DeploymentAnswer& answer) {
  for (std::size_t i = 0; i < answer.options.size(); ++i)
    if (!answer.options[i].search.best.empty()) answer.order.push_back(i);
  std::ranges::stable_sort(answer.order, [&](std::size_t a, std::size_t b) {
    const RankedDeployment &one = answer.options[a].search.best.front(), &other = answer.options[b].search.best.front();
    if (one.within != other.within) return one.within;
    return better(answer.objective, one.value, other.value);
  });
  answer.best_with = shares_best(answer);
}

std::string place_words(const ClusterOption& on) {
  return fmt::format("{} {} {}", on.gpus, on.cluster, on.gpus == 1 ? "GPU" : "GPUs");
}

std::vector<std::string> what_would_do(const DeploymentAnswer& answer) {
  std::vector<std::string> sentences;
  const auto& options = answer.options;
  const auto closest = [&](auto member, auto seconds_of, auto limit, const char* what, const char* key) {
    const auto seconds = [&](const DeploymentOption& option) {
      return seconds_of((option.search.*member)->result, option.goal.margin);
    };
    const DeploymentOption* best = nullptr;
    for (const DeploymentOption& option : options)
      if (option.search.*member && (best == nullptr || seconds(option) < seconds(*best))) best = &option;
    if (best == nullptr) return;
    const RankedDeployment& found = *(best->search.*member);
    const double shortest = seconds(*best);
    const auto& given = limit(best->on.inputs.plan.inference);
    if (!given || shortest <= *given) return;
    sentences.push_back(
        fmt::format("the shortest {} is {:.4g} ms, with one request in flight, by {} on {}: {} "
                    "= {:.4g} is below it",
                    what, shortest * 1e3, deployment_words(found.plan), place_words(best->on), key, *given));
  };
  closest(
      &DeploymentSearchResult::shortest_tpot,
      [](const auto& result, const auto& margin) { return result.tpot_s * margin.tpot; },
      [](const auto& keys) { return keys.max_tpot_s; }, "TPOT", "inference.max_tpot_s");
  closest(
      &DeploymentSearchResult::shortest_ttft,
      [](const auto& result, const auto& margin) { return result.ttft_s * margin.ttft; },
      [](const auto& keys) { return keys.max_ttft_s; }, "TTFT", "inference.max_ttft_s");
  if (!answer.order.empty()) {
    const RankedDeployment& best = answer.best(0);
    for (std::string& sentence : broken_limits(best.plan, best.result, answer.first().goal))
      sentences.push_back(
          fmt::format("{} on {} has {}", deployment_words(best.plan), place_words(answer.first().on), sentence));
  }
  return sentences;
}

std::string degree_words(const model::Instance& instance) {
  std::string words = fmt::format("TP{}", instance.tensor);
  if (instance.pipeline > 1) words += fmt::format(" PP{}", instance.pipeline);
  if (instance.attention_data > 1) words += fmt::format(" DP{}", instance.attention_data);
  if (instance.expert > 1) words += fmt::format(" EP{}", instance.expert);
  if (instance.redundant_experts > 0) words += fmt::format("+{}", instance.redundant_experts);
  return words + (instance.two_micro_batches ? " TBO" : "");
}

std::string deployment_words(const model::Plan& plan) {
  if (!plan.inference.disaggregated) return degree_words(model::instance_of(plan, model::PoolKind::both));
  return fmt::format("prefill {}, decode {}", degree_words(model::instance_of(plan, model::PoolKind::prefill)),
                     degree_words(model::instance_of(plan, model::PoolKind::decode)));
}

}  // namespace plumbline::sim
