#include "reports/text/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/plan/layout.h"
#include "model/result/result.h"
#include "reports/charts/charts.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

std::string days_cell(const std::optional<double>& days) { return days ? days_text(*days) : "-"; }

// Returns "6.02 M (4.06-10.20 M)"; the range is eight of ten draws of step and price.
std::string money(const sim::RankedPlan& row) {
  const sim::PlanCost& cost = row.cost;
  constexpr double million = 1e6;
  if (!cost.usd) return "-";
  const bool small = *cost.usd < million;
  const auto text = [&](double usd) { return small ? usd_text(usd) : fixed(usd / million, 2) + " M"; };
  const auto range = objective_interval(row, sim::Objective::cost);
  return text(*cost.usd) + (range ? fmt::format(" ({})", span(text(range->p10), text(range->p90))) : "");
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

std::string expert_words(const model::RankGroup& experts) {
  return experts.stride > 1 ? fmt::format("{}x{}", experts.ranks, experts.stride) : grouped(experts.ranks);
}

// Returns the probabilities of limits, for the columns of those that are given. `probability` is of one of them.
template <class Probability>
std::vector<std::string> limit_cells(const sim::Limits& limits, Probability probability) {
  std::vector<std::string> cells;
  if (limits.days) cells.push_back(chance(probability(sim::Limits{.days = limits.days})));
  if (limits.usd) cells.push_back(chance(probability(sim::Limits{.usd = limits.usd})));
  return cells;
}

std::string throughput(const sim::RankedPlan& row) {
  return grouped(model::middle_step(row.result).tokens_per_s_per_gpu);
}

std::string utilization(const sim::RankedPlan& row) { return percent(model::middle_step(row.result).mfu); }

// `of`: of what the amounts of the training are, where others stand next to them.
std::vector<Column> wide_columns(const sim::Limits& limits, const char* of) {
  return columns_of(fmt::format(
      ">t | >c | >p | >e | >data | schedule | >ZeRO | >mb | recompute | >SMs | >step | >10-90 % | >MFU | "
      ">tokens/s/GPU | >best with | {0}{1}>days{2} | >GPU-hours{2} | >USD{2} | >memory | >fits with | >+ | >twins",
      limits.days ? ">in time with | " : "", limits.usd ? ">in budget with | " : "", of));
}

// `held`: the cells of the limits.
std::vector<std::string> wide_cells(const sim::RankedPlan& row, const std::vector<std::string>& held,
                                    std::optional<double> best_with, double over) {
  const model::Plan& plan = row.plan;
  const auto& degrees = plan.parallelism;
  const std::int64_t data = plan.cluster.gpus / (degrees.tensor * degrees.context * degrees.pipeline);
  const sim::PlanCost& cost = row.cost;
  const auto& interval = row.result.interval;
  const std::vector<std::string> layout = {
      fmt::format("{}{}", degrees.tensor, degrees.sequence ? "s" : ""),
      grouped(degrees.context),
      grouped(degrees.pipeline),
      expert_words(model::expert_group(degrees)),
      grouped(data),
      schedule_words(plan),
      grouped(degrees.zero_stage),
      grouped(plan.batch.micro_batch_size),
      recompute_words(plan),
      grouped(plan.overlap.communication_sms),
      duration(cost.step_s),
      interval ? span(duration(interval->time_s.p10), duration(interval->time_s.p90)) : "-",
      utilization(row),
      throughput(row),
      chance(best_with)};
  const std::vector<std::string> run = {days_cell(cost.days),
                                        cost.gpu_hours ? scaled(*cost.gpu_hours) : "-",
                                        money(row),
                                        gigabytes(row.result.memory.peak_bytes) + " GB",
                                        interval ? chance(interval->fits_probability) : "-",
                                        over > 0 ? percent(over) : "",
                                        grouped(row.twins)};
  return with(with(layout, held), run);
}

std::optional<double> at(const std::vector<double>& probabilities, std::size_t place) {
  return probabilities.empty() ? std::nullopt : std::optional(probabilities[place]);
}

// Returns what the numbers of a cluster amount to: "over the limit", "front", ...
std::vector<std::string> remarks(const sim::PlanAnswer& answer, std::size_t place) {
  const sim::RankedPlan& row = answer.best(place);
  std::vector<std::string> words;
  if (!answer.within_limits(place)) words.emplace_back("over the limit");
  if (answer.dominated[place]) words.emplace_back(*answer.dominated[place] ? "dominated" : "front");
  if (only_datasheet(row.result)) words.emplace_back("datasheet");
  return words;
}

// Returns "front: 1, 2; dominated: 3.": the remarks with the ranks that they hold for.
std::string remark_sentence(const sim::PlanAnswer& answer) {
  std::map<std::string, std::vector<std::size_t>> ranks;
  for (std::size_t i = 0; i < answer.order.size(); ++i)
    for (const std::string& remark : remarks(answer, i)) ranks[remark].push_back(i + 1);
  std::vector<std::string> parts;
  for (const char* remark : {"front", "dominated", "over the limit", "datasheet"})
    if (ranks.contains(remark)) parts.push_back(fmt::format("{}: {}", remark, fmt::join(ranks[remark], ", ")));
  return parts.empty() ? "" : paragraph(fmt::format("{}.", fmt::join(parts, "; ")));
}

// Returns the number of ranked options whose training with failures is known.
std::size_t known_trainings(const sim::PlanAnswer& answer) {
  return static_cast<std::size_t>(std::ranges::count_if(
      answer.order, [&](std::size_t i) { return sim::known_training(answer.options[i]) != nullptr; }));
}

// Returns what the table of the clusters counts. `what`: the columns that count failures.
std::string counted_sentence(const sim::PlanAnswer& answer, const char* what) {
  const std::size_t known = known_trainings(answer);
  if (known == 0) return "";
  return paragraph(
      fmt::format("{}: with failures{}.", what, known == answer.order.size() ? "" : ", where these are predicted"));
}

// Returns an amount of a training; "-" where it is not known or the training never ends.
std::string amount_cell(const std::optional<double>& amount, std::string (*text)(double) = scaled) {
  return amount && std::isfinite(*amount) ? text(*amount) : "-";
}

double over_best(const sim::PlanAnswer& answer, std::size_t place) {
  const auto best = sim::measure(answer.taken(0), answer.objective);
  const auto value = sim::measure(answer.taken(place), answer.objective);
  return best && value && std::isfinite(*value) ? *value / *best - 1 : 0;
}

// One block of 80 columns: what is ranked by, what it takes and what it yields; option_words() has the rest.
Table narrow_options(const sim::PlanAnswer& answer) {
  const bool hours = answer.objective == sim::Objective::gpu_hours;
  const std::string run = !answer.has_tokens ? ">step" : hours ? ">days | >GPU-hours" : ">days | >USD";
  Table table(columns_of(fmt::format("> | cluster | >GPUs | {} | >MFU | >tokens /s/GPU{} | >fits with", run,
                                     answer.limits.days ? " | >in time with" : "")));
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const sim::ClusterOption& option = answer.options[answer.order[i]];
    const sim::RankedPlan& row = answer.best(i);
    const sim::PlanCost cost = answer.taken(i);
    std::vector<std::string> cells = {grouped(i + 1), option.cluster, grouped(option.gpus)};
    if (!answer.has_tokens) cells.push_back(duration(cost.step_s));
    if (answer.has_tokens) cells.push_back(days_cell(cost.days));
    if (answer.has_tokens && hours) cells.push_back(amount_cell(cost.gpu_hours));
    if (answer.has_tokens && !hours) cells.push_back(amount_cell(cost.usd, usd_text));
    cells.insert(cells.end(), {utilization(row), throughput(row)});
    if (answer.limits.days) cells.push_back(chance(answer.probability_within(i, {.days = answer.limits.days})));
    cells.push_back(row.result.interval ? chance(row.result.interval->fits_probability) : "-");
    table.add(std::move(cells));
  }
  return table;
}

// Returns what failures make of the training, and the fewest GPUs that end by the deadline.
std::vector<std::string> failure_cells(const sim::ClusterOption& option) {
  if (!option.campaign) return {"-", "-", "-", "-", "-"};
  const sim::CampaignAnswer& training = *option.campaign;
  const sim::PlanCost cost = sim::taken_by(option);
  const bool in_time = training.finish && training.finish->gpus;
  const bool known = sim::known_training(option) != nullptr;
  return {number(training.result.hours_between_failures), known ? days_cell(cost.days) : "-",
          known ? amount_cell(cost.gpu_hours) : "-", known ? amount_cell(cost.usd, usd_text) : "-",
          in_time ? grouped(*training.finish->gpus) : "-"};
}

Table wide_options(const sim::PlanAnswer& answer) {
  Table table(with(with(columns_of("> | cluster | profile | >measured | >GPUs"),
                        wide_columns(answer.limits, known_trainings(answer) > 0 ? " by steps alone" : "")),
                   columns_of(">hours to a failure | >days with failures | >GPU-hours with failures | "
                              ">USD with failures | >fewest GPUs in time")));
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const sim::ClusterOption& option = answer.options[answer.order[i]];
    const sim::RankedPlan& row = answer.best(i);
    const auto best_with = answer.order.size() > 1 ? at(answer.best_with, i) : std::nullopt;
    const auto held =
        limit_cells(answer.limits, [&](const sim::Limits& limit) { return answer.probability_within(i, limit); });
    const auto cells = wide_cells(row, held, best_with, over_best(answer, i));
    table.add(with(with({grouped(i + 1), option.cluster, option.inputs.profile.name(),
                         percent(measured_share(row.result)), grouped(option.gpus)},
                        cells),
                   failure_cells(option)));
  }
  return table;
}

double over_first(const sim::ClusterOption& option, std::size_t place) {
  return option.plans[place].cost.step_s / option.plans.front().cost.step_s - 1;
}

Table narrow_plans(const sim::ClusterOption& option) {
  Table table("> | plan | >step | >MFU | >tokens /s/GPU | >fits with | >best with | >+");
  for (std::size_t i = 0; i < option.plans.size(); ++i) {
    const sim::RankedPlan& row = option.plans[i];
    const auto& interval = row.result.interval;
    table.add({grouped(i + 1), plan_words(row), duration(row.cost.step_s), utilization(row), throughput(row),
               interval ? chance(interval->fits_probability) : "-", chance(at(option.best_with, i)),
               i > 0 ? percent(over_first(option, i)) : ""});
  }
  return table;
}

Table wide_plans(const sim::ClusterOption& option, const sim::Limits& limits) {
  Table table(with(columns_of(">"), wide_columns(limits, "")));
  for (std::size_t i = 0; i < option.plans.size(); ++i) {
    const sim::RankedPlan& row = option.plans[i];
    const auto held =
        limit_cells(limits, [&](const sim::Limits& limit) { return sim::probability_within(row.cost, limit); });
    table.add(with({grouped(i + 1)}, wide_cells(row, held, at(option.best_with, i), over_first(option, i))));
  }
  return table;
}

// Returns the faster plans that may not fit, with what they would win.
std::string edge_table(const sim::ClusterOption& option, Style style) {
  if (option.edge.empty()) return "";
  Table table("plan | >step | >fits with | >peak | >faster by");
  for (const sim::RankedPlan& row : option.edge) {
    const model::Quantiles& peak = row.result.interval->peak_bytes;
    table.add({plan_words(row), duration(row.cost.step_s), chance(row.result.interval->fits_probability),
               span(gigabytes(peak.p10) + " GB", gigabytes(peak.p90) + " GB"),
               option.plans.empty() ? "" : percent(1 - row.cost.step_s / option.plans.front().cost.step_s)});
  }
  return heading(fmt::format("At the edge of {} GB", gigabytes(option.inputs.cluster.device.memory.value())), style) +
         table.to_string() + "\n" +
         paragraph(
             fmt::format("Faster plans that fit with less than {:.0f} % (search.min_fit) and are not ranked; "
                         "peak: eight of ten cases, on a device without limit. `memory` lists what would make one fit.",
                         option.inputs.plan.search.min_fit * 100));
}

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
  if (!answer.within_limits(0)) sentences.emplace_back("The list is ordered as if there were none.");
  if (answer.best_with.size() > 1)
    sentences.push_back(verdict_words(answer.verdict, answer.best_with, aim, [&](std::size_t place) {
      return option_name(answer, answer.options[answer.order[place]]);
    }));
  const sim::Verdict of_plans = sim::verdict(best_with);
  if (best_with.size() > 1 && (of_plans.winner || !of_plans.contenders.empty() || sentences.empty())) {
    std::string words = verdict_words(of_plans, best_with, objective_words(sim::Objective::time),
                                      [](std::size_t i) { return fmt::format("plan {}", i + 1); });
    if (words.starts_with('N')) words.front() = 'n';  // within a sentence
    sentences.push_back(fmt::format("Of the plans on {}: {}", first, words));
  }
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

std::string plan_words(const sim::RankedPlan& row) {
  const model::Plan& plan = row.plan;
  const auto& degrees = plan.parallelism;
  const model::RankGroup experts = model::expert_group(degrees);
  std::vector<std::string> words;
  const auto add = [&](const char* name, std::int64_t value, const std::string& text) {
    if (value > 1) words.push_back(fmt::format("{} {}", name, text));
  };
  add("t", degrees.tensor, fmt::format("{}{}", degrees.tensor, degrees.sequence ? "s" : ""));
  add("c", degrees.context, grouped(degrees.context));
  add("p", degrees.pipeline, grouped(degrees.pipeline));
  add("e", experts.ranks * experts.stride, expert_words(experts));
  if (degrees.pipeline > 1) words.push_back(schedule_words(plan));
  words.push_back(fmt::format("ZeRO {}", degrees.zero_stage));
  words.push_back(fmt::format("mb {}", plan.batch.micro_batch_size));
  if (plan.recompute.policy != "none") words.push_back("recompute " + recompute_words(plan));
  if (plan.overlap.communication_sms > 0) words.push_back(fmt::format("{} SMs", plan.overlap.communication_sms));
  if (plan.offload.optimizer) words.emplace_back("optimizer on hosts");
  if (plan.offload.activations > 0) words.emplace_back("activations on hosts");
  if (row.twins > 0) words.push_back(fmt::format("and {} {}", row.twins, row.twins == 1 ? "twin" : "twins"));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string options_table(const sim::PlanAnswer& answer, Style style) {
  const bool wide = text_width() > terminal_width;
  std::string text = heading("Clusters, each with its best plan", style) +
                     (wide ? wide_options(answer) : narrow_options(answer)).to_string() + "\n" +
                     counted_sentence(answer, wide ? "Order, +, best with and probabilities of limits"
                                                   : "Days, costs and probabilities") +
                     remark_sentence(answer);
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    if (!wide) text += paragraph(fmt::format("{}. {}", i + 1, option_words(answer, i)));
    if (i == 0) continue;
    const sim::ClusterOption& above = answer.options[answer.order[i - 1]];
    const std::string reason = reason_between(above, answer.options[answer.order[i]], answer.objective);
    text += paragraph(fmt::format("{} against {}: {}.", i + 1, i, reason));
  }
  for (const std::size_t i : answer.empty)
    text += paragraph(
        fmt::format("{}: no plan: {}.", option_name(answer, answer.options[i]), why_empty(answer.options[i])));
  return text;
}

std::string plans_table(const sim::PlanAnswer& answer, Style style) {
  const sim::ClusterOption& option = answer.choice();
  const bool wide = text_width() > terminal_width;
  std::string text =
      heading("Plans on " + option_name(answer, option), style) +
      (wide ? wide_plans(option, answer.limits) : narrow_plans(option)).to_string() + "\n" +
      paragraph(fmt::format(
          "t tensor (s: with sequence parallelism), c context, p pipeline, e expert degree; mb: "
          "sequences of a micro-batch; SMs: of communication; +: slower than the first. Reasons are "
          "seconds of the components, and what the middle has beyond them{}{}.",
          wide ? "; 10-90 % and the range of USD: eight of ten cases" : "; days, USD, memory and every degree: --wide",
          wide && option.campaign ? "; days, USD and probabilities of limits: by the steps alone" : ""));
  for (std::size_t i = 1; i < option.plans.size(); ++i)
    text +=
        paragraph(fmt::format("{} against {}: {}.", i + 1, i, reason_on_option(option.plans[i - 1], option.plans[i])));
  return text + edge_table(option, style);
}

std::string plan_svg(const sim::PlanAnswer& answer) {
  constexpr double million = 1e6;
  LineChart chart;
  chart.title = fmt::format("{}: days against dollars", answer.name);
  chart.subtitle = "each point a cluster of one size with its best plan; a ring: nothing is both faster and cheaper";
  chart.x_title = "days";
  chart.decimal_ticks = true;
  auto& panel = chart.panels.emplace_back(LineChart::Panel{"million USD", true, {}});
  std::map<std::string, std::vector<std::size_t>> clusters;  // indices into answer.order
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const sim::PlanCost& cost = answer.best(i).cost;
    if (cost.days && cost.usd) clusters[answer.options[answer.order[i]].cluster].push_back(i);
  }
  for (auto& [name, places] : clusters) {
    std::ranges::sort(places, {}, [&](std::size_t i) { return *answer.best(i).cost.days; });
    auto& series = panel.series.emplace_back(LineChart::Series{name, {}});
    for (const std::size_t i : places) {
      const sim::PlanCost& cost = answer.best(i).cost;
      series.points.push_back({*cost.days, *cost.usd / million});
      if (answer.dominated[i] == false)
        chart.marks.push_back({*cost.days, *cost.usd / million, option_name(answer, answer.options[answer.order[i]])});
    }
  }
  return line_chart_svg(chart);
}

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
