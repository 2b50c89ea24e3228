// Steps of a recipe that fit kernels and the energy of a FLOP, to component tables and own records.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/detail/power_fit.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "model/base/statistics.h"
#include "model/base/text_file.h"
#include "topologies/topology.h"

namespace plumbline::calibrate {
namespace {

using model::Evidence;

constexpr double teraflops = 1e12;

// Returns the rows of a format and of the softwares, in their order.
template <class Row>
std::vector<Row> rows_of(const std::vector<Row>& rows, const std::vector<std::string>& softwares,
                         const std::string& format) {
  std::vector<Row> found;
  for (const std::string& software : softwares)
    std::ranges::copy_if(rows, std::back_inserter(found),
                         [&](const Row& row) { return row.format == format && row.software.starts_with(software); });
  return found;
}

// Returns the versions of the software that the rows name: "sglang 0.5.14, vllm 0.24".
template <class Row>
std::string versions(const std::vector<Row>& rows) {
  std::set<std::string> names;
  for (const Row& row : rows) names.insert(row.software);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the kind of what a step's tables give: those of another GPU are taken for this one.
Evidence evidence(const RecipeStep& step) { return step.tables.empty() ? Evidence::fitted : Evidence::assumed; }

using GemmTables = std::vector<std::vector<GemmRow>>;

// Returns the rows of one format: those of the software that gives the shape, and those that share the rate.
model::Result<GemmTables> gemm_tables(const Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto all = TRY(load_gemm_rows(draft.table("gemm")));
  GemmTables tables;
  for (const std::string& software : step.software) {
    auto rows = rows_of(all, {software}, step.format);
    if (rows.empty())
      return draft.wrong("step.software",
                         fmt::format("{} has no {} row of {}", draft.cited("gemm"), step.format, software));
    tables.push_back(std::move(rows));
  }
  if (tables.empty()) return draft.wrong("step.software", "required key is missing");
  return tables;
}

void set_gemm(Draft& draft, const GemmTableFit& shape, double rate, double spread, const std::string& how) {
  const std::string kind = "gemm." + draft.step().kind;
  const model::GemmConstants& c = shape.constants;
  const double none = std::numeric_limits<double>::infinity();
  const double k_time = 2 * c.tile_m * c.tile_n * static_cast<double>(draft.machine().device.sms) / rate;
  draft.set({{kind + ".tile_m", c.tile_m, "1", none}, {kind + ".tile_n", c.tile_n, "1", none}}, how);
  const Fitted &of_ramp = shape.fitted[0], &of_rate = shape.fitted[1];
  std::vector<Fitted> constants = {{kind + ".k_time", k_time, "ns", std::max(of_rate.deviation, spread)}};
  for (auto part = shape.fitted.end() - gemm_shape_numbers; part != shape.fitted.end(); ++part)
    constants.push_back({fmt::format("{}.{}", kind, part->name), part->value, part->unit, part->deviation});
  draft.set(constants, how);
  constants.front().deviation = of_rate.deviation;
  draft.correlate(constants, shape.correlation);
  if (draft.step().kind != "bf16") return;
  const double gap = draft.si("kernel.launch_gap").value_or(0);
  draft.set("gemm.ramp", std::max(0.0, c.ramp - gap), "us", of_ramp.deviation * c.ramp / std::max(c.ramp - gap, gap),
            Evidence::fitted, how + ", less kernel.launch_gap");
}

// Returns the form of the first software's GEMMs with the least droop that any software shows: where another is as fast
// in long GEMMs as in short ones, the slower kernel is that of a library, and no property of the GPU.
GemmTableFit form_of(const GemmTables& tables, const FitMachine& machine, bool quantizes) {
  GemmTableFit form = fit_gemm_table(tables.front(), machine, quantizes);
  for (const std::vector<GemmRow>& rows : tables | std::views::drop(1)) {
    const GemmTableFit other = fit_gemm_table(rows, machine, quantizes);
    if (other.constants.droop >= form.constants.droop) continue;
    form.constants.droop = other.constants.droop;
    form.constants.droop_time = other.constants.droop_time;
    std::copy(other.fitted.end() - 2, other.fitted.end(), form.fitted.end() - 2);
  }
  return form;
}

// Returns the GPU that the step's tables are of.
model::Result<model::Device> device_of_tables(const Draft& draft) {
  const std::string& folder = draft.step().tables;
  if (folder.empty()) return draft.machine().device;
  const auto devices = TRY(topologies::load_devices(draft.inputs().devices));
  const model::Device* found = topologies::find_device(devices, folder + "-sxm");
  if (found == nullptr) found = topologies::find_device(devices, folder);
  if (found == nullptr) return draft.wrong("step.tables", fmt::format("no device is named as '{}'", folder));
  return *found;
}

// The constants that no record determines, as the recipe states them.
model::Result<PowerAssumptions> power_assumptions(const Draft& draft) {
  const auto idle = draft.si("power.idle"), moved = draft.si("power.energy_per_byte");
  if (!idle || !moved)
    return draft.wrong("step.fit", "power.idle and power.energy_per_byte are not stated",
                       "state them with power.limit_share and power.clock_exponent");
  // Over the mean of two GEMMs of few rows: the lower one, and kernels that only move bytes, which on the H200 draw
  // most (calibrate/recipes/stated/h200.toml).
  constexpr double lowest = 0.94, highest = 1.69;
  const double bytes = draft.si("power.gemm.energy_per_byte").value_or(*moved);
  return PowerAssumptions{.constants = {.idle = *idle,
                                        .limit_share = draft.si("power.limit_share").value_or(1),
                                        .clock_exponent = draft.si("power.clock_exponent").value_or(0)},
                          .energy_per_byte = bytes,
                          .energy_per_byte_low = lowest * bytes,
                          .energy_per_byte_high = highest * bytes};
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
  const auto rows_of_format = [&](const std::string& format) -> model::Result<std::vector<HeldGemm>> {
    std::vector<HeldGemm> rows;
    std::ranges::transform(TRY(held_rows(draft, step.software.front(), format, least)), std::back_inserter(rows),
                           held_gemm);
    return rows;
  };
  const auto too_few = [&](const std::string& format) {
    return draft.wrong("step.format", fmt::format("three rows of {} at the power limit are needed, of {}", format,
                                                  step.software.front()));
  };
  const auto scale = read_scale(TRY(rows_of_format("bf16")), *known, assumptions);
  if (!scale) return too_few("bf16");
  const auto energy = read_energy(TRY(rows_of_format(step.format)), scale->value, assumptions);
  if (!energy) return too_few(step.format);
  draft.set(
      fmt::format("power.gemm.{}.energy_per_flop", step.kind), energy->value, "pJ/FLOP",
      std::hypot(energy->relative_spread, scale->relative_spread), model::Evidence::fitted,
      fmt::format("{:.3g} times power.gemm.bf16.energy_per_flop, as the meter read {} and {} GEMMs of {} at the "
                  "power limit ({})",
                  energy->value / *known, energy->rows, scale->rows, step.software.front(), draft.cited("gemm_held")));
  return {};
}

// Sets a constant to the value of another that an earlier step gave, whose error it shares.
model::Result<void> set_as(Draft& draft, const std::string& name, const std::string& of) {
  const auto own = draft.constants();
  const auto found = std::ranges::find(own, of, &model::Parameter::name);
  if (found == own.end())
    return draft.wrong("step.fit", fmt::format("{} is not known yet", of), "fit attention before attention_training");
  draft.set(name, si_value(*found), found->unit, found->relative_uncertainty, Evidence::assumed, "as " + of);
  draft.share(name, draft.errors_of(of), found->relative_uncertainty, name);
  return {};
}

// Fits one direction of the step's kernel: what its rows determine, on top of the forward that serving measures.
model::Result<void> fit_training_direction(Draft& draft, std::vector<TrainingAttentionRow> rows, bool backward) {
  const RecipeStep& step = draft.step();
  std::erase_if(rows, [&](const TrainingAttentionRow& row) { return row.backward != backward; });
  const std::string kernel = step.kernel.empty() ? "attention." : fmt::format("attention.{}.", step.kernel);
  const std::string direction = backward ? "backward" : "forward", start = kernel + direction;
  for (const char* const what : {".pair_time", ".tail"})
    if (backward || !step.kernel.empty()) TRY(set_as(draft, start + what, fmt::format("attention.forward{}", what)));
  const model::AttentionConstants known = {.pair_time = draft.si(start + ".pair_time").value_or(0),
                                           .tail = draft.si(start + ".tail").value_or(0),
                                           .kv_bandwidth = draft.si("attention.kv_bandwidth").value_or(0)};
  TrainingAttentionFit fit = fit_training_attention(rows, draft.machine(), known, step.times.value_or(1));
  if (fit.fitted.empty())
    return draft.wrong("step.software", fmt::format("{} has no causal {} row of 50 ms and less",
                                                    draft.cited("attention_training"), direction));
  const std::string how = fmt::format("fitted to two thirds of {} causal rows {} of 50 ms and less, {} ({}){}",
                                      fit.rows, direction, versions(rows), draft.cited("attention_training"),
                                      step.times ? fmt::format(", whose times count {} fold", *step.times) : "");
  const Evidence kind = evidence(step);
  std::vector<Fitted> fitted = fit.fitted;
  for (Fitted& constant : fitted) constant.name = start + (constant.name == "rate" ? "_" : ".") + constant.name;
  draft.set({fitted.front()}, how + "; of the GEMMs alone", kind);
  draft.set({fitted.begin() + 1, fitted.end()}, how, kind);
  draft.correlate(fitted, fit.correlation);
  if (!fit.skips_window) {
    const bool seen = std::ranges::any_of(rows, [](const TrainingAttentionRow& row) { return row.window > 0; });
    model::Parameter flag{
        .name = start + ".skips_window", .value = 0, .unit = "1", .kind = seen ? kind : Evidence::assumed};
    flag.source = seen ? fmt::format("in a window its time grows as the square of the length ({})",
                                     draft.cited("attention_training"))
                       : "no rows in a window; on Blackwell its time grows as the square of the length";
    draft.set(std::move(flag));
  }
  fit.held_out.table = fmt::format("{} {} {}", versions(rows), rows.front().format, direction);
  // The rows of a kernel may give the profile's own constants too; those of another GPU are no test of this profile.
  if (step.tables.empty() && std::ranges::count(draft.held_out, fit.held_out.table, &HeldOut::table) == 0)
    draft.held_out.push_back(std::move(fit.held_out));
  return {};
}

// Returns the rows of the step's format and softwares; an error where there is none.
template <class Row>
model::Result<std::vector<Row>> rows_of_step(const Draft& draft,
                                             model::Result<std::vector<Row>> (*load)(const std::string& path)) {
  const RecipeStep& step = draft.step();
  auto rows = TRY(load(draft.table(step.fit)));
  std::erase_if(rows, [&](const Row& row) {
    return row.format != step.format || (!step.software.empty() && !step.names(row.software));
  });
  if (!rows.empty()) return rows;
  return draft.wrong("step.software", fmt::format("{} has no such {} row", draft.cited(step.fit), step.format));
}

// Sets those of the constants that are named, in the fit's order, but for terms that the rows do not show. Rows of an
// engine hold the gaps between its launches; others are what a profiler states of the kernel alone.
void set_small(Draft& draft, const SmallGemmFit& fit, const std::string& prefix, bool holds_gaps,
               std::vector<bool> sets, const std::string& cited) {
  constexpr double least_depth = 1, least_row_time = 1e-15;
  const RecipeStep& step = draft.step();
  std::set<std::string> softwares;
  for (std::size_t i = 0; i < fit.held_out.size(); ++i) {
    const HeldOut& table = fit.held_out[i];
    softwares.insert(table.table);
    if (!step.tables.empty()) continue;  // rows of another GPU are no test of this profile
    draft.held_out.push_back(table);
    if (fit.fitted_errors[i].empty()) continue;
    draft.notes.push_back(
        fmt::format("{} of {}: rows of the fit with M of 64 and 128 are off by {:.1f} % (median of {})", table.family,
                    table.table, 100 * model::quantile(fit.fitted_errors[i], 0.5), fit.fitted_errors[i].size()));
  }
  const std::string how = fmt::format("fitted to two thirds of the rows of {} ({}){}", fmt::join(softwares, ", "),
                                      cited, softwares.size() > 1 ? ", at the mean of their levels" : "");
  const double gap = holds_gaps ? draft.si("kernel.launch_gap").value_or(0) : 0;
  if (!prefix.empty() && fit.constants.tile_depth < least_depth) sets[3] = false;
  if (fit.constants.row_time < least_row_time) sets.resize(std::min<std::size_t>(sets.size(), 4));
  sets.resize(fit.fitted.size(), false);
  std::vector<Fitted> constants;
  std::vector<std::vector<double>> correlation;
  for (std::size_t i = 0; i < fit.fitted.size(); ++i) {
    if (!sets[i]) continue;
    if (!constants.empty()) correlation.emplace_back();
    for (std::size_t j = 0; j < i; ++j)
      if (sets[j]) correlation.back().push_back(fit.correlation[i - 1][j]);
    const auto& [name, value, unit, deviation] = fit.fitted[i];
    constants.push_back({fmt::format("gemm.{}.{}small_m_{}", step.kind, prefix, name),
                         i == 0 ? std::max(0.0, value - gap) : value, unit, std::min(1.0, deviation)});
    draft.set({constants.back()}, i == 0 && holds_gaps ? how + ", less kernel.launch_gap" : how, evidence(step));
  }
  draft.correlate(constants, correlation);
}

}  // namespace

// The rate is the geometric mean of the rates that each software has with the form, and half their spread is its
// uncertainty.
model::Result<void> fit_gemm_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto tables = TRY(gemm_tables(draft));
  const FitMachine machine = draft.machine();
  const GemmTableFit form = form_of(tables, machine, step.quantizes);
  std::vector<double> rates;
  std::vector<std::string> each;
  std::size_t rows = 0;
  for (const std::vector<GemmRow>& table : tables) {
    const GemmTableFit fit = tables.size() > 1 ? fit_gemm_table(table, machine, step.quantizes, &form) : form;
    draft.held_out.push_back(fit.held_out);
    rates.push_back(fit.constants.rate);
    each.push_back(fmt::format("{} {:.4g}", versions(table), rates.back() / teraflops));
    rows += table.size();
  }
  double rate = 0;
  const double spread = half_range(rates, rate);
  const std::string how = fmt::format(
      "fitted to four fifths of {} GEMMs in bursts, {} ({}); {} TFLOP/s{}", rows, step.format, draft.cited("gemm"),
      fmt::join(each, ", "),
      tables.size() > 1 ? fmt::format(", their geometric mean; form of {}, the least droop", step.software.front())
                        : "");
  set_gemm(draft, form, rate, spread, how);
  return {};
}

model::Result<void> fit_expert_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto all = TRY(load_expert_rows(draft.table("experts")));
  std::vector<ExpertRow> rows = rows_of(all, step.software, step.format);
  std::erase_if(rows, [&](const ExpertRow& row) { return row.kernel != step.kernel; });
  if (std::ranges::count(rows, "balanced", &ExpertRow::distribution) == 0)
    return draft.wrong("step.kernel", fmt::format("{} has no balanced {} row of {}", draft.cited("experts"),
                                                  step.format, step.kernel));
  const std::string kind = "gemm." + step.kind;
  const auto k_time = draft.si(kind + ".k_time"), m = draft.si(kind + ".tile_m"), n = draft.si(kind + ".tile_n");
  if (!k_time || !m || !n)
    return draft.wrong("step.kind", fmt::format("{}.k_time is not fitted yet", kind), "fit gemm before experts");
  const double dense = 2 * *m * *n * static_cast<double>(draft.machine().device.sms) / *k_time;
  const ExpertTableFit fit = fit_expert_table(rows, draft.machine(), dense);
  const Fitted &rate = fit.fitted[1], &weights = fit.fitted[2];
  draft.held_out.push_back(fit.held_out);
  if (fit.left_series > 0)
    draft.notes.push_back(fmt::format("{}: {} series of experts are far slower than the others and left out of the fit",
                                      fit.held_out.table, fit.left_series));
  const std::string how = fmt::format(
      "rate of dense GEMMs over that of experts, {:.4g} over {:.4g} TFLOP/s, fitted to balanced rows of {} {} "
      "({}); experts are not faster than dense GEMMs by assumption",
      dense / teraflops, rate.value / teraflops, versions(rows), step.kernel, draft.cited("experts"));
  if (!step.constant.empty())
    draft.set(step.constant, weights.value, weights.unit, weights.deviation, Evidence::fitted,
              fmt::format("the rate at which few rows of an expert read its weights, fitted to {} {} ({})",
                          versions(rows), step.kernel, draft.cited("experts")));
  draft.set(kind + ".grouped_slowdown", std::max(1.0, dense / rate.value), "1", rate.deviation, Evidence::fitted, how);
  return {};
}

model::Result<void> fit_attention_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  auto rows = TRY(load_attention_rows(draft.table("attention")));
  if (!step.software.empty()) std::erase_if(rows, [&](const AttentionRow& row) { return !step.names(row.software); });
  if (rows.empty()) return draft.wrong("step.software", draft.cited("attention") + " has no such row");
  const FitMachine machine = draft.machine();
  const AttentionTableFit fit = fit_attention_table(rows, machine, step.share);
  draft.held_out.push_back(fit.held_out);
  const std::string how = fmt::format(
      "fitted to two thirds of {} prefills in bursts, {} ({}), launches and cache writes of "
      "the frameworks apart",
      rows.size(), versions(rows), draft.cited("attention"));
  std::vector<Fitted> constants = fit.fitted;
  for (Fitted& constant : constants)
    constant.name = (constant.name == "rate" ? "attention.forward_" : "attention.forward.") + constant.name;
  const Fitted &rate = constants[0], &row = constants[1], &tail = constants[2], &pair = constants[3];
  draft.set({rate}, how + "; of the two GEMMs alone");
  draft.set({pair}, how, step.share ? Evidence::assumed : Evidence::fitted);
  draft.set({row, tail}, how);
  if (step.share) constants.pop_back();
  draft.correlate(constants, fit.correlation);
  draft.set("attention.reference_sms", static_cast<double>(machine.device.sms), "1", std::nullopt, Evidence::datasheet,
            "the rates are for the whole GPU");
  return {};
}

// Without a kernel the constants are those of the profile's own; `op` is the direction, without it both.
model::Result<void> fit_training_attention_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto all = TRY(load_training_attention_rows(draft.table("attention_training")));
  const std::string format = step.format.empty() ? "bf16" : step.format;
  const auto rows = rows_of(all, step.software, format);
  if (rows.empty())
    return draft.wrong("step.software",
                       fmt::format("{} has no such {} row", draft.cited("attention_training"), format));
  if (!step.kernel.empty())
    TRY(set_as(draft, fmt::format("attention.{}.kv_bandwidth", step.kernel), "attention.kv_bandwidth"));
  if (step.op != "backward") TRY(fit_training_direction(draft, rows, false));
  if (step.op != "forward") TRY(fit_training_direction(draft, rows, true));
  return {};
}

model::Result<void> fit_cached_attention_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const std::string table = step.kind.starts_with("latent") ? "decode_mla" : "decode_attention";
  const auto all = TRY(load_cached_attention_rows(draft.table(table)));
  const auto rows = rows_of(all, step.software, step.format);
  if (rows.empty())
    return draft.wrong("step.software", fmt::format("{} has no such {} row", draft.cited(table), step.format));
  CachedAttentionTableFit fit = fit_cached_attention_table(rows, draft.machine());
  std::ranges::move(fit.held_out, std::back_inserter(draft.held_out));
  std::string each;
  for (const CachedAttentionSoftware& software : fit.softwares)
    each += fmt::format("{}{} {:.3g} us and {:.3g} TB/s", each.empty() ? "" : ", ", software.name, software.start * 1e6,
                        software.bandwidth / teraflops);
  const std::string how =
      fmt::format("fitted to two thirds of {} shapes in bursts ({}); {}{}", rows.size(), draft.cited(table), each,
                  fit.softwares.size() > 1 ? ", their geometric mean" : "");
  const std::string kind = fmt::format("cached_attention.{}.", step.kind);
  for (Fitted& constant : fit.fitted) constant.name = kind + constant.name;
  draft.set(fit.fitted, how);
  if (const double least = fit.constants.least_rows; least > 1)
    draft.set(kind + "least_rows", least, "1", std::nullopt, Evidence::assumed,
              "the rows of the GPU's tensor-core instruction, which heads fill");
  return {};
}

// The start of a quantized format whose rows hold the quantizing kernel is that of BF16: what is left is that kernel's.
model::Result<void> fit_small_gemm_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto rows = TRY(rows_of_step(draft, load_gemm_rows));
  const SmallGemmFit fit = fit_small_gemms(rows, draft.machine());
  const bool quantizes = step.quantizes && step.format != "bf16";
  set_small(draft, fit, "", step.quantizes, {!quantizes, true, true, true}, draft.cited(step.fit));
  if (!quantizes) return {};
  const auto start = draft.si("gemm.bf16.small_m_start");
  if (!start) return draft.wrong("step.kind", "gemm.bf16.small_m_start is not fitted yet", "fit bf16 before");
  draft.set(fmt::format("gemm.{}.small_m_start", step.kind), *start, "us",
            draft.find("gemm.bf16.small_m_start")->relative_uncertainty, model::Evidence::assumed,
            fmt::format("as gemm.bf16.small_m_start; rows with the quantizing kernel start after {:.3g} us",
                        fit.constants.start * 1e6));
  return {};
}

model::Result<void> fit_small_grouped_step(Draft& draft) {
  const auto rows = TRY(rows_of_step(draft, load_grouped_gemm_rows));
  set_small(draft, fit_small_grouped_gemms(rows, draft.machine()), "grouped_", false, {true, true, true, true},
            draft.cited("decode_grouped"));
  return {};
}

// The start of a block of experts is of its software. Rows of prompts alone do not show how fast weights are read: that
// is known of few rows.
model::Result<void> fit_small_experts_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  std::vector<ExpertRow> rows;
  std::vector<std::string> cited;
  bool few = false;
  for (const char* const table : {"decode_experts", "experts"}) {
    if (!model::is_file(draft.table(table))) continue;
    const auto all = TRY(load_expert_rows(draft.table(table)));
    const auto own = rows_of(all, step.software, step.format);
    const std::size_t before = rows.size();
    std::ranges::copy_if(own, std::back_inserter(rows), [&](const ExpertRow& row) {
      return row.distribution == "balanced" && (step.kernel.empty() || row.kernel == step.kernel);
    });
    if (rows.size() == before) continue;
    cited.push_back(draft.cited(table));
    few = few || std::string_view(table) == "decode_experts";
  }
  if (rows.empty())
    return draft.wrong("step.software", fmt::format("no table has such a balanced {} row of experts", step.format));
  const std::string known = fmt::format("gemm.{}.grouped_small_m_bandwidth", step.kind);
  const auto kernels = draft.si("memory.default.bandwidth"), bandwidth = draft.si(known);
  if (!kernels || (!few && !bandwidth))
    return draft.wrong("step.kind", fmt::format("{} is not known yet", kernels ? known : "memory.default.bandwidth"));
  const SmallGemmFit fit =
      fit_small_experts(rows, draft.machine(), *kernels, few ? std::optional<double>() : bandwidth);
  const std::string prefix = step.constant.empty() ? "grouped_" : step.constant + "_";
  const std::string tables = fmt::format("{}", fmt::join(cited, ", "));
  set_small(draft, fit, prefix, true, {false, few, true, true, true}, tables);
  model::Parameter most{.name = fmt::format("gemm.{}.{}small_m_rows", step.kind, prefix),
                        .value = fit.most_rows,
                        .unit = "1",
                        .kind = Evidence::published};
  most.source = "the most rows of an expert in " + tables;
  draft.set(std::move(most));
  return {};
}

// `kind` is the recurrence; the directions that the tables have are fitted.
model::Result<void> fit_scan_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto all = TRY(load_scan_rows(draft.table("scan")));
  const FitMachine own = draft.machine();
  const FitMachine machine{.device = TRY(device_of_tables(draft))};
  const auto gemm = gemm_constants(draft, "bf16");
  const auto bandwidth = draft.si("memory.default.bandwidth");
  if (!gemm || !bandwidth) return draft.wrong("step.fit", "gemm.bf16.k_time is not fitted yet", "fit gemm before scan");
  // The rates of another GPU are to its own as their datasheets' are.
  const double rate = 2 * gemm->tile_m * gemm->tile_n * static_cast<double>(own.device.sms) / gemm->k_time;
  ScanConstants known{.bandwidth = *bandwidth * (machine.device.memory_bandwidth / own.device.memory_bandwidth),
                      .rate = rate * (machine.device.bf16_peak / own.device.bf16_peak)};
  bool any = false;
  for (const bool backward : {false, true}) {
    std::vector<ScanRow> rows = all;
    std::erase_if(rows, [&](const ScanRow& row) {
      return row.recurrence != step.kind || row.backward != backward || !step.names(row.software);
    });
    if (rows.empty()) continue;
    any = true;
    const std::string name = fmt::format("scan.{}.{}.", step.kind, backward ? "backward" : "forward");
    known.chunk_time = draft.si(name + "chunk_time").value_or(0);
    TableFit<ScanConstants> fit = fit_scan_table(rows, machine, known);
    for (Fitted& constant : fit.fitted) constant.name = name + constant.name;
    draft.set(
        fit.fitted,
        fmt::format("fitted to {} of {} shapes of {} ({}), with memory.default.bandwidth and gemm.bf16",
                    rows.size() - fit.held_out.errors.size(), rows.size(), fit.held_out.table, draft.cited("scan")),
        step.tables.empty() ? model::Evidence::fitted : model::Evidence::assumed);
    draft.correlate(fit.fitted, fit.correlation);
    if (step.tables.empty()) draft.held_out.push_back(std::move(fit.held_out));
  }
  if (!any) return draft.wrong("step.kind", fmt::format("{} has no row of {}", draft.cited("scan"), step.kind));
  return {};
}

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
