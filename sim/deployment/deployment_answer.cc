#include "sim/deployment/deployment_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/interval/interval.h"
#include "sim/serving/serving.h"

namespace plumbline::sim {
namespace {

// Gives the best deployment its interval.
model::Result<void> add_interval(DeploymentOption& option, unsigned threads) {
  if (option.search.best.empty() || !option.search.complete) return {};
  RankedDeployment& best = option.search.best.front();
  Inputs inputs = option.on.inputs;
  inputs.plan = best.plan;
  IntervalOptions options;
  options.threads = threads;
  best.result.interval = TRY(serving_interval_of(inputs, best.result, options));
  return {};
}

}  // namespace

model::Result<void> search_option(const DeploymentAnswer& answer, DeploymentOption& option,
                                  const SearchOptions& options) {
  const auto price = price_of(option.on);
  option.goal = {answer.objective, std::nullopt, answer.most_usd_per_hour};
  if (price.value) option.goal.usd_per_gpu_hour = price.value->value;
  const ServingPredictor serving(option.on.inputs);
  const DeploymentPredictor predictor{[&](const model::Plan& plan) { return serving.predict(plan); },
                                      [&](const model::Plan& plan) { return serving.frontier(plan); }};
  auto found = search_deployments(option.on.inputs, predictor, option.goal, options);
  if (found) {
    option.search = std::move(*found);
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
}

std::vector<std::string> what_would_do(const DeploymentAnswer& answer) {
  std::vector<std::string> sentences;
  const auto& options = answer.options;
  const auto closest = [&](auto member, auto seconds, auto limit, const char* what, const char* key) {
    const DeploymentOption* best = nullptr;
    for (const DeploymentOption& option : options)
      if (const auto& found = option.search.*member;
          found && (best == nullptr || seconds(found->result) < seconds((best->search.*member)->result)))
        best = &option;
    if (best == nullptr) return;
    const RankedDeployment& found = *(best->search.*member);
    const double shortest = seconds(found.result);
    const auto& given = limit(best->on.inputs.plan.inference);
    if (!given || shortest <= *given) return;
    sentences.push_back(
        fmt::format("the shortest {} is {:.4g} ms, with one request in flight, by {} on {} {} GPUs: {} "
                    "= {:.4g} is below it",
                    what, shortest * 1e3, deployment_words(found.plan), best->on.gpus, best->on.cluster, key, *given));
  };
  closest(
      &DeploymentSearchResult::shortest_tpot, [](const auto& result) { return result.tpot_s; },
      [](const auto& keys) { return keys.max_tpot_s; }, "TPOT", "inference.max_tpot_s");
  closest(
      &DeploymentSearchResult::shortest_ttft, [](const auto& result) { return result.ttft_unloaded_s; },
      [](const auto& keys) { return keys.max_ttft_s; }, "TTFT", "inference.max_ttft_s");
  if (!answer.order.empty()) {
    const RankedDeployment& best = answer.best(0);
    for (std::string& sentence : broken_limits(best.plan, best.result, answer.first().goal))
      sentences.push_back(fmt::format("{} on {} {} GPUs has {}", deployment_words(best.plan), answer.first().on.gpus,
                                      answer.first().on.cluster, sentence));
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
