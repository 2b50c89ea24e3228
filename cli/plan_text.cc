#include <fmt/format.h>

#include <algorithm>

#include "cli/plan_answer.h"
#include "cli/plan_sections.h"
#include "reports/text/format.h"
#include "reports/text/paragraph.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using reports::number;
using reports::paragraph;

std::string objective_words(Objective objective) {
  if (objective == Objective::time) return "the shortest time";
  return objective == Objective::cost ? "the lowest cost" : "the fewest GPU-hours";
}

std::string names_of(const PlanAnswer& answer, const std::vector<std::size_t>& places) {
  std::vector<std::string> names;
  for (const std::size_t place : places) names.push_back(site_name(answer.sites[answer.order[place]]));
  return fmt::format("{}", fmt::join(names, "; "));
}

std::string split_words(const model::Plan& plan) {
  if (plan.schedule.layers_per_stage.empty()) return "layers spread evenly";
  return fmt::format("layers per stage {}", fmt::join(plan.schedule.layers_per_stage, " "));
}

std::string choice_words(const PlanAnswer& answer) {
  const std::string first = site_name(answer.first()), aim = objective_words(answer.objective);
  if (!within(answer.best(0).offer, answer.limits))
    return fmt::format("No plan meets the limits: {}. The list is ordered as if there were none.", shortfall(answer));
  if (answer.order.size() == 1)
    return fmt::format(
        "{}: plan 1 is {} that was found; errors of the profile are common to all plans here, so they "
        "are ranked as they are, and those less than 1 % apart count as a tie.",
        first, answer.objective == Objective::time ? "the fastest" : aim);
  const std::string tie =
      answer.verdict.ties.empty() ? "" : fmt::format(", in a tie with {}", names_of(answer, answer.verdict.ties));
  if (answer.verdict.winner)
    return fmt::format(
        "{} has {}{}: sizes of one cluster have the same errors, and those of other hardware do not reach it.", first,
        aim, tie);
  return fmt::format(
      "No winner: {} comes first for {}{}, but within the uncertainties of the predictions it cannot be told from {}.",
      first, aim, tie, names_of(answer, answer.verdict.indistinguishable));
}

std::string limit_words(const PlanAnswer& answer) {
  const Offer& offer = answer.best(0).offer;
  if (!answer.limits.days || !within(offer, answer.limits)) return "";
  const auto days = interval(offer, Objective::time);
  if (!days) return "Whether the deadline is safe is not known: the profile states no uncertainty.";
  if (days->high <= *answer.limits.days) return "The deadline holds also at the long end of the uncertainty.";
  return fmt::format("The deadline of {} days is not safe: at the long end of the uncertainty the run takes {} days.",
                     number(*answer.limits.days), number(days->high));
}

std::string verdict_text(const PlanAnswer& answer, reports::Style style) {
  std::string text = reports::heading("Choice", style) + paragraph(choice_words(answer));
  text += paragraph(fmt::format("Plan 1 of {}: {}.", site_name(answer.first()), split_words(answer.best(0).plan)));
  if (const std::string words = limit_words(answer); !words.empty()) text += paragraph(words);
  std::vector<Offer> offers;
  for (std::size_t i = 0; i < answer.order.size(); ++i) offers.push_back(answer.best(i).offer);
  if (degenerate(offers, answer.objective, answer.limits))
    text += paragraph("Of several sizes the smallest tends to win by " + std::string(to_string(answer.objective)) +
                      ", since fewer GPUs waste less: the question is complete only with --deadline.");
  if (!answer.has_tokens)
    text += paragraph("No tokens are known, so there are no days and no cost: --set run.tokens=1e12.");
  return text;
}

std::string flip_value(const sim::Flip& flip, const sim::FlipOptions& range) {
  if (!flip.factor) return fmt::format("none within x{}..x{}", range.lowest, range.highest);
  const std::string factor = "x" + reports::fixed(*flip.factor, 2);
  return flip.from ? fmt::format("{} ({} instead of {})", factor, number(*flip.from * *flip.factor), number(*flip.from))
                   : factor;
}

std::string flips_text(const PlanAnswer& answer, reports::Style style) {
  if (answer.flips.empty()) return "";
  std::string text = reports::heading("What would overturn it", style);
  for (const FlipSection& section : answer.flips) {
    reports::Table table({{section.hardware ? "on the first site alone" : "on the site"}, {"change"}, {"then better"}});
    for (const sim::Flip& flip : section.flips)
      table.add(
          {std::string(sim::describe(flip.quantity)), flip_value(flip, {}), flip.factor ? section.names[flip.by] : ""});
    text +=
        paragraph(fmt::format("Plan 1 of {} against {}:", site_name(answer.first()), fmt::join(section.names, "; "))) +
        table.to_string();
  }
  return text;
}

std::string notes_text(const PlanAnswer& answer, reports::Style style) {
  std::string notes;
  for (const std::string& sentence : answer.assumptions) notes += paragraph(sentence + ".");
  if (!answer.overrides.empty()) notes += paragraph(fmt::format("--set {}.", fmt::join(answer.overrides, " --set ")));
  for (const Site& site : answer.sites)
    for (const std::string& note : site.notes) notes += paragraph(fmt::format("{}: {}.", site_name(site), note));
  return notes.empty() ? "" : reports::heading("What it rests on", style) + notes;
}

}  // namespace

std::string plan_text(const PlanAnswer& answer, bool colour) {
  const reports::Style style{colour};
  std::string text = fmt::format("{}: {} {}, for {}{}\n", answer.name, answer.sites.size(),
                                 answer.sites.size() == 1 ? "site" : "sites", objective_words(answer.objective),
                                 answer.complete ? "" : "; INCOMPLETE: stopped before everything was searched");
  if (answer.order.empty()) {
    for (const Site& site : answer.sites)
      text += paragraph(fmt::format("{}: no plan: {}.", site_name(site), why_empty(site)));
    return text + search_text(answer, style) + notes_text(answer, style);
  }
  if (answer.sites.size() > 1) text += sites_table(answer, style);
  return text + plans_table(answer, style) + verdict_text(answer, style) + flips_text(answer, style) +
         certainty_text(answer, style) + prices_text(answer, style) + search_text(answer, style) +
         notes_text(answer, style);
}

}  // namespace plumbline::cli
