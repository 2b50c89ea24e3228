#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/plan/layout.h"
#include "model/profile/constant_rules.h"
#include "model/program/program.h"
#include "sim/interval/uncertainty.h"
#include "sim/predict/predictor.h"

namespace plumbline::sim {
namespace {

// Returns the relative uncertainty of a constant that states none. The values are assumed (docs/intervals.md).
double usual_uncertainty(model::Evidence kind) {
  switch (kind) {
    case model::Evidence::measured:
      return 0.03;
    case model::Evidence::fitted:
      return 0.05;
    case model::Evidence::published:
      return 0.10;
    case model::Evidence::datasheet:
      return 0.15;
    case model::Evidence::assumed:
      break;
  }
  return 0.30;
}

struct Family {
  std::string_view prefix, source;
};
// What engines differ in and no other constant of theirs explains.
constexpr std::string_view engine_source = "engine";
// Constants of several of these families that err together, such as those scaled from one other GPU.
constexpr std::string_view of_several = "shared constants";
// Constants with other prefixes have no part in the time of a step, or uncertainties of their own (add_silicon()).
constexpr Family families[] = {
    {"serving.engine_factor", engine_source},
    {"serving.", "host"},
    {"cached_attention.", "attention constants"},
    {"gemm.", "GEMM constants"},
    {"attention.", "attention constants"},
    {"memory.", "memory-bound constants"},
    {"kernel.", "memory-bound constants"},
    {"router.", "memory-bound constants"},
    {"permute.", "memory-bound constants"},
    {"measured.", "memory-bound constants"},
    {"sharding.", "memory-bound constants"},
    {"network.", "link and collective constants"},
    {"collective.", "link and collective constants"},
    {"overlap.", "link and collective constants"},
    {"exchange.", "all-to-all constants"},
    {"host.", "host"},
};

// Returns whether a constant counts or names something, so that it is exact.
bool is_known(const model::Parameter& constant, const model::ConstantRange& range) {
  const std::string_view name = constant.name;
  if (range.whole || constant.value == 0 || name.ends_with("_sms") || name.ends_with("line_rate")) return true;
  // Without a stated uncertainty an end of the range means that the effect is not there.
  return !constant.relative_uncertainty && (constant.value == range.low || constant.value == range.high);
}

// Returns what would measure the constants of a source.
std::string measurement_of_source(std::string_view source, const Inputs& inputs) {
  using enum model::CostFamily;
  if (source == "host") return "launches of your software on one of your hosts";
  if (source == of_several) return "kernels of this model on one GPU (plumbline measure)";
  if (source == engine_source) return "a step of your engine at one batch";
  if (source == "software stack") return std::string(step_measurement);
  if (source == "GEMM constants") return measurement_of(gemm, inputs);
  if (source == "attention constants") return measurement_of(attention, inputs);
  if (source == "memory-bound constants") return measurement_of(memory_bound, inputs);
  return measurement_of(source == "all-to-all constants" ? all_to_all : collective, inputs);
}

// A constant whose value is not exact.
struct Uncertain {
  std::size_t index = 0;  // of the profile's constants
  double deviation = 0;   // as log_deviation()
  Uncertainty own;        // where it has an error to itself
};

std::optional<Uncertain> uncertain(const Inputs& inputs, std::size_t index) {
  const model::Parameter& constant = inputs.profile.parameters()[index];
  const auto family = std::ranges::find_if(
      families, [&](const Family& one) { return std::string_view(constant.name).starts_with(one.prefix); });
  const auto range = model::constant_range(constant);
  if (family == std::end(families) || !range || is_known(constant, *range)) return std::nullopt;
  if (model::is_of_serving(constant.name) && !inputs.plan.inference.given) return std::nullopt;
  const double uncertainty = constant.relative_uncertainty.value_or(usual_uncertainty(constant.kind));
  if (uncertainty <= 0) return std::nullopt;
  const bool named = constant.stack.empty() || family->source == engine_source;
  const std::string source(named ? family->source : "software stack");
  return Uncertain{index,
                   model::log_deviation(constant, uncertainty),
                   {.key = fmt::format("{}={} {}: {}", constant.name, constant.value, constant.unit, constant.source),
                    .source = source,
                    .apply = nullptr,
                    .measurement = measurement_of_source(source, inputs),
                    .after = std::min(1.0, measured_deviation / uncertainty)}};
}

// Returns the uncertainty of a number that moves constants by so much of their deviations; it is named by the first.
Uncertainty moving(const Inputs& inputs, const std::vector<std::pair<const Uncertain*, double>>& constants) {
  Uncertainty made = constants.front().first->own;
  if (std::ranges::any_of(constants, [&](const auto& one) { return one.first->own.source != made.source; })) {
    made.source = of_several;
    made.measurement = measurement_of_source(of_several, inputs);
  }
  std::vector<std::pair<std::size_t, double>> moves;
  for (const auto& [constant, weight] : constants) moves.emplace_back(constant->index, weight * constant->deviation);
  made.apply = [moves = std::move(moves)](double z, InputChange& change) {
    for (const auto& [index, move] : moves) change.constants.emplace_back(index, std::exp(z * move));
  };
  return made;
}

using model::CostFamily;

std::string_view source_of(CostFamily family) {
  switch (family) {
    case CostFamily::gemm:
    case CostFamily::grouped_gemm:
    case CostFamily::small_gemm:
    case CostFamily::small_grouped_gemm:
      return "GEMM shapes";
    case CostFamily::attention:
    case CostFamily::cached_attention:
      return "attention shapes";
    case CostFamily::memory_bound:
      return "memory-bound shapes";
    case CostFamily::collective:
      return "collective shapes";
    default:
      return "all-to-all shapes";
  }
}

const char* nodes_of(const Inputs& inputs, bool within_one) {
  if (inputs.cluster.gpus_per_node == 1) return "two of your GPUs";
  return within_one ? "one of your nodes" : "two of your nodes";
}

std::string dispatch_measurement(const Inputs& inputs) {
  const model::RankGroup group = model::expert_group(inputs.plan.parallelism);
  const bool within_one = group.ranks * group.stride <= inputs.cluster.gpus_per_node;
  const std::int64_t sms = inputs.plan.overlap.communication_sms;
  return fmt::format("dispatch and combine{} on {}", sms > 0 ? fmt::format(" at {} SMs", sms) : "",
                     nodes_of(inputs, within_one));
}

}  // namespace

void add_constants(const Inputs& inputs, std::vector<Uncertainty>& found) {
  std::map<std::string, Uncertain, std::less<>> all;
  for (std::size_t index = 0; index < inputs.profile.parameters().size(); ++index)
    if (auto one = uncertain(inputs, index)) all.emplace(inputs.profile.parameters()[index].name, std::move(*one));
  std::set<std::string, std::less<>> fitted;
  for (const model::ConstantFit& fit : inputs.profile.fits()) {
    const std::vector<std::vector<double>> factor = model::factor_of(fit);
    for (std::size_t number = 0; number < factor.size(); ++number) {
      std::vector<std::pair<const Uncertain*, double>> moved;
      for (std::size_t entry = number; entry < factor.size(); ++entry)
        for (const std::string& name : fit.constants[entry])
          if (const auto one = all.find(name); one != all.end() && factor[entry][number] != 0) {
            moved.emplace_back(&one->second, factor[entry][number]);
            fitted.insert(name);
          }
      if (moved.empty()) continue;
      found.push_back(moving(inputs, moved));
      // Of two numbers that the same constant would name, one is of a constant that plays no part in a step.
      if (std::ranges::find(fit.constants[number], inputs.profile.parameters()[moved.front().first->index].name) ==
          fit.constants[number].end())
        found.back().key += " with " + fit.constants[number].front();
    }
  }
  for (const auto& [name, one] : all)
    if (!fitted.contains(name)) found.push_back(moving(inputs, {{&one, 1.0}}));
}

// The uncertainty of cost functions at single shapes.

std::string measurement_of(CostFamily family, const Inputs& inputs) {
  switch (family) {
    case CostFamily::gemm:
    case CostFamily::grouped_gemm:
    case CostFamily::small_gemm:
    case CostFamily::small_grouped_gemm:
      return fmt::format("GEMMs of this model in {} on one GPU (plumbline measure)",
                         to_string(inputs.plan.precision.gemm));
    case CostFamily::attention:
    case CostFamily::cached_attention:
      return "attention at these sizes on one GPU";
    case CostFamily::memory_bound:
      return "memory-bound kernels of this model on one GPU";
    case CostFamily::collective:
      return fmt::format("all-reduce and all-gather on {}", nodes_of(inputs, inputs.cluster.nodes() == 1));
    default:
      return dispatch_measurement(inputs);
  }
}

model::Result<std::vector<model::ShapeKey>> shapes_of(const Inputs& inputs) {
  model::ShapeFactors asked;
  asked.record();
  Inputs recorded = inputs;
  recorded.shapes = &asked;
  model::set_imbalance(recorded.plan, 0);  // no shape depends on it, and stragglers take most of the time
  const model::Plan even = recorded.plan;
  TRY(Predictor(std::move(recorded)).closed_form(even));
  std::vector<model::ShapeKey> shapes;
  for (const auto& [shape, factor] : asked.all()) shapes.push_back(shape);
  std::ranges::sort(shapes);
  return shapes;
}

// A residual belongs to the fit that its source names: the same shape of another profile is another fact.
void add_shapes(const Inputs& inputs, const std::vector<model::ShapeKey>& shapes, std::vector<Uncertainty>& found) {
  for (const model::ShapeKey& shape : shapes) {
    const auto index = inputs.profile.find(fmt::format("residual.{}", to_string(shape.family)));
    if (!index) continue;
    const model::Parameter& residual = inputs.profile.parameters()[*index];
    if (residual.value <= 0) continue;
    found.push_back(
        {.key = fmt::format("shape {:016x} {} {} {}", shape.hash, residual.name, residual.value, residual.source),
         .source = std::string(source_of(shape.family)),
         .apply = [shape, deviation = residual.value](
                      double z, InputChange& change) { change.shapes.set(shape, std::exp(z * deviation)); },
         .measurement = measurement_of(shape.family, inputs),
         .after = std::min(1.0, measured_deviation / residual.value)});
  }
}

}  // namespace plumbline::sim
