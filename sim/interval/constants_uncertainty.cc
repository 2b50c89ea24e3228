#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "model/profile/constant_rules.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {

namespace {

using model::Parameter;

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
// Constants with other prefixes have no part in the time of a step, or uncertainties of their own (add_silicon()).
constexpr Family families[] = {
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
bool is_known(const Parameter& constant, const model::ConstantRange& range) {
  const std::string_view name = constant.name;
  if (range.whole || constant.value == 0 || name.ends_with("_sms") || name.ends_with("line_rate")) return true;
  // Without a stated uncertainty an end of the range means that the effect is not there.
  return !constant.relative_uncertainty && (constant.value == range.low || constant.value == range.high);
}

// Returns what would measure the constants of a source.
std::string measurement_of_source(std::string_view source, const Inputs& inputs) {
  using enum model::CostFamily;
  if (source == "host") return "launches of your software on one of your hosts";
  if (source == "software stack") return std::string(step_measurement);
  if (source == "GEMM constants") return measurement_of(gemm, inputs);
  if (source == "attention constants") return measurement_of(attention, inputs);
  if (source == "memory-bound constants") return measurement_of(memory_bound, inputs);
  return measurement_of(source == "all-to-all constants" ? all_to_all : collective, inputs);
}

}  // namespace

void add_constants(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const std::vector<Parameter>& constants = inputs.profile.parameters();
  for (std::size_t index = 0; index < constants.size(); ++index) {
    const Parameter& constant = constants[index];
    const auto family = std::ranges::find_if(
        families, [&](const Family& one) { return std::string_view(constant.name).starts_with(one.prefix); });
    const auto range = model::constant_range(constant);
    if (family == std::end(families) || !range || is_known(constant, *range)) continue;
    const double uncertainty = constant.relative_uncertainty.value_or(usual_uncertainty(constant.kind));
    if (uncertainty <= 0) continue;
    const std::string source(constant.stack.empty() ? family->source : "software stack");
    found.push_back({fmt::format("{}={} {}: {}", constant.name, constant.value, constant.unit, constant.source), source,
                     [=](double z, InputChange& change) {
                       change.constants.emplace_back(index, std::exp(z * std::log1p(uncertainty)));
                     },
                     measurement_of_source(source, inputs), std::min(1.0, measured_deviation / uncertainty)});
  }
}

}  // namespace plumbline::sim
