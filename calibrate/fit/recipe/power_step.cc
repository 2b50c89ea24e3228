// Steps of a recipe that fit the energy of a FLOP: to GEMMs that were held for seconds, or to own records with power
// and clock.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/tables/gemm_table.h"
#include "calibrate/fit/power_fit.h"
#include "calibrate/fit/recipe/detail/draft.h"

namespace plumbline::calibrate {
namespace {

using model::Evidence;

// The constants that no record determines, as the recipe states them.
model::Result<PowerAssumptions> power_assumptions(const Draft& draft) {
  const auto idle = draft.si("power.idle"), bytes = draft.si("power.energy_per_byte");
  if (!idle || !bytes)
    return draft.wrong("step.fit", "power.idle and power.energy_per_byte are not stated",
                       "state them with power.limit_share and power.clock_exponent");
  constexpr double low = 40e-12, high = 120e-12;  // J/B, what memory-bound kernels at the meter leave open
  return PowerAssumptions{.constants = {.idle = *idle,
                                        .limit_share = draft.si("power.limit_share").value_or(1),
                                        .clock_exponent = draft.si("power.clock_exponent").value_or(0)},
                          .energy_per_byte = *bytes,
                          .energy_per_byte_low = low,
                          .energy_per_byte_high = high};
}

void set_energy(Draft& draft, const PowerFit& fit, const std::string& how) {
  draft.set(fmt::format("power.gemm.{}.energy_per_flop", draft.step().kind), fit.energy_per_flop, "pJ/FLOP",
            fit.relative_uncertainty, Evidence::fitted,
            fmt::format("{}; belongs to power.clock_exponent {}", how, draft.si("power.clock_exponent").value_or(0)));
}

// The records of the sweep whose meter had settled at the power limit.
model::Result<void> fit_own_energy(Draft& draft, const PowerAssumptions& assumptions) {
  const RecipeStep& step = draft.step();
  const Measurements& records = *TRY(draft.measured());
  constexpr double settled = 690;  // W, of a limit of 700
  double highest = 0;
  for (const Environment& environment : records.environments) {
    const auto properties = nlohmann::json::parse(environment.properties, nullptr, false);
    if (properties.is_object() && properties.contains("highest_sm_mhz")) highest = properties["highest_sm_mhz"];
  }
  std::vector<PoweredGemm> rows;
  for (const Measurement& m : records.values)
    if (m.op == "gemm" && m.format == step.format && m.clock.power_w.value_or(0) > settled && m.clock.sm_mhz &&
        m.flops && m.bytes && m.communication_sms.value_or(0) == 0)
      rows.push_back({*m.flops, *m.bytes, m.time.p50, *m.clock.power_w, *m.clock.sm_mhz / highest});
  const auto fit = fit_power(rows, assumptions);
  if (!fit)
    return draft.wrong("step.format", fmt::format("three records of {} at the power limit are needed", step.format));
  set_energy(draft, *fit,
             fmt::format("median of {} own records above {:g} W, with their clocks (calibrate/measured/{})", fit->rows,
                         settled, draft.recipe().measured));
  return {};
}

}  // namespace

// With two softwares: bursts of the first give the form, the second was held. Rows from 2,048 to 16,384 rows and of at
// least 2,048 columns, where a GEMM is bound by the SMs. With none: own records.
model::Result<void> fit_power_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto assumptions = TRY(power_assumptions(draft));
  if (step.software.empty()) return fit_own_energy(draft, assumptions);
  if (step.software.size() != 2)
    return draft.wrong("step.software", "expected the software of the bursts and that of the held GEMMs");
  auto bursts = TRY(load_gemm_rows(draft.table("gemm")));
  auto held = TRY(load_held_gemm_rows(draft.table("gemm_held")));
  std::erase_if(bursts, [&](const GemmRow& row) {
    return row.format != step.format || !row.software.starts_with(step.software.front());
  });
  constexpr std::int64_t least = 2048, most_rows = 16384;
  std::erase_if(held, [&](const HeldGemmRow& row) {
    return row.format != step.format || !row.software.starts_with(step.software.back()) || row.m < least ||
           row.m > most_rows || row.n < least || row.k < least;
  });
  if (bursts.empty() || held.empty())
    return draft.wrong("step.format", fmt::format("no {} rows of {} in bursts and of {} held", step.format,
                                                  step.software.front(), step.software.back()));
  const FitMachine machine = draft.machine();
  const GemmTableFit form = fit_gemm_table(bursts, machine);
  std::vector<GemmRow> shapes(held.begin(), held.end());
  const std::vector<bool> left_out = held_out_gemms(shapes);
  constexpr std::size_t every = 3;  // one number is fitted: more rows do not move it
  std::vector<HeldGemm> rows;
  for (std::size_t i = 0, used = 0; i < held.size(); ++i) {
    if (left_out[i] || used++ % every != 0) continue;
    const double m = static_cast<double>(held[i].m), n = static_cast<double>(held[i].n),
                 k = static_cast<double>(held[i].k);
    const double element = operand_bytes(step.format), activation = 2;
    double other = form.constants.ramp;
    if (form.quantize_bandwidth > 0)
      other += m * k * (activation + element) / form.quantize_bandwidth + k * form.quantize_k_time;
    rows.push_back({.flops = 2 * m * n * k,
                    .bytes = (m + n) * k * element + m * n * activation,
                    .sm_seconds = gemm_core_seconds(form.constants, {1, m, n, k, element, activation},
                                                    static_cast<double>(machine.device.sms)),
                    .other_seconds = other,
                    .seconds = held[i].seconds,
                    .limit_w = held[i].power_limit_w});
  }
  const auto fit = fit_power(rows, assumptions);
  if (!fit) return draft.wrong("step.software", "too few of the held GEMMs are at the power limit");
  set_energy(draft, *fit,
             fmt::format("fitted to {} GEMMs of {} that were held for seconds, {} of them at the power limit ({})",
                         fit->rows, step.software.back(), fit->at_limit, draft.cited("gemm_held")));
  return {};
}

}  // namespace plumbline::calibrate
