// Power and silicon: the clock that GPUs hold, and the slowest of them, for which a synchronous step waits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/data_type.h"
#include "sim/cluster/fleet_priors.h"
#include "sim/interval/detail/spread.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {

namespace {

constexpr char silicon_source[] = "power and silicon";
constexpr char held[] = "GEMMs of this model held for a minute on one GPU (plumbline measure)";

// How much longer GEMMs take that are held for a second at the power limit than six launches of them, by GPU: 1.05 to
// 1.26 in 16 bits, 1.02 to 1.08 in FP8 (power.*_sustained of
// calibrate/published/straggler_priors.toml). The middles are those of the GPUs' ranges.
constexpr Spread held_16_bits{1.05, 1.12, 1.26}, held_8_bits{1.02, 1.05, 1.08};

struct Energies {
  std::vector<std::pair<std::size_t, double>> of_flops;  // index into the profile's parameters, uncertainty
  std::vector<double> held_clock;                        // under the limit at which each was fitted, about
};

Energies energies(const model::Profile& profile) {
  Energies found;
  const std::vector<model::Parameter>& constants = profile.parameters();
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const std::string_view name = constants[i].name;
    if (!name.starts_with("power.") || !name.ends_with(".energy_per_flop")) continue;
    const bool wide = name.starts_with("power.gemm.bf16") || name.starts_with("power.attention");
    found.of_flops.emplace_back(i, constants[i].relative_uncertainty.value_or(0));
    found.held_clock.push_back(1 / (wide ? held_16_bits : held_8_bits).middle);
  }
  return found;
}

// A GPU that is slower by a factor draws the same power for as much longer, so its energies grow by that factor: at the
// power limit and below it, its GEMMs and attention take that factor as long.
void add_slowest(const Inputs& inputs, std::size_t clock, const Energies& energies, std::vector<Uncertainty>& found) {
  const double deviations = expected_largest(inputs.plan.cluster.gpus / inputs.plan.parallelism.tensor);
  if (deviations == 0) return;
  found.push_back({"slowest GPU", silicon_source,
                   [deviations, clock, energies](double z, InputChange& change) {
                     const double longer = 1 + deviations * geometric(spread_of(speed_deviation), z);
                     change.constants.emplace_back(clock, 1 / longer);
                     for (const auto& [index, uncertainty] : energies.of_flops)
                       change.constants.emplace_back(index, longer);
                   },
                   "one GEMM on every GPU of your cluster (plumbline measure)", 0.2});
}

// The energies of all formats and GPUs share what their fits assume: the power of an idle GPU and the energy of a byte.
// Their uncertainty contains the range of both, which are not drawn again. An exponent changes the clock under other
// limits than that of the fit: energies belong to their exponent, so those of the clock at the fit's limit stay.
void add_power(const model::Profile& profile, const Energies& energies, std::vector<Uncertainty>& found) {
  found.push_back({"energy of a FLOP", silicon_source,
                   [energies](double z, InputChange& change) {
                     for (const auto& [index, uncertainty] : energies.of_flops)
                       change.constants.emplace_back(index, std::exp(z * std::log1p(uncertainty)));
                   },
                   held, 0.3});
  const auto index = profile.find("power.clock_exponent");
  if (!index) return;
  const model::Parameter& exponent = profile.parameters()[*index];
  const double deviation = exponent.relative_uncertainty.value_or(0);
  if (deviation == 0 || exponent.value == 0) return;
  found.push_back({"exponent of the clock", silicon_source,
                   [energies, at = *index, deviation, value = exponent.value](double z, InputChange& change) {
                     const double factor = std::clamp(1 + deviation * z, 0.0, 3.0);
                     change.constants.emplace_back(at, factor);
                     for (std::size_t i = 0; i < energies.of_flops.size(); ++i)
                       change.constants.emplace_back(energies.of_flops[i].first,
                                                     std::pow(energies.held_clock[i], value * (1 - factor)));
                   },
                   "the same at the lower power limit", 0.3});
}

// Returns whether the profile's GEMMs in the plan's format were timed in bursts, and nothing in it slows them down to
// what a GPU holds. Published, assumed and datasheet rates are those of others' long runs or have an uncertainty of
// their own.
bool bursts(const Inputs& inputs, const model::Parameter& clock) {
  const model::Profile& profile = inputs.profile;
  const auto k_time = profile.find(fmt::format("gemm.{}.k_time", to_string(inputs.plan.precision.gemm)));
  if (profile.find("power.idle") || !k_time || clock.kind != model::Evidence::assumed || clock.value < 1) return false;
  const model::Evidence kind = profile.parameters()[*k_time].kind;
  return kind == model::Evidence::fitted || kind == model::Evidence::measured;
}

}  // namespace

void add_silicon(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const model::Profile& profile = inputs.profile;
  const auto clock = profile.find("kernel.sustained_clock");
  if (!clock) return;
  const Energies of_profile = energies(profile);
  add_slowest(inputs, *clock, of_profile, found);
  if (profile.find("power.idle")) add_power(profile, of_profile, found);
  if (!bursts(inputs, profile.parameters()[*clock])) return;
  const bool narrow = model::bytes_per_element(model::activation_type(inputs.plan.precision.gemm)) < 2;
  const Spread spread = narrow ? held_8_bits : held_16_bits;
  found.push_back({narrow ? "held GEMMs in 8 bits" : "held GEMMs in 16 bits", silicon_source,
                   [spread, at = *clock](double z, InputChange& change) {
                     change.constants.emplace_back(at, 1 / std::max(1.0, geometric(spread, z)));
                   },
                   held, 0.3});
}

}  // namespace plumbline::sim
