#include "cli/plan_flips.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace plumbline::cli {
namespace {

constexpr std::size_t most_alternatives = 3;

sim::Inputs inputs_of(const Site& site, const PlanRow& row) {
  sim::Inputs inputs = site.inputs;
  inputs.plan = row.plan;
  return inputs;
}

// What is compared is proportional to the step.
sim::FlipCandidate candidate(const sim::Inputs& inputs, const PlanRow& row, Objective objective) {
  return {&inputs, row.offer.step_s, measure(row.offer, objective).value_or(row.offer.step_s) / row.offer.step_s};
}

FlipSection section(const PlanAnswer& answer, const std::vector<std::pair<const Site*, const PlanRow*>>& others,
                    const sim::FlipOptions& options) {
  const Site& first = answer.first();
  std::vector<sim::Inputs> inputs = {inputs_of(first, first.rows.front())};
  std::vector<bool> same;
  for (const auto& [site, row] : others) {
    inputs.push_back(inputs_of(*site, *row));
    const bool profile = site->inputs.profile.name() == first.inputs.profile.name();
    same.push_back(site->cluster == first.cluster && profile);
  }
  const sim::FlipCandidate winner = candidate(inputs.front(), first.rows.front(), answer.objective);
  std::vector<sim::FlipCandidate> alternatives;
  for (std::size_t i = 0; i < others.size(); ++i)
    alternatives.push_back(candidate(inputs[i + 1], *others[i].second, answer.objective));
  FlipSection result;
  result.flips = sim::flips(winner, alternatives, same, options);
  return result;
}

}  // namespace

void find_flips(PlanAnswer& answer, unsigned threads, const std::function<bool()>& stopped) {
  const Site& first = answer.first();
  sim::FlipOptions options;
  options.threads = threads;
  options.stopped = stopped;
  std::vector<std::pair<const Site*, const PlanRow*>> plans, sites;
  std::vector<std::string> plan_names, site_names;
  for (std::size_t i = 1; i < first.rows.size() && plans.size() < most_alternatives; ++i) {
    plans.emplace_back(&first, &first.rows[i]);
    plan_names.push_back(fmt::format("plan {}", i + 1));
  }
  for (std::size_t i = 1; i < answer.order.size() && sites.size() < most_alternatives; ++i) {
    const Site& site = answer.sites[answer.order[i]];
    const PlanRow& row = site.rows.front();
    if (!within(row.offer, answer.limits) || !measure(row.offer, answer.objective)) continue;
    sites.emplace_back(&site, &row);
    site_names.push_back(site_name(site));
  }
  if (!plans.empty()) {
    answer.flips.push_back(section(answer, plans, options));
    answer.flips.back().names = std::move(plan_names);
  }
  if (!sites.empty()) {
    options.weight_is_price = answer.objective == Objective::cost;
    answer.flips.push_back(section(answer, sites, options));
    answer.flips.back().names = std::move(site_names);
    answer.flips.back().hardware = true;
  }
}

}  // namespace plumbline::cli
