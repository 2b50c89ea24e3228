// Jitter and slow ranks: what steps take beyond a step whose slowest GPU is the expected one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/data_type.h"
#include "model/base/statistics.h"
#include "model/program/program.h"
#include "model/result/result.h"
#include "sim/cluster/fleet_priors.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {
namespace {

constexpr char fleet_source[] = "jitter and slow ranks";

// Returns how much longer the mean of logged steps is than their median: 0.00029 GPUs^0.28, a fit to the runs of 8 to
// 8,192 GPUs in calibrate/published/step_time_jitter.csv whose largest step is below 5 medians (51 rows). The standard
// deviation of their logarithm is 1.2.
double steps_excess(double gpus, double z) {
  constexpr double of_one = 0.000287, exponent = 0.284, deviation = 1.21;
  return of_one * std::pow(gpus, exponent) * std::exp(deviation * z);
}

// Returns the slowdown by stragglers of a production fleet. ln of it is linear in z between published quantiles of
// 3,079 jobs (straggler.bytedance.* of calibrate/published/straggler_priors.toml): 42.5 % of jobs are at least 10 %
// slower, the worst decile wastes 21.3 % of its GPU-hours and more, the worst percent 45 %. Below z = -1.28 it is 1,
// which makes the mean waste the published 10.4 %. All of it is secondhand: half the value is one standard deviation,
// whose square adds to that of the jobs.
double straggling(double z) {
  struct Point {
    double z, ln;
  };
  constexpr double doubt = 0.5;
  constexpr std::array points = {Point{-1.2816, 0}, Point{0.1891, 0.0953}, Point{1.2816, 0.2395},
                                 Point{2.3263, 0.5978}};
  const auto jobs = [&](double at) {
    std::size_t i = 1;
    while (i + 1 < points.size() && at > points[i].z) ++i;
    const Point &from = points[i - 1], &to = points[i];
    return std::max(0.0, from.ln + (at - from.z) / (to.z - from.z) * (to.ln - from.ln));
  };
  const double middle = jobs(0), here = jobs(z);
  const double apart = std::copysign(std::hypot(here - middle, doubt * z * here), z);
  return std::exp(std::max(0.0, middle + apart));
}

constexpr char silicon_source[] = "power and silicon";
constexpr char held_gemms[] = "GEMMs of this model held for a minute on one GPU (plumbline measure)";

// How much longer GEMMs take that are held for a second at the power limit than six launches of them, by GPU: 1.05 to
// 1.26 in 16 bits, 1.02 to 1.08 in FP8 (power.*_sustained of
// calibrate/published/straggler_priors.toml). The middles are those of the GPUs' ranges.
constexpr Prior held_16_bits{1.05, 1.12, 1.26}, held_8_bits{1.02, 1.05, 1.08};

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

// A deviation that the plan states is known.
void add_slowest(const model::Plan& plan, std::vector<Uncertainty>& found) {
  if (plan.cluster.speed_deviation || slowest_gpu(plan) == 1) return;
  found.push_back({"slowest GPU", silicon_source,
                   [](double z, InputChange& change) { change.speed_deviation = geometric(speed_deviation, z); },
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
                   held_gemms, 0.3});
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

void add_fleet(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const model::Plan& plan = inputs.plan;
  const auto gpus = static_cast<double>(plan.cluster.gpus);
  found.push_back({"jitter of steps", fleet_source,
                   [gpus](double z, InputChange& change) { change.step_factor *= 1 + steps_excess(gpus, z); }});
  // Groups of tensor-parallel ranks are what was traced. The slowest of them is late by the sum of its operators'
  // delays, which are taken as independent: their mean over a step falls with the square root of their number.
  const std::int64_t groups = plan.cluster.gpus / plan.parallelism.tensor;
  const double replicas =
      static_cast<double>(groups) / static_cast<double>(plan.parallelism.context * plan.parallelism.pipeline);
  const auto sequences =
      static_cast<double>(plan.batch.global_batch_size) / static_cast<double>(plan.batch.micro_batch_size);
  const double operators = 2 * std::max(1.0, sequences / replicas);  // forward and backward of each micro-batch
  const double late = model::expected_largest(groups) / model::normal_p90 / std::sqrt(operators);
  if (late > 0)
    found.push_back({"jitter of operators", fleet_source, [late](double z, InputChange& change) {
                       change.step_factor *= 1 + late * geometric(operation_p90, z);
                     }});
  if (plan.cluster.fleet == "stragglers")
    found.push_back(
        {"stragglers", fleet_source, [](double z, InputChange& change) { change.step_factor *= straggling(z); }});
}

// The load of experts: how unevenly routing spreads rows over the ranks of an expert group.

// A plan that states nothing is predicted with forced balance, and its draws are not: the middle of its interval is
// above its step. Balance that is forced is known: stated as 0, as rows of each rank, or by padding to the capacity of
// an expert. A capacity of experts bounds the rows that are drawn, as in a prediction (sim/step/stragglers.h).
void add_load(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const model::MixtureOfExperts& experts = inputs.architecture.experts;
  if (experts.routed_experts == 0 || inputs.plan.parallelism.expert == 1) return;
  const auto& routing = inputs.plan.routing;
  const model::RoutingBalance balance = model::routing_balance(inputs.plan, experts);
  const bool forced = balance.stated && balance.used == 0;
  if (forced || !routing.rows_per_rank.empty() || routing.pad_to_capacity.value_or(false)) return;
  const Prior spread{balance.low, balance.middle, balance.high};
  found.push_back({"load of experts", "expert load",
                   [spread](double z, InputChange& change) { change.imbalance = std::max(0.0, linear(spread, z)); },
                   "the fullest rank's rows of a step of your training (routing.imbalance)", 0.1});
}

// Power and silicon: the clock that GPUs hold, and the slowest of them, for which a synchronous step waits.

void add_silicon(const Inputs& inputs, std::vector<Uncertainty>& found) {
  add_slowest(inputs.plan, found);
  const model::Profile& profile = inputs.profile;
  const auto clock = profile.find("kernel.sustained_clock");
  if (!clock) return;
  if (profile.find("power.idle")) add_power(profile, energies(profile), found);
  if (!bursts(inputs, profile.parameters()[*clock])) return;
  const bool narrow = model::bytes_per_element(model::activation_type(inputs.plan.precision.gemm)) < 2;
  const Prior spread = narrow ? held_8_bits : held_16_bits;
  found.push_back({narrow ? "held GEMMs in 8 bits" : "held GEMMs in 16 bits", silicon_source,
                   [spread, at = *clock](double z, InputChange& change) {
                     change.constants.emplace_back(at, 1 / std::max(1.0, geometric(spread, z)));
                   },
                   held_gemms, 0.3});
}

}  // namespace plumbline::sim
