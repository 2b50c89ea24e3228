#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/plan_answer.h"
#include "model/layout.h"
#include "reports/format.h"
#include "reports/paragraph.h"
#include "reports/table.h"

namespace plumbline::cli {
namespace {

using reports::grouped;
using reports::number;
using reports::paragraph;
using reports::percent;

constexpr std::size_t table_width = 180;
constexpr std::size_t most_rules = 6;  // of a site

std::string count(std::int64_t value) { return grouped(static_cast<double>(value)); }

std::string optional_number(const std::optional<double>& value) { return value ? number(*value) : "-"; }

std::string money(const Offer& offer) {
  if (!offer.usd) return "-";
  const bool range = offer.usd_low && offer.usd_high && *offer.usd_low < *offer.usd_high;
  const std::string value = reports::scaled(*offer.usd);
  return range ? fmt::format("{} ({}-{})", value, reports::scaled(*offer.usd_low), reports::scaled(*offer.usd_high))
               : value;
}

std::string schedule_words(const model::Plan& plan) {
  const std::int64_t chunks = plan.schedule.virtual_stages;
  return chunks > 1 ? fmt::format("{} x{}", plan.schedule.kind, chunks) : plan.schedule.kind;
}

std::string recompute_words(const model::Plan& plan) {
  std::string text = plan.recompute.policy;
  if (text == "selective") text = fmt::format("{}", fmt::join(plan.recompute.operators, ", "));
  if (text != "none" && plan.recompute.layers) text += fmt::format(", first {} layers", *plan.recompute.layers);
  return text;
}

std::string objective_words(Objective objective) {
  if (objective == Objective::time) return "the shortest time";
  return objective == Objective::cost ? "the lowest cost" : "the fewest GPU-hours";
}

std::vector<reports::Column> plan_columns() {
  using enum reports::Align;
  return {{"t", right},
          {"c", right},
          {"p", right},
          {"e", right},
          {"data", right},
          {"schedule", left},
          {"ZeRO", right},
          {"mb", right},
          {"recompute"},
          {"SMs", right},
          {"step", right},
          {"days", right},
          {"GPU-hours", right},
          {"USD", right},
          {"memory", right},
          {"+", right},
          {""}};
}

std::vector<std::string> plan_cells(const PlanRow& row, double over, std::string remark) {
  const model::Plan& plan = row.plan;
  const auto& degrees = plan.parallelism;
  const std::int64_t data = plan.cluster.gpus / (degrees.tensor * degrees.context * degrees.pipeline);
  const Offer& offer = row.offer;
  return {
      fmt::format("{}{}", degrees.tensor, degrees.sequence ? "s" : ""),
      count(degrees.context),
      count(degrees.pipeline),
      degrees.expert_tensor > 1 ? fmt::format("{}x{}", degrees.expert, degrees.expert_tensor) : count(degrees.expert),
      count(data),
      schedule_words(plan),
      count(degrees.zero_stage),
      count(plan.batch.micro_batch_size),
      recompute_words(plan),
      count(plan.overlap.communication_sms),
      reports::duration(offer.step_s),
      optional_number(offer.days),
      offer.gpu_hours ? reports::scaled(*offer.gpu_hours) : "-",
      money(offer),
      reports::gigabytes(row.result.memory.peak_bytes) + " GB",
      over > 0 ? percent(over) : "",
      std::move(remark)};
}

std::vector<reports::Column> with(std::vector<reports::Column> front, const std::vector<reports::Column>& rest) {
  front.insert(front.end(), rest.begin(), rest.end());
  return front;
}

std::vector<std::string> with(std::vector<std::string> front, const std::vector<std::string>& rest) {
  front.insert(front.end(), rest.begin(), rest.end());
  return front;
}

std::string site_remark(const PlanAnswer& answer, std::size_t place) {
  const PlanRow& row = answer.best(place);
  std::vector<std::string> words;
  if (!within(row.offer, answer.limits)) words.emplace_back("over the limit");
  if (answer.dominated[place]) words.emplace_back(*answer.dominated[place] ? "dominated" : "front");
  if (only_datasheet(row.result)) words.emplace_back("datasheet");
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string sites_table(const PlanAnswer& answer, reports::Style style) {
  using enum reports::Align;
  reports::Table table(with({{"", right}, {"cluster"}, {"GPUs", right}}, plan_columns()), 2, table_width);
  const auto best = measure(answer.best(0).offer, answer.objective);
  std::string reasons;
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const Site& site = answer.sites[answer.order[i]];
    const auto value = measure(answer.best(i).offer, answer.objective);
    const double over = best && value ? *value / *best - 1 : 0;
    table.add(with({count(static_cast<std::int64_t>(i) + 1), site.cluster, count(site.gpus)},
                   plan_cells(answer.best(i), over, site_remark(answer, i))));
    if (i == 0) continue;
    const Site& above = answer.sites[answer.order[i - 1]];
    reasons += paragraph(fmt::format("{} against {}: {}.", i + 1, i, reason_between(above, site, answer.objective)));
  }
  std::string text = reports::heading("Sites, each with its best plan", style) + table.to_string();
  if (!reasons.empty()) text += "\n" + reasons;
  for (const std::size_t i : answer.empty)
    text += paragraph(fmt::format("{}: no plan: {}.", site_name(answer.sites[i]), why_empty(answer.sites[i])));
  return text;
}

std::string plans_table(const PlanAnswer& answer, reports::Style style) {
  using enum reports::Align;
  const Site& site = answer.first();
  reports::Table table(with({{"", right}}, plan_columns()), 2, table_width);
  std::string reasons;
  for (std::size_t i = 0; i < site.rows.size(); ++i) {
    const PlanRow& row = site.rows[i];
    const double over = row.offer.step_s / site.rows.front().offer.step_s - 1;
    table.add(with({count(static_cast<std::int64_t>(i) + 1)}, plan_cells(row, over, "")));
    if (i > 0) reasons += paragraph(fmt::format("{} against {}: {}.", i + 1, i, reason_on_site(site.rows[i - 1], row)));
  }
  std::string text = reports::heading("Plans on " + site_name(site), style) + table.to_string() + "\n" +
                     paragraph(
                         "t tensor (s: with sequence parallelism), c context, p pipeline, e expert degree, data: "
                         "copies; mb: sequences of a micro-batch; SMs: of communication.");
  return text + reasons;
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
  if (answer.verdict.winner && answer.verdict.ties.empty())
    return fmt::format("{} has {}, also where its prediction and the others' are off by their uncertainties.", first,
                       aim);
  if (answer.verdict.winner)
    return fmt::format("{} has {}, in a tie with {}.", first, aim, names_of(answer, answer.verdict.ties));
  return fmt::format(
      "No winner: {} comes first for {}, but within the uncertainties of the predictions it cannot be "
      "told from {}.",
      first, aim, names_of(answer, answer.verdict.indistinguishable));
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
  if (std::ranges::none_of(offers, [](const Offer& offer) { return offer.usd.has_value(); }))
    text +=
        paragraph(answer.has_tokens ? "No price is known: give one with --set run.price_usd_per_gpu_hour=2.0."
                                    : "No tokens are known, so there are no days and no cost: --set run.tokens=1e12.");
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
    table.add({count(static_cast<std::int64_t>(i) + 1), site_name(site), site.inputs.profile.name(),
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
  return text;
}

std::string notes_text(const PlanAnswer& answer, reports::Style style) {
  std::string notes;
  for (const std::string& sentence : answer.assumptions) notes += paragraph(sentence + ".");
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
         certainty_text(answer, style) + search_text(answer, style) + notes_text(answer, style);
}

}  // namespace plumbline::cli
