#include "cli/plan_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/result/waterfall.h"
#include "reports/text/evidence.h"
#include "reports/text/format.h"

namespace plumbline::cli {
namespace {

using reports::number;

// "NIC 25 instead of 50 GB/s" where two rates differ by more than rounding.
void add_difference(std::vector<std::string>& parts, const char* what, double value, double other, const char* unit) {
  constexpr double rounding = 1e-6;
  if (std::abs(value - other) <= rounding * std::max(std::abs(value), std::abs(other))) return;
  parts.push_back(fmt::format("{} {} instead of {} {}", what, number(value), number(other), unit));
}

std::vector<std::string> hardware_differences(const Site& above, const Site& site) {
  constexpr double tera = 1e12, giga = 1e9;
  const model::ClusterShape &now = site.inputs.cluster, &then = above.inputs.cluster;
  std::vector<std::string> parts;
  if (site.gpus != above.gpus)
    parts.push_back(fmt::format("{} instead of {} GPUs", reports::grouped(static_cast<double>(site.gpus)),
                                reports::grouped(static_cast<double>(above.gpus))));
  const auto add = [&](const char* what, auto rate, double unit, const char* name) {
    add_difference(parts, what, rate(now).value() / unit, rate(then).value() / unit, name);
  };
  add(
      "BF16 peak", [](const auto& c) { return c.device.bf16_peak; }, tera, "TFLOP/s");
  add(
      "memory", [](const auto& c) { return c.device.memory; }, giga, "GB");
  add(
      "memory bandwidth", [](const auto& c) { return c.device.memory_bandwidth; }, tera, "TB/s");
  add(
      "node links", [](const auto& c) { return c.intra_node_bandwidth; }, giga, "GB/s");
  add(
      "NICs", [](const auto& c) { return c.inter_node_bandwidth(); }, giga, "GB/s a GPU");
  const std::string profile = site.inputs.profile.name(), other = above.inputs.profile.name();
  if (profile != other) parts.push_back(fmt::format("profile {} instead of {}", profile, other));
  return parts;
}

}  // namespace

void rank(PlanAnswer& answer) {
  std::vector<Offer> offers;
  std::vector<std::size_t> sites;
  for (std::size_t i = 0; i < answer.sites.size(); ++i) {
    if (answer.sites[i].rows.empty()) {
      answer.empty.push_back(i);
      continue;
    }
    sites.push_back(i);
    offers.push_back(answer.sites[i].rows.front().offer);
  }
  const auto order = ranked(offers, answer.objective, answer.limits);
  const auto known = dominated(offers);
  const auto place_of = [&](std::size_t offer) {
    return static_cast<std::size_t>(std::ranges::find(order, offer) - order.begin());
  };
  for (const std::size_t i : order) {
    answer.order.push_back(sites[i]);
    answer.dominated.push_back(known[i]);
  }
  // The verdict speaks of places in the ranking.
  answer.verdict = verdict(offers, order, answer.objective, answer.limits);
  if (answer.verdict.winner) answer.verdict.winner = 0;
  for (auto* list : {&answer.verdict.indistinguishable, &answer.verdict.ties})
    std::ranges::transform(*list, list->begin(), place_of);
}

model::Known<model::HourlyPrice> price_of(const Site& site) {
  const model::Plan& plan = site.inputs.plan;
  const bool owned = plan.run.ownership == "purchase";
  return owned ? model::purchase_price(plan, site.inputs.cluster) : model::rent_price(plan, site.inputs.cluster);
}

std::string site_name(const Site& site) {
  return fmt::format("{}, {} GPUs", site.cluster, reports::grouped(static_cast<double>(site.gpus)));
}

double measured_share(const model::StepResult& result) {
  double share = 0;
  for (const reports::EvidenceShare& part : reports::evidence_shares(result.provenance)) {
    if (part.kind != model::Evidence::datasheet && part.kind != model::Evidence::assumed) share += part.share;
  }
  return share;
}

bool only_datasheet(const model::StepResult& result) {
  constexpr double nearly_nothing = 0.1;
  return measured_share(result) < nearly_nothing;
}

std::string reason_on_site(const PlanRow& above, const PlanRow& row) {
  constexpr double tie = 0.01;
  const std::string why = model::main_reasons(model::waterfall(above.result.step, row.result.step));
  const double slower = row.offer.step_s / above.offer.step_s - 1;
  const std::string prefix = slower < tie ? fmt::format("a tie ({})", reports::signed_percent(slower)) : "";
  if (why.empty()) return prefix.empty() ? "no class of work explains it" : prefix;
  return prefix.empty() ? why : prefix + ": " + why;
}

std::string reason_between(const Site& above, const Site& site, Objective objective) {
  const PlanRow &first = above.rows.front(), &row = site.rows.front();
  std::vector<std::string> parts = hardware_differences(above, site);
  const auto now = price_of(site).value, then = price_of(above).value;
  if (objective == Objective::cost && now && then)
    add_difference(parts, "price", now->value, then->value, "USD a GPU-hour");
  const std::string why = model::main_reasons(model::waterfall(first.result.step, row.result.step));
  if (!why.empty()) parts.push_back("step: " + why);
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string last_rule(const sim::SearchResult& search) {
  const auto last = std::ranges::find_if(search.removed.rbegin(), search.removed.rend(),
                                         [](const sim::Removed& removed) { return removed.plans > 0; });
  if (last == search.removed.rend()) return "";
  const std::string closest = last->example.empty() ? "" : fmt::format("; closest: {}", last->example);
  return fmt::format("{} ({} plans{})", last->rule, reports::grouped(static_cast<double>(last->plans)), closest);
}

std::string why_empty(const Site& site) {
  if (site.error) return model::to_string(*site.error);
  if (!site.search.complete) return "stopped before any was found";
  const std::string rule = last_rule(site.search);
  return rule.empty() ? "not looked at" : rule;
}

std::string shortfall(const PlanAnswer& answer) {
  std::vector<std::string> parts;
  const auto closest = [&](auto field, double limit, const char* what, auto text) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < answer.order.size(); ++i) {
      if (field(i) && (!best || *field(i) < *field(*best))) best = i;
    }
    if (!best) {
      parts.push_back(fmt::format("{} is known of no site", what));
      return;
    }
    if (*field(*best) <= limit) return;
    parts.push_back(fmt::format("{}: {} on {} is the least, {} over the limit of {}", what, text(*field(*best)),
                                site_name(answer.sites[answer.order[*best]]),
                                reports::percent(*field(*best) / limit - 1), text(limit)));
  };
  if (answer.limits.days)
    closest([&](std::size_t i) { return answer.best(i).offer.days; }, *answer.limits.days, "time",
            [](double days) { return number(days) + " days"; });
  if (answer.limits.usd)
    closest([&](std::size_t i) { return answer.best(i).offer.usd; }, *answer.limits.usd, "cost",
            [](double usd) { return reports::scaled(usd) + " USD"; });
  if (parts.empty()) parts.push_back("each limit alone is met by a site, both together by none");
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace plumbline::cli
