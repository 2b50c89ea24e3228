#include "reports/text/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/text/format.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

std::string objective_words(sim::Objective objective) {
  if (objective == sim::Objective::time) return "the shortest time";
  return objective == sim::Objective::cost ? "the lowest cost" : "the fewest GPU-hours";
}

std::string names_of(const sim::PlanAnswer& answer, const std::vector<std::size_t>& places) {
  std::vector<std::string> names;
  for (const std::size_t place : places) names.push_back(option_name(answer.options[answer.order[place]]));
  return fmt::format("{}", fmt::join(names, "; "));
}

std::string split_words(const model::Plan& plan) {
  const model::StageLayers& layers = plan.schedule.layers_per_stage;
  if (layers.counts.empty()) return layers.balanced ? "layers balanced" : "layers spread evenly";
  return fmt::format("layers per stage {}", fmt::join(layers.counts, " "));
}

std::string choice_words(const sim::PlanAnswer& answer) {
  const std::string first = option_name(answer.first()), aim = objective_words(answer.objective);
  if (!sim::within(answer.best(0).cost, answer.limits))
    return fmt::format("No plan meets the limits: {}. The list is ordered as if there were none.",
                       unmet_limits(answer));
  if (answer.order.size() == 1)
    return fmt::format(
        "{}: plan 1 is {} that was found; errors of the profile are common to all plans here, so they "
        "are ranked as they are. Those less apart than what is not common count as a tie: {:.0f} % where schedules "
        "differ, {:.0f} % where degrees or micro-batches do.",
        first, answer.objective == sim::Objective::time ? "the fastest" : aim, sim::schedule_scatter * 100,
        sim::layout_scatter * 100);
  const std::string tie =
      answer.verdict.ties.empty() ? "" : fmt::format(", in a tie with {}", names_of(answer, answer.verdict.ties));
  if (answer.verdict.winner)
    return fmt::format(
        "{} has {}{}: sizes of one cluster have the same errors, and those of other hardware do not reach it.", first,
        aim, tie);
  return fmt::format(
      "No winner: {} comes first for {}{}, but within the uncertainties of the predictions it cannot be distinguished "
      "from "
      "{}.",
      first, aim, tie, names_of(answer, answer.verdict.indistinguishable));
}

std::string limit_words(const sim::PlanAnswer& answer) {
  const sim::PlanCost& cost = answer.best(0).cost;
  if (!answer.limits.days || !sim::within(cost, answer.limits)) return "";
  const auto days = sim::interval(cost, sim::Objective::time);
  if (!days) return "Whether the deadline is safe is not known: the profile states no uncertainty.";
  if (days->high <= *answer.limits.days) return "The deadline holds also at the long end of the uncertainty.";
  return fmt::format("The deadline of {} days is not safe: at the long end of the uncertainty the run takes {} days.",
                     number(*answer.limits.days), number(days->high));
}

std::string verdict_text(const sim::PlanAnswer& answer, Style style) {
  std::string text = heading("Choice", style) + paragraph(choice_words(answer));
  const std::string& stack = answer.first().inputs.profile.stack();
  text += paragraph(fmt::format("Plan 1 of {}: {}{}.", option_name(answer.first()), split_words(answer.best(0).plan),
                                stack.empty() ? "" : "; software stack " + stack));
  if (const std::string words = limit_words(answer); !words.empty()) text += paragraph(words);
  std::vector<sim::PlanCost> candidates;
  for (std::size_t i = 0; i < answer.order.size(); ++i) candidates.push_back(answer.best(i).cost);
  if (sim::degenerate(candidates, answer.objective, answer.limits))
    text += paragraph("Of several sizes the smallest tends to win by " + std::string(to_string(answer.objective)) +
                      ", since fewer GPUs waste less: the question is complete only with --deadline.");
  if (!answer.has_tokens)
    text += paragraph("No tokens are known, so there are no days and no cost: --set run.tokens=1e12.");
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
    Table table({{section.hardware ? "on the first cluster alone" : "on the cluster"}, {"change"}, {"then better"}});
    for (const sim::BreakEven& break_even : section.break_evens)
      table.add({std::string(sim::describe(break_even.quantity)), break_even_value(break_even, {}),
                 break_even.factor ? names[break_even.by] : ""});
    text += paragraph(fmt::format("Plan 1 of {} against {}:", option_name(answer.first()), fmt::join(names, "; "))) +
            table.to_string();
  }
  return text;
}

std::string notes_text(const sim::PlanAnswer& answer, Style style) {
  std::string notes;
  for (const std::string& sentence : answer.assumptions) notes += paragraph(sentence + ".");
  if (!answer.overrides.empty()) notes += paragraph(fmt::format("--set {}.", fmt::join(answer.overrides, " --set ")));
  for (const sim::ClusterOption& option : answer.options)
    for (const std::string& note : option.notes) notes += paragraph(fmt::format("{}: {}.", option_name(option), note));
  return notes.empty() ? "" : heading("What it rests on", style) + notes;
}

constexpr std::size_t break_even_width = 120;
constexpr std::size_t most_rules = 6;  // per option

// Returns each profile once, with the reason for its uncertainty.
std::string profiles_text(const sim::PlanAnswer& answer) {
  std::string text;
  std::vector<std::string> listed;
  for (const std::size_t i : answer.order) {
    const sim::ClusterOption& option = answer.options[i];
    const std::string& name = option.inputs.profile.name();
    if (std::ranges::find(listed, name) != listed.end()) continue;
    listed.push_back(name);
    text += paragraph(option.uncertainty ? fmt::format("{} ({}): {}.", name, model::to_string(option.uncertainty->kind),
                                                       option.uncertainty->source)
                                         : fmt::format("{} states no prediction.step_uncertainty.", name));
  }
  return text;
}

std::string certainty_text(const sim::PlanAnswer& answer, Style style) {
  using enum Align;
  const bool money = answer.objective == sim::Objective::cost;
  const char* unit = money ? "USD" : answer.objective == sim::Objective::time ? "days" : "GPU-hours";
  const char* of_step = answer.objective == sim::Objective::time ? "seconds of a step" : "GPU-seconds of a step";
  Table table({{"", right},
               {"cluster"},
               {"profile"},
               {"off by", right},
               {answer.has_tokens ? unit : of_step, right},
               {"measured", right}},
              2, break_even_width);
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const sim::ClusterOption& option = answer.options[answer.order[i]];
    const auto range = sim::interval(answer.best(i).cost, answer.objective);
    const auto text = [&](double value) { return money ? scaled(value) : number(value); };
    table.add({fmt::format("{}", i + 1), option_name(option), option.inputs.profile.name(),
               option.uncertainty ? percent(option.uncertainty->value) : "unknown",
               range ? fmt::format("{} to {}", text(range->low), text(range->high)) : "-",
               percent(measured_share(answer.best(i).result))});
  }
  std::string families;
  for (std::size_t i = 0; i < answer.order.size(); ++i)
    families += paragraph(fmt::format("{}. {}: {}.", i + 1, option_name(answer.options[answer.order[i]]),
                                      family_words(answer.best(i).result)));
  return heading("How sure", style) + table.to_string() + "\n" +
         paragraph(
             "Off by: one standard deviation of a predicted step; measured: share of the step that rests on "
             "measured, fitted or published constants. By family, with their shares of the step:") +
         families + profiles_text(answer);
}

std::string prices_text(const sim::PlanAnswer& answer, Style style) {
  std::string text = heading("Prices of a GPU-hour", style);
  std::vector<std::string> listed;
  for (const std::size_t i : answer.order) {
    const sim::ClusterOption& option = answer.options[i];
    const auto price = sim::price_of(option);
    const std::string words = price.value ? fmt::format("{}: {} USD ({} to {}), {}, {}: {}.", option.cluster,
                                                        fixed(price.value->value, 2), fixed(price.value->low, 2),
                                                        fixed(price.value->high, 2), option.inputs.plan.run.ownership,
                                                        model::to_string(price.value->kind), price.value->source)
                                          : fmt::format("{}: no price known: {}.", option.cluster, price.missing);
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
    text += paragraph(fmt::format(
        "{}: {} plans{}, {} of them evaluated.", option_name(option), grouped(static_cast<double>(search.space)),
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

}  // namespace

std::string plan_text(const sim::PlanAnswer& answer, bool color) {
  const Style style{color};
  std::string text =
      fmt::format("{}: {} {}, for {}{}\n", answer.name, answer.options.size(),
                  answer.options.size() == 1 ? "cluster option" : "cluster options", objective_words(answer.objective),
                  answer.complete ? "" : "; INCOMPLETE: stopped before everything was searched");
  if (answer.order.empty()) {
    for (const sim::ClusterOption& option : answer.options)
      text += paragraph(fmt::format("{}: no plan: {}.", option_name(option), why_empty(option)));
    return text + search_text(answer, style) + notes_text(answer, style);
  }
  if (answer.options.size() > 1) text += options_table(answer, style);
  return text + plans_table(answer, style) + verdict_text(answer, style) + break_evens_text(answer, style) +
         certainty_text(answer, style) + prices_text(answer, style) + search_text(answer, style) +
         notes_text(answer, style);
}

}  // namespace plumbline::reports
