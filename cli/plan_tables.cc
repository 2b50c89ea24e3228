#include <fmt/format.h>

#include <algorithm>

#include "cli/plan_sections.h"
#include "model/plan/layout.h"
#include "reports/text/format.h"
#include "reports/text/paragraph.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using reports::number;
using reports::paragraph;
using reports::percent;

constexpr std::size_t table_width = 190;

std::string count(std::int64_t value) { return reports::grouped(static_cast<double>(value)); }

std::string optional_number(const std::optional<double>& value) { return value ? number(*value) : "-"; }

// "6.02 M (4.06-10.20 M)"; the range is that of the price.
std::string money(const Offer& offer) {
  constexpr double million = 1e6;
  if (!offer.usd) return "-";
  const auto text = [&](double usd) {
    return *offer.usd < million ? reports::grouped(usd) : reports::fixed(usd / million, 2);
  };
  const char* unit = *offer.usd < million ? "" : " M";
  const bool range = offer.usd_low && offer.usd_high && *offer.usd_low < *offer.usd_high;
  if (!range) return text(*offer.usd) + unit;
  return fmt::format("{}{} ({}-{}{})", text(*offer.usd), unit, text(*offer.usd_low), text(*offer.usd_high), unit);
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
  const model::RankGroup experts = model::exchange_group(degrees);
  const std::int64_t data = plan.cluster.gpus / (degrees.tensor * degrees.context * degrees.pipeline);
  const Offer& offer = row.offer;
  return {fmt::format("{}{}", degrees.tensor, degrees.sequence ? "s" : ""),
          count(degrees.context),
          count(degrees.pipeline),
          experts.stride > 1 ? fmt::format("{}x{}", experts.ranks, experts.stride) : count(experts.ranks),
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

}  // namespace

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

}  // namespace plumbline::cli
