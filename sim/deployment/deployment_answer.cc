#include "sim/deployment/deployment_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/serving/pass_costs.h"
#include "sim/serving/serving.h"

namespace plumbline::sim {
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

// Plans with the margins that serving_within() has found for them.
using KnownMargins = std::vector<std::pair<model::Plan, ServingMargin>>;

// Marks the points of the frontier that keep the limits in the share of the draws of their own deployment.
void mark_frontier(Inputs inputs, const ServingPredictor& serving, double confidence, const IntervalOptions& draws,
                   KnownMargins known, std::vector<DeploymentPoint>& frontier) {
  constexpr double any = std::numeric_limits<double>::infinity();
  for (DeploymentPoint& one : frontier) {
    inputs.plan = one.plan;
    inputs.plan.inference.concurrency = 0;
    auto found = std::ranges::find_if(known, [&](const auto& other) {
      return other.first.parallelism == inputs.plan.parallelism && other.first.inference == inputs.plan.inference;
    });
    if (found == known.end()) {
      const auto within = serving_within(inputs, serving, confidence, draws);
      found = known.emplace(known.end(), inputs.plan, within ? within->margin() : serving.margin());
    }
    const ServingMargin& margin = found->second;
    const auto& keys = inputs.plan.inference;
    one.point.within_limits = one.point.tpot_s * margin.tpot <= keys.max_tpot_s.value_or(any) &&
                              one.point.ttft_s * margin.ttft <= keys.max_ttft_s.value_or(any);
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
    KnownMargins known;
    while (found && !found->best.empty()) {
      inputs.plan = found->best.front().plan;
      const auto within = serving_within(inputs, serving, answer.confidence, draws);
      known.emplace_back(inputs.plan, within ? within->margin() : serving.margin());
      if (within && within->predict(inputs.plan)) {
        option.goal.margin = within->margin();  // its requests are those that keep the limits with its own margin
        state_requests(option, *within, found->best);
        break;
      }
      found->best.erase(found->best.begin());  // not a single request keeps the limits in so many of its own draws
    }
    if (found) mark_frontier(inputs, serving, answer.confidence, draws, std::move(known), found->frontier);
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
