// Steps of a recipe that fit the energy of a FLOP: to GEMMs that were held for seconds, by others or in own records.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/power_fit.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/recipe/detail/draft.h"

namespace plumbline::calibrate {
namespace {

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
            fit.relative_uncertainty, model::Evidence::fitted,
            fmt::format("{}; belongs to power.clock_exponent {}", how, draft.si("power.clock_exponent").value_or(0)));
}

// The records of the sweep whose meter had settled at the power limit. The clock is that of the profile's own GEMMs, as
// the simulation finds it: their bursts are not free of the limit, so the clock that was recorded is another scale.
model::Result<void> fit_own_energy(Draft& draft, const PowerAssumptions& assumptions) {
  const RecipeStep& step = draft.step();
  const Measurements& records = *TRY(draft.measured());
  const FitMachine machine = draft.machine();
  const auto found = gemm_constants(draft, step.kind);
  if (!found) return draft.wrong("step.kind", fmt::format("no step has made gemm.{}", step.kind), "put the fit first");
  const model::GemmConstants& constants = *found;
  constexpr double settled = 0.985, least_seconds = 300e-6;
  const double limit = machine.device.tdp;
  std::vector<HeldGemm> rows;
  for (const Measurement& m : records.values) {
    if (m.op != "gemm" || m.format != step.format || m.phase == "W" || m.clock.power_w.value_or(0) < settled * limit ||
        !m.flops || !m.bytes || m.communication_sms.value_or(0) > 0 || m.time.p50 < least_seconds)
      continue;
    const model::GemmWork work{std::max(1.0, extent_of(m, "groups")), extent_of(m, "m"), extent_of(m, "n"),
                               extent_of(m, "k"), operand_bytes(step.format == "fp8_tensor" ? "fp8" : step.format)};
    rows.push_back({.flops = *m.flops,
                    .bytes = *m.bytes,
                    .sm_seconds = gemm_core_seconds(constants, work, static_cast<double>(machine.device.sms)),
                    .other_seconds = constants.ramp,
                    .seconds = m.time.p50,
                    .limit_w = limit});
  }
  const auto fit = fit_power(rows, assumptions);
  if (!fit)
    return draft.wrong("step.format", fmt::format("three records of {} at the power limit are needed", step.format));
  set_energy(draft, *fit,
             fmt::format("fitted to the times of {} own records at the limit of {:g} W, {} of them slower than this "
                         "profile's bursts (calibrate/measured/{})",
                         fit->rows, limit, fit->at_limit, draft.recipe().measured));
  return {};
}

// Returns the rows of a format that software held for seconds, of at least `least` rows and columns.
model::Result<std::vector<HeldGemmRow>> held_rows(const Draft& draft, const std::string& software,
                                                  const std::string& format, std::int64_t least) {
  auto held = TRY(load_held_gemm_rows(draft.table("gemm_held")));
  constexpr std::int64_t most_rows = 16384;
  std::erase_if(held, [&](const HeldGemmRow& row) {
    return row.format != format || !row.software.starts_with(software) || row.m < least || row.m > most_rows ||
           row.n < least || row.k < least;
  });
  return held;
}

HeldGemm held_gemm(const HeldGemmRow& row) {
  const model::GemmWork work = gemm_work(row);
  return {.flops = 2 * work.m * work.n * work.k,
          .bytes = work.bytes(),
          .seconds = row.seconds,
          .power_w = row.power_w,
          .limit_w = row.power_limit_w};
}

// Times of a software whose bursts are another's do not determine the energy, and a kernel that quantizes inside is no
// part of it. What its meter read at the limit does, over what it read of BF16, whose energy is fitted to times.
model::Result<void> fit_read_energy(Draft& draft, const PowerAssumptions& assumptions) {
  const RecipeStep& step = draft.step();
  const auto known = draft.si("power.gemm.bf16.energy_per_flop");
  if (!known) return draft.wrong("step.kind", "no step has made power.gemm.bf16", "put its fit first");
  // So large that launches and quantizing take a few percent of a row.
  constexpr std::int64_t least = 4096;
  std::vector<PowerReading> readings;
  for (const std::string& format : {step.format, std::string("bf16")}) {
    std::vector<HeldGemm> rows;
    std::ranges::transform(TRY(held_rows(draft, step.software.front(), format, least)), std::back_inserter(rows),
                           held_gemm);
    const auto reading = read_power(rows, assumptions);
    if (!reading)
      return draft.wrong("step.format", fmt::format("three rows of {} at the power limit are needed, of {}", format,
                                                    step.software[0]));
    readings.push_back(*reading);
  }
  const double ratio = readings[0].energy_per_flop / readings[1].energy_per_flop;
  draft.set(fmt::format("power.gemm.{}.energy_per_flop", step.kind), *known * ratio, "pJ/FLOP",
            std::hypot(readings[0].relative_spread, readings[1].relative_spread), model::Evidence::fitted,
            fmt::format("{:.3g} times power.gemm.bf16.energy_per_flop, as the meter read {} and {} GEMMs of {} at the "
                        "power limit ({})",
                        ratio, readings[0].rows, readings[1].rows, step.software.front(), draft.cited("gemm_held")));
  return {};
}

}  // namespace

// With two softwares: bursts of the first give the form, the second was held. With one: its meter at the limit. With
// none: own records.
model::Result<void> fit_power_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto assumptions = TRY(power_assumptions(draft));
  if (step.software.empty()) return fit_own_energy(draft, assumptions);
  if (step.software.size() == 1) return fit_read_energy(draft, assumptions);
  if (step.software.size() != 2)
    return draft.wrong("step.software", "expected the software of the bursts and that of the held GEMMs");
  auto bursts = TRY(load_gemm_rows(draft.table("gemm")));
  std::erase_if(bursts, [&](const GemmRow& row) {
    return row.format != step.format || !row.software.starts_with(step.software.front());
  });
  constexpr std::int64_t least = 2048;  // from there on a GEMM is bound by the SMs
  const auto held = TRY(held_rows(draft, step.software.back(), step.format, least));
  if (bursts.empty() || held.empty())
    return draft.wrong("step.format", fmt::format("no {} rows of {} in bursts and of {} held", step.format,
                                                  step.software.front(), step.software.back()));
  const FitMachine machine = draft.machine();
  GemmTableFit form = fit_gemm_table(bursts, machine);
  // Bursts of the profile droop as its GEMMs do: what these do beyond is a kernel of the software, or the limit itself.
  if (const auto own = gemm_constants(draft, step.kind))
    form.constants.droop = std::min(form.constants.droop, own->droop);
  std::vector<GemmRow> shapes(held.begin(), held.end());
  const std::vector<bool> left_out = held_out_gemms(shapes);
  constexpr std::size_t every = 3;  // one number is fitted: more rows do not move it
  std::vector<HeldGemm> rows;
  for (std::size_t i = 0, used = 0; i < held.size(); ++i) {
    if (left_out[i] || used++ % every != 0) continue;
    HeldGemm& row = rows.emplace_back(held_gemm(held[i]));
    const model::GemmWork work = gemm_work(held[i]);
    row.sm_seconds = gemm_core_seconds(form.constants, work, static_cast<double>(machine.device.sms));
    row.other_seconds = form.constants.ramp + quantize_seconds(form.constants, work);
  }
  const auto fit = fit_power(rows, assumptions);
  if (!fit) return draft.wrong("step.software", "too few of the held GEMMs are at the power limit");
  set_energy(draft, *fit,
             fmt::format("fitted to {} GEMMs of {} that were held for seconds, {} of them at the power limit ({})",
                         fit->rows, step.software.back(), fit->at_limit, draft.cited("gemm_held")));
  return {};
}

}  // namespace plumbline::calibrate
