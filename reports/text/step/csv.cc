#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reports/csv/csv_table.h"
#include "reports/quantities.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/summary.h"

namespace plumbline::reports {
namespace {

class Writer {
 public:
  void row(std::string_view metric, std::optional<double> value, std::string_view unit) {
    table_.row(metric, value, unit);
  }
  void per_op(std::string_view metric, const model::PerOp& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      row(fmt::format("{}.{}", metric, model::to_string(static_cast<model::OpType>(i))), values[i], "s");
  }
  const std::string& text() const { return table_.text(); }

 private:
  CsvTable table_{{"metric", "value", "unit"}};
};

void write_step(Writer& out, const model::StepTimes& step) {
  visit_step(step, [&](std::string_view key, const auto& value, std::string_view unit, auto) {
    if constexpr (std::is_convertible_v<decltype(value), std::optional<double>>)
      if (!unit.empty()) out.row(fmt::format("step.{}", key), value, unit);
  });
  out.per_op("step.slots_s", step.slots_s);
  out.per_op("step.slots_mean_s", step.slots_mean_s);
  out.per_op("step.exposed_mean_s", step.exposed_mean_s);
  out.per_op("step.chunk_s", step.chunk_s);
  visit_breakdown(step, [&](const std::string& key, std::optional<double> seconds) {
    out.row("step.breakdown_s." + key, seconds, "s");
  });
}

using model::Quantiles;
constexpr std::pair<std::string_view, double Quantiles::*> percentiles[] = {
    {"p10", &Quantiles::p10}, {"p50", &Quantiles::p50}, {"p90", &Quantiles::p90}};

void write_cluster(Writer& out, const model::ClusterSpread& cluster) {
  visit_cluster(cluster, [&](std::string_view key, const auto& value, std::string_view unit, auto) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, Quantiles>) {
      for (const auto& [name, quantile] : percentiles)
        out.row(fmt::format("cluster.{}.{}", key, name), value.*quantile, unit);
    } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
      for (std::size_t i = 0; i < value.size(); ++i) out.row(fmt::format("cluster.{}.{}", key, i), value[i], unit);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      if (!unit.empty()) out.row(fmt::format("cluster.{}", key), static_cast<double>(value), unit);
    }
  });
  for (const model::BubblePart& part : cluster.bubble) {
    out.row(fmt::format("cluster.bubble.{}.seconds", part.cause), part.seconds, "s");
    out.row(fmt::format("cluster.bubble.{}.step_s", part.cause), part.step_s, "s");
  }
}

// Without an interval the quantiles are empty and there are no parts.
void write_interval(Writer& out, const std::optional<model::PredictionInterval>& known) {
  const model::PredictionInterval interval = known.value_or(model::PredictionInterval());
  visit_quantiles(interval,
                  [&](std::string_view key, const std::optional<Quantiles>& quantiles, const char* unit, auto) {
                    for (const auto& [name, quantile] : percentiles)
                      out.row(fmt::format("interval.{}.{}", key, name),
                              known && quantiles ? std::optional((*quantiles).*quantile) : std::nullopt, unit);
                  });
  if (!known) return;
  out.row("interval.fits_probability", interval.fits_probability, "1");
  out.row("interval.left_factor", interval.left_factor, "1");
  for (const model::IntervalPart& part : interval.parts) {
    out.row("interval.parts." + part.source + ".share", part.share, "1");
    out.row("interval.parts." + part.source + ".half_width_after", part.half_width_after, "1");
  }
}

void write_run(Writer& out, const model::RunCost& run) {
  visit_run(
      run,
      [&](std::string_view key, const auto& value, std::string_view unit, auto) {
        out.row(fmt::format("run.{}", key), value, unit);
      },
      [&] {
        for (const model::RunPhaseCost& phase : run.phases)
          out.row(fmt::format("run.phases.{}.gpu_hours", phase.name), phase.gpu_hours, "h");
      });
  const auto& price = run.price().value;
  out.row("run.price_usd_per_gpu_hour", price ? std::optional(price->value) : std::nullopt, "USD/GPU-h");
  out.row("run.total_cost_usd_low", run.cost_low_usd(run.total_gpu_hours), "USD");
  out.row("run.total_cost_usd_high", run.cost_high_usd(run.total_gpu_hours), "USD");
  out.row("run.total_energy_mwh", run.energy_mwh(run.total_gpu_hours), "MWh");
}

void write_memory(Writer& out, const model::Memory& memory) {
  out.row("memory.peak_bytes", memory.peak_bytes, "B");
  out.row("memory.capacity_bytes", memory.capacity_bytes, "B");
  out.row("memory.fits", memory.fits ? 1 : 0, "1");
  for (const model::RankMemory& rank : memory.ranks) {
    const auto row = [&](std::string_view part, double bytes) {
      out.row(fmt::format("memory.stages.{}.{}", rank.rank, part), bytes, "B");
    };
    row("parameters_bytes", rank.parameters_bytes);
    row("gradients_bytes", rank.gradients_bytes);
    row("optimizer_bytes", rank.optimizer_bytes);
    row("activations_bytes", rank.activations_bytes);
    row("buffers_bytes", rank.buffers_bytes());
    row("temporary_bytes", rank.temporary_bytes);
    row("communication_bytes", rank.communication_bytes);
    row("reserve_bytes", rank.reserve_bytes);
    row("peak_bytes", rank.peak_bytes);
  }
}

}  // namespace

std::string to_csv(const model::StepResult& result) {
  Writer out;
  write_step(out, result.step);
  write_interval(out, result.interval);
  if (result.cluster) write_cluster(out, *result.cluster);
  out.row("bound.time_s", result.bound_s, "s");
  out.row("bound.flops_at_peak_s", result.flops_at_peak_s, "s");
  for (const model::LostTime& part : result.lost) out.row("bound.lost_s." + part.cause, part.seconds, "s");
  if (result.run) write_run(out, *result.run);
  write_memory(out, result.memory);
  for (const EvidenceShare& share : evidence_shares(result.provenance))
    out.row(fmt::format("provenance.{}.share_of_step", model::to_string(share.kind)), share.share, "1");
  return out.text();
}

}  // namespace plumbline::reports
