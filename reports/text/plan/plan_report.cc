#include "reports/text/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline::reports {
namespace {

std::string objective_words(sim::Objective objective) {
  if (objective == sim::Objective::time) return "the shortest time";
  return objective == sim::Objective::cost ? "the lowest cost" : "the fewest GPU-hours";
}

std::string split_words(const model::Plan& plan) {
  const model::StageLayers& layers = plan.schedule.layers_per_stage;
  if (layers.counts.empty()) return "layers spread evenly";
  return fmt::format("layers per stage {}", fmt::join(layers.counts, " "));
}

// Returns which of the candidates is the best, or the fewest of which one is. `name` gives the name of a position.
template <class Name>
std::string verdict_words(const sim::Verdict& verdict, const std::vector<double>& probabilities, const std::string& aim,
                          Name name) {
  if (verdict.winner)
    return fmt::format("{} has {} with {}.", name(*verdict.winner), aim, chance(probabilities[*verdict.winner]));
  std::vector<std::string> names;
  double sum = 0;
  for (const std::size_t i : verdict.contenders) {
    sum += probabilities[i];
    names.push_back(fmt::format("{} ({})", name(i), chance(probabilities[i])));
  }
  const std::string none = fmt::format("No winner: nothing has {} with {:.0f} % or more", aim, sim::sure_enough * 100);
  if (names.empty()) return none + ", since nothing ever is within the limits and fits.";
  const char* rest = sum < sim::sure_enough ? "; in other draws nothing is within the limits and fits" : "";
  return fmt::format("{}: it is {}{}.", none, fmt::join(names, " or "), rest);
}

std::string choice_words(const sim::PlanAnswer& answer) {
  const std::string first = option_name(answer, answer.choice()), aim = objective_words(answer.objective);
  const auto& best_with = answer.choice().best_with;
  std::vector<std::string> sentences;
  if (!answer.limits_met())
    sentences.push_back(fmt::format("As predicted no plan meets the limits: {}.", unmet_limits(answer)));
  if (!sim::within(answer.best(0).cost, answer.limits))
    sentences.emplace_back("The list is ordered as if there were none.");
  if (answer.best_with.size() > 1)
    sentences.push_back(verdict_words(answer.verdict, answer.best_with, aim, [&](std::size_t place) {
      return option_name(answer, answer.options[answer.order[place]]);
    }));
  const sim::Verdict of_plans = sim::verdict(best_with);
  if (best_with.size() > 1 && (of_plans.winner || !of_plans.contenders.empty() || sentences.empty()))
    sentences.push_back("Of the plans on " + first + ": " +
                        verdict_words(of_plans, best_with, objective_words(sim::Objective::time),
                                      [](std::size_t i) { return fmt::format("plan {}", i + 1); }));
  if (sentences.empty()) return first + ": plan 1 is the fastest that was found.";
  return fmt::format("{}", fmt::join(sentences, " "));
}

std::string verdict_text(const sim::PlanAnswer& answer, Style style) {
  std::string text = heading("Choice", style) + paragraph(choice_words(answer));
  const sim::RankedPlan& best = answer.choice().plans.front();
  const std::string& stack = answer.choice().inputs.profile.stack();
  text += paragraph(fmt::format("Plan 1 of {}: {}{}.", option_name(answer, answer.choice()), split_words(best.plan),
                                stack.empty() ? "" : "; software stack " + stack));
  if (const auto& run = best.result.run; run && best.plan.run.goodput)
    text += paragraph(fmt::format("Days, GPU-hours and cost at a goodput of {} (plan 1), {}.", fixed(run->goodput, 3),
                                  run->goodput_source));
  std::vector<sim::PlanCost> candidates;
  for (std::size_t i = 0; i < answer.order.size(); ++i) candidates.push_back(answer.best(i).cost);
  if (sim::degenerate(candidates, answer.objective, answer.limits))
    text += paragraph("Of several sizes the smallest tends to win by " + std::string(to_string(answer.objective)) +
                      ", since fewer GPUs waste less: the question is complete only with --deadline.");
  if (!answer.has_tokens) text += paragraph("No tokens are known, so there are no days and no cost: --tokens 1T.");
  return text;
}

std::string break_even_value(const sim::BreakEven& break_even, const sim::BreakEvenOptions& range) {
  if (!break_even.factor) return fmt::format("none within x{}..x{}", range.lowest, range.highest);
  const std::string factor = "x" + fixed(*break_even.factor, 2);
  return break_even.from ? fmt::format("{} ({} instead of {})", factor, number(*break_even.from * *break_even.factor),
                                       number(*break_even.from))
                         : factor;
}

std::string break_evens_text(const sim::PlanAnswer& answer, Style style) {
  if (answer.break_evens.empty()) return "";
  std::string text = heading("What would overturn it", style);
  for (const sim::BreakEvenSection& section : answer.break_evens) {
    const std::vector<std::string> names = alternative_names(answer, section);
    Table table({{section.hardware ? "on this cluster alone" : "on the cluster"}, {"change"}, {"then better"}});
    for (const sim::BreakEven& break_even : section.break_evens)
      table.row(sim::describe(break_even.quantity), break_even_value(break_even, {}),
                break_even.factor ? names[break_even.by] : "");
    text += paragraph(
                fmt::format("Plan 1 of {} against {}:", option_name(answer, answer.choice()), fmt::join(names, "; "))) +
            table.to_string();
  }
  return text;
}

std::string notes_text(const sim::PlanAnswer& answer, Style style) {
  std::string notes;
  for (const std::string& sentence : answer.assumptions) notes += paragraph(sentence + ".");
  if (!answer.overrides.empty()) notes += paragraph(fmt::format("--set {}.", fmt::join(answer.overrides, " --set ")));
  for (const sim::ClusterOption& option : answer.options)
    for (const std::string& note : option.notes)
      notes += paragraph(fmt::format("{}: {}.", option_name(answer, option), note));
  return notes.empty() ? "" : heading("What it rests on", style) + notes;
}

constexpr std::size_t most_rules = 6;  // per option

std::string certainty_text(const sim::PlanAnswer& answer, Style style) {
  std::string text =
      heading("How sure", style) +
      paragraph(fmt::format(
          "Ranges are eight of ten cases. Best with: the share of draws in which it is the best of those listed that "
          "are within the limits and fit; from {:.0f} % on it is called so. Errors that plans share are drawn once for "
          "all of "
          "them. "
          "Measured: the share of the step that rests on measured, fitted or published constants, by family with their "
          "shares of the step:",
          sim::sure_enough * 100));
  for (std::size_t i = 0; i < answer.order.size(); ++i)
    text += paragraph(fmt::format("{}. {}: {}.", i + 1, option_name(answer, answer.options[answer.order[i]]),
                                  family_words(answer.best(i).result)));
  return text;
}

std::string prices_text(const sim::PlanAnswer& answer, Style style) {
  std::string text = heading("Prices of a GPU-hour", style);
  std::vector<std::string> listed;
  for (const std::size_t i : answer.order) {
    const sim::ClusterOption& option = answer.options[i];
    const std::string words = price_words(option);
    if (std::ranges::find(listed, words) != listed.end()) continue;
    listed.push_back(words);
    text += paragraph(words);
  }
  return text;
}

std::string search_text(const sim::PlanAnswer& answer, Style style) {
  std::string text = heading("Searched", style);
  for (const sim::ClusterOption& option : answer.options) {
    const sim::SearchResult& search = option.search;
    if (search.space == 0) continue;
    text += paragraph(fmt::format("{}: {} plans{}, {} of them evaluated.", option_name(answer, option),
                                  grouped(search.space), search.complete ? "" : ", not all decided",
                                  grouped(search.evaluated)));
    std::size_t shown = 0;
    for (const sim::Removed& removed : search.removed) {
      if (removed.plans == 0 || shown++ >= most_rules) continue;
      text += paragraph(fmt::format("- {} {}", grouped(removed.plans), removed.rule));
    }
  }
  if (!answer.every_value)
    text +=
        paragraph("Of each key only the values that usually win were tried; --complete tries all (docs/planning.md).");
  return text;
}

}  // namespace

std::string plan_text(const sim::PlanAnswer& answer, bool color) {
  const Style style{color};
  std::string text =
      fmt::format("{}: {} {}, for {}{}\n", answer.name, answer.options.size(),
                  answer.options.size() == 1 ? "cluster option" : "cluster options", objective_words(answer.objective),
                  answer.complete ? "" : "; INCOMPLETE: stopped before everything was searched");
  if (answer.order.empty()) {
    for (const sim::ClusterOption& option : answer.options)
      text += paragraph(fmt::format("{}: no plan: {}.", option_name(answer, option), why_empty(option)));
    return text + search_text(answer, style) + notes_text(answer, style);
  }
  for (const std::string& sentence : recommendation(answer)) text += paragraph(sentence);
  return text + options_table(answer, style) + plans_table(answer, style) + verdict_text(answer, style) +
         break_evens_text(answer, style) + certainty_text(answer, style) + prices_text(answer, style) +
         search_text(answer, style) + notes_text(answer, style);
}

}  // namespace plumbline::reports
