#include <fmt/format.h>

#include <algorithm>

#include "cli/plan_sections.h"
#include "reports/text/format.h"
#include "reports/text/paragraph.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using reports::grouped;
using reports::number;
using reports::paragraph;
using reports::percent;

constexpr std::size_t table_width = 120;
constexpr std::size_t most_rules = 6;  // of a site

// Each profile once, with why it is off by so much.
std::string profiles_text(const PlanAnswer& answer) {
  std::string text;
  std::vector<std::string> told;
  for (const std::size_t i : answer.order) {
    const Site& site = answer.sites[i];
    const std::string& name = site.inputs.profile.name();
    if (std::ranges::find(told, name) != told.end()) continue;
    told.push_back(name);
    text += paragraph(site.uncertainty ? fmt::format("{} ({}): {}.", name, model::to_string(site.uncertainty->kind),
                                                     site.uncertainty->source)
                                       : fmt::format("{} states no prediction.step_uncertainty.", name));
  }
  return text;
}

}  // namespace

std::string certainty_text(const PlanAnswer& answer, reports::Style style) {
  using enum reports::Align;
  const bool money = answer.objective == Objective::cost;
  const char* unit = money ? "USD" : answer.objective == Objective::time ? "days" : "GPU-hours";
  const char* of_step = answer.objective == Objective::time ? "seconds of a step" : "GPU-seconds of a step";
  reports::Table table({{"", right},
                        {"cluster"},
                        {"profile"},
                        {"off by", right},
                        {answer.has_tokens ? unit : of_step, right},
                        {"measured", right}},
                       2, table_width);
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const Site& site = answer.sites[answer.order[i]];
    const auto range = interval(answer.best(i).offer, answer.objective);
    const auto text = [&](double value) { return money ? reports::scaled(value) : number(value); };
    table.add({fmt::format("{}", i + 1), site_name(site), site.inputs.profile.name(),
               site.uncertainty ? percent(site.uncertainty->value) : "unknown",
               range ? fmt::format("{} to {}", text(range->low), text(range->high)) : "-",
               percent(measured_share(answer.best(i).result))});
  }
  return reports::heading("How sure", style) + table.to_string() + "\n" +
         paragraph(
             "Off by: one standard deviation of a predicted step; measured: share of the step that rests on "
             "measured, fitted or published constants.") +
         profiles_text(answer);
}

std::string prices_text(const PlanAnswer& answer, reports::Style style) {
  std::string text = reports::heading("Prices of a GPU-hour", style);
  std::vector<std::string> told;
  for (const std::size_t i : answer.order) {
    const Site& site = answer.sites[i];
    const auto price = price_of(site);
    const std::string words =
        price.value
            ? fmt::format("{}: {} USD ({} to {}), {}, {}: {}.", site.cluster, reports::fixed(price.value->value, 2),
                          reports::fixed(price.value->low, 2), reports::fixed(price.value->high, 2),
                          site.inputs.plan.run.ownership, model::to_string(price.value->kind), price.value->source)
            : fmt::format("{}: no price known: {}.", site.cluster, price.missing);
    if (std::ranges::find(told, words) != told.end()) continue;
    told.push_back(words);
    text += paragraph(words);
  }
  return text;
}

std::string search_text(const PlanAnswer& answer, reports::Style style) {
  std::string text = reports::heading("Searched", style);
  for (const Site& site : answer.sites) {
    const sim::SearchResult& search = site.search;
    if (search.space == 0) continue;
    text += paragraph(fmt::format(
        "{}: {} plans{}, {} of them evaluated.", site_name(site), grouped(static_cast<double>(search.space)),
        search.complete ? "" : ", not all decided", grouped(static_cast<double>(search.evaluated))));
    std::size_t shown = 0;
    for (const sim::Removed& removed : search.removed) {
      if (removed.plans == 0 || shown++ >= most_rules) continue;
      text += paragraph(fmt::format("- {} {}", grouped(static_cast<double>(removed.plans)), removed.rule));
    }
  }
  if (!answer.every_value)
    text +=
        paragraph("Of each key only the values that usually win were tried; --complete tries all (docs/planning.md).");
  return text;
}

}  // namespace plumbline::cli
