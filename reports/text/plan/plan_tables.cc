#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/plan/layout.h"
#include "reports/charts/line_chart.h"
#include "reports/text/format.h"
#include "reports/text/plan/plan_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

std::string count(std::int64_t value) { return grouped(static_cast<double>(value)); }

std::string optional_number(const std::optional<double>& value) { return value ? number(*value) : "-"; }

// Returns "6.02 M (4.06-10.20 M)"; the range is eight of ten draws of step and price.
std::string money(const sim::RankedPlan& row) {
  const sim::PlanCost& cost = row.cost;
  constexpr double million = 1e6;
  if (!cost.usd) return "-";
  const bool small = *cost.usd < million;
  const auto text = [&](double usd) { return small ? grouped(usd) : fixed(usd / million, 2) + " M"; };
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

template <class Cell>
std::vector<Cell> with(std::vector<Cell> front, const std::vector<Cell>& rest) {
  front.insert(front.end(), rest.begin(), rest.end());
  return front;
}

// Returns the probabilities of a plan's limits, for the columns of those that are given.
std::vector<std::string> limit_cells(const sim::PlanCost& cost, const sim::Limits& limits) {
  std::vector<std::string> cells;
  if (limits.days) cells.push_back(chance(sim::probability_within(cost, {.days = limits.days})));
  if (limits.usd) cells.push_back(chance(sim::probability_within(cost, {.usd = limits.usd})));
  return cells;
}

std::vector<Column> plan_columns(const sim::Limits& limits) {
  return columns_of(fmt::format(
      ">t | >c | >p | >e | >data | schedule | >ZeRO | >mb | recompute | >SMs | >step | >10-90 % | >best with "
      "| {}{}>days | >GPU-hours | >USD | >memory | >fits with | >+ | ",
      limits.days ? ">deadline holds with | " : "", limits.usd ? ">budget holds with | " : ""));
}

std::vector<std::string> plan_cells(const sim::RankedPlan& row, const sim::Limits& limits,
                                    std::optional<double> best_with, double over, std::string remark) {
  const model::Plan& plan = row.plan;
  const auto& degrees = plan.parallelism;
  const model::RankGroup experts = model::expert_group(degrees);
  const std::int64_t data = plan.cluster.gpus / (degrees.tensor * degrees.context * degrees.pipeline);
  const sim::PlanCost& cost = row.cost;
  const auto& interval = row.result.interval;
  const std::vector<std::string> layout = {
      fmt::format("{}{}", degrees.tensor, degrees.sequence ? "s" : ""),
      count(degrees.context),
      count(degrees.pipeline),
      experts.stride > 1 ? fmt::format("{}x{}", experts.ranks, experts.stride) : count(experts.ranks),
      count(data),
      schedule_words(plan),
      count(degrees.zero_stage),
      count(plan.batch.micro_batch_size),
      recompute_words(plan),
      count(plan.overlap.communication_sms),
      duration(cost.step_s),
      interval ? span(duration(interval->time_s.p10), duration(interval->time_s.p90)) : "-",
      chance(best_with)};
  const std::vector<std::string> run = {optional_number(cost.days),
                                        cost.gpu_hours ? scaled(*cost.gpu_hours) : "-",
                                        money(row),
                                        gigabytes(row.result.memory.peak_bytes) + " GB",
                                        interval ? chance(interval->fits_probability) : "-",
                                        over > 0 ? percent(over) : "",
                                        std::move(remark)};
  return with(with(layout, limit_cells(cost, limits)), run);
}

std::optional<double> at(const std::vector<double>& probabilities, std::size_t place) {
  return probabilities.empty() ? std::nullopt : std::optional(probabilities[place]);
}

std::string option_remark(const sim::PlanAnswer& answer, std::size_t place) {
  const sim::RankedPlan& row = answer.best(place);
  std::vector<std::string> words;
  if (!sim::within(row.cost, answer.limits)) words.emplace_back("over the limit");
  if (answer.dominated[place]) words.emplace_back(*answer.dominated[place] ? "dominated" : "front");
  if (only_datasheet(row.result)) words.emplace_back("datasheet");
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::string options_table(const sim::PlanAnswer& answer, Style style) {
  Table table(with(columns_of("> | cluster | profile | >measured | >GPUs"), plan_columns(answer.limits)));
  const auto best = sim::measure(answer.best(0).cost, answer.objective);
  std::string reasons;
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const sim::ClusterOption& option = answer.options[answer.order[i]];
    const auto value = sim::measure(answer.best(i).cost, answer.objective);
    const double over = best && value ? *value / *best - 1 : 0;
    table.add(with({count(static_cast<std::int64_t>(i) + 1), option.cluster, option.inputs.profile.name(),
                    percent(measured_share(answer.best(i).result)), count(option.gpus)},
                   plan_cells(answer.best(i), answer.limits, at(answer.best_with, i), over, option_remark(answer, i))));
    if (i == 0) continue;
    const sim::ClusterOption& above = answer.options[answer.order[i - 1]];
    reasons += paragraph(fmt::format("{} against {}: {}.", i + 1, i, reason_between(above, option, answer.objective)));
  }
  std::string text = heading("Clusters, each with its best plan", style) + table.to_string();
  if (!reasons.empty()) text += "\n" + reasons;
  for (const std::size_t i : answer.empty)
    text += paragraph(fmt::format("{}: no plan: {}.", option_name(answer.options[i]), why_empty(answer.options[i])));
  return text;
}

std::string plans_table(const sim::PlanAnswer& answer, Style style) {
  const sim::ClusterOption& option = answer.first();
  Table table(with(columns_of(">"), plan_columns(answer.limits)));
  std::string reasons;
  for (std::size_t i = 0; i < option.plans.size(); ++i) {
    const sim::RankedPlan& row = option.plans[i];
    const double over = row.cost.step_s / option.plans.front().cost.step_s - 1;
    table.add(with({count(static_cast<std::int64_t>(i) + 1)},
                   plan_cells(row, answer.limits, at(option.best_with, i), over, "")));
    if (i > 0)
      reasons += paragraph(fmt::format("{} against {}: {}.", i + 1, i, reason_on_option(option.plans[i - 1], row)));
  }
  std::string text = heading("Plans on " + option_name(option), style) + table.to_string() + "\n" +
                     paragraph(
                         "t tensor (s: with sequence parallelism), c context, p pipeline, e expert degree, data: "
                         "copies; mb: sequences of a micro-batch; SMs: of communication; 10-90 % and the range of USD: "
                         "eight of ten cases.");
  return text + reasons;
}

std::string plan_svg(const sim::PlanAnswer& answer) {
  constexpr double million = 1e6;
  LineChart chart;
  chart.title = fmt::format("{}: days against dollars", answer.name);
  chart.subtitle = "each point a cluster of one size with its best plan; a ring: nothing is both faster and cheaper";
  chart.x_title = "days";
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
        chart.marks.push_back({*cost.days, *cost.usd / million, fmt::format("{}, {} GPUs", name, grouped(cost.gpus))});
    }
  }
  return line_chart_svg(chart);
}

}  // namespace plumbline::reports
