#include "calibrate/fit/card_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "calibrate/fit/detail/collective_records.h"
#include "calibrate/fit/detail/record_graph.h"
#include "model/base/si_unit.h"
#include "model/cost/kernel_cost.h"
#include "model/cost/power_model.h"

namespace plumbline::calibrate {
namespace {

struct Ratios {
  std::vector<double> values;         // measured over predicted
  double seconds = 0, uncertain = 0;  // predicted; and as much as its constants may be off
};

// Returns the value at that share of the sorted ones.
double at_share(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

std::string family_of(const FitRecord& record) {
  if (record.type == model::OperatorClass::attention)
    return record.kind == model::OperatorKind::attention ? "attention" : "attention backward";
  if (!is_gemm(record.type)) return fmt::format("memory-bound: {}", to_string(record.type));
  const bool weights = record.type == model::OperatorClass::weight_gradient_gemm;
  const std::string format = record.format == "fp8_tile" ? "fp8_block" : record.format;  // its other operand's
  return fmt::format("GEMMs {}{}", format, weights ? ", weight gradients" : "");
}

// Returns how many times the operator of the record's graph runs.
double runs_of(const FitRecord& record) {
  const bool per_group = record.launches > 0 || record.type == model::OperatorClass::weight_gradient_gemm;
  return per_group ? std::max(1.0, record.extent("groups")) : 1;
}

class Comparison {
 public:
  Comparison(const FitRecords& records, const model::Profile& profile, const model::Device& device,
             const model::KernelCost& cost, const std::optional<model::PowerModel>& power,
             const model::CollectiveCost& collectives)
      : records_(records), profile_(profile), device_(device), cost_(cost), power_(power), collectives_(collectives) {}

  CardComparison run() {
    for (const auto* of_class : {&records_.gemms, &records_.attention, &records_.memory})
      for (const FitRecord& record : *of_class) add_kernel(record, graph_of(record), family_of(record));
    for (const FitRecord& record : records_.small_gemms) {
      auto graph = graph_of(record);
      if (graph) graph->inference = true;  // kernels of decoding have constants of their own
      add_kernel(record, graph, family_of(record) + ", few rows");
    }
    if (const auto gap = profile_.find("kernel.launch_gap"); gap && !records_.holds_gaps)
      for (const Measurement* m : records_.launches)
        add("gaps between kernels", m->time.p50, si_value(*gap), profile_.parameters()[*gap].relative_uncertainty);
    for (const Measurement* m : records_.collectives)
      add(fmt::format("collectives: {}", m->op), m->time.p50, collective_seconds(collectives_, *m), std::nullopt);
    CardComparison comparison{profile_.name(), {}};
    for (auto& [name, ratios] : families_) comparison.families.push_back(summary(name, ratios));
    return comparison;
  }

 private:
  double si_value(std::size_t index) const {
    const model::Parameter& parameter = profile_.parameters()[index];
    return parameter.value * model::si_unit(parameter.unit)->factor;
  }

  void add(const std::string& family, double measured, double predicted, std::optional<double> uncertainty) {
    if (predicted <= 0) return;
    Ratios& ratios = families_[family];
    ratios.values.push_back(measured / predicted);
    ratios.seconds += predicted;
    ratios.uncertain += uncertainty.value_or(0) * predicted;
  }

  // Returns the time of a kernel that is held: at the clock that the power limit leaves it.
  model::KernelTime held_time(const model::Graph& graph, std::int64_t sms) const {
    const model::Operator& op = graph.operators.front();
    const model::KernelTime burst = cost_.time(graph, op, {.sms = sms});
    if (!power_) return burst;
    return cost_.time(graph, op, {.sms = sms, .clock = power_->state(power_->window(graph, op, burst)).clock});
  }

  void add_kernel(const FitRecord& record, const std::optional<model::Graph>& graph, const std::string& family) {
    if (!graph) return;
    const std::int64_t sms = is_gemm(record.type) ? record.cores : device_.sms;
    const model::KernelTime time = held_time(*graph, sms);
    double uncertainty = 0;
    for (const model::Share& share : time.shares)
      if (share.index >= 0)
        uncertainty += share.seconds / time.seconds *
                       profile_.parameters()[static_cast<std::size_t>(share.index)].relative_uncertainty.value_or(0);
    const double one = time.seconds - (records_.holds_gaps ? 0 : time.gaps);
    add(family, record.seconds, runs_of(record) * one, uncertainty);
  }

  static ComparedFamily summary(const std::string& name, Ratios& ratios) {
    constexpr double tenth = 0.1, unstated = 0.1, between_cards = 0.05;
    std::ranges::sort(ratios.values);
    const double stated = ratios.uncertain / ratios.seconds;
    return {.name = name,
            .records = ratios.values.size(),
            .median = at_share(ratios.values, 0.5),
            .low = at_share(ratios.values, tenth),
            .high = at_share(ratios.values, 1 - tenth),
            .allowed = stated > 0 ? std::max(stated, between_cards) : unstated,
            .stated = stated > 0};
  }

  const FitRecords& records_;
  const model::Profile& profile_;
  const model::Device& device_;
  const model::KernelCost& cost_;
  const std::optional<model::PowerModel>& power_;
  const model::CollectiveCost& collectives_;
  std::map<std::string, Ratios> families_;
};

}  // namespace

model::Result<CardComparison> compare_card(const FitRecords& records, const model::Profile& profile,
                                           const model::Device& device) {
  const auto cost = TRY(model::KernelCost::make(profile, device));
  const auto power = TRY(model::PowerModel::make(profile, {.given = std::nullopt, .usual = device.tdp}));
  const auto collectives = TRY(collectives_of(profile));
  return Comparison(records, profile, device, cost, power, collectives).run();
}

}  // namespace plumbline::calibrate
