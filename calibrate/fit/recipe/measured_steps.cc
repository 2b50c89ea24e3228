// Steps of a recipe that fit constants to the project's own records of a GPU. Clocks of tables are the highest, as
// bursts have them; the records were taken back to back, at the power limit. So times that the SMs bound are taken at
// the recorded clock over the highest: a kernel at 1,700 of 1,980 MHz counts 0.86 of its time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/fit_records.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "model/base/statistics.h"
#include "model/cost/forms/kernel_forms.h"

namespace plumbline::calibrate {
namespace {

using Eigen::VectorXd;
using model::Evidence;

std::string cited_records(const Draft& draft) { return "calibrate/measured/" + draft.recipe().measured; }

constexpr const char* highest_mhz = "highest_sm_mhz";

// The records of an operation alone on the whole GPU, with operands out of the cache.
std::vector<Measurement> bursts(const Measurements& records, std::string_view op, std::string_view phase = "",
                                std::string_view format = "") {
  std::vector<Measurement> found;
  for (const Measurement& m : records.values)
    if (m.op == op && m.variant == "burst" && m.cache == "cold" && (phase.empty() || m.phase == phase) &&
        (format.empty() || m.format == format))
      found.push_back(m);
  return found;
}

VectorXd as_measured(const std::vector<Measurement>& records) {
  return vector_of(records, [](const Measurement& m) { return m.time.p50; });
}

// Returns the seconds at the highest clock.
VectorXd unthrottled(const std::vector<Measurement>& records, double highest) {
  return vector_of(records, [highest](const Measurement& m) {
    return m.time.p50 * std::min(1.0, m.clock.sm_mhz.value_or(highest) / highest);
  });
}

model::Failure none(const Draft& draft, const std::string& what) {
  return draft.wrong("step.fit", fmt::format("{} has no {}", cited_records(draft), what));
}

constexpr double backward_dims = 640;  // 3 of queries and keys and 2 of values, of head dimension 128

struct Factor {
  double value = 1, deviation = 0;
};

// Returns the factor on k_time with which the constants predict the GEMMs.
Factor k_time_factor(const Draft& draft, const std::vector<Measurement>& records, const VectorXd& measured,
                     const model::GemmConstants& constants, const std::string& format, double output_bytes) {
  const double sms = static_cast<double>(draft.machine().device.sms), ramp = draft.si("gemm.ramp").value_or(0);
  const Form form = [&](const VectorXd& x) {
    model::GemmConstants scaled = constants;
    scaled.k_time *= x[0];
    return vector_of(records, [&](const Measurement& m) {
      return ramp + gemm_core_seconds(scaled,
                                      {.m = extent_of(m, "m"),
                                       .n = extent_of(m, "n"),
                                       .k = extent_of(m, "k"),
                                       .operand_bytes = operand_bytes(format),
                                       .output_bytes = output_bytes},
                                      sms);
    });
  };
  const LogFit fit = log_fit(form, measured, VectorXd::Ones(1), {.width = 0.1});
  return {fit.values[0], fit.uncertainty[0]};
}

}  // namespace

// Takes the ratio of weight gradients to other GEMMs from the records, where both ran under one power limit.
model::Result<void> fit_weight_gradient_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const Measurements& records = *TRY(draft.measured());
  const auto constants = gemm_constants(draft, step.kind);
  if (!constants)
    return draft.wrong("step.kind", fmt::format("gemm.{} is not fitted yet", step.kind),
                       "fit gemm before weight_gradient");
  const auto single = [&](const char* phase) {
    auto found = bursts(records, "gemm", phase, step.format);
    std::erase_if(found, [](const Measurement& m) { return extent_of(m, "groups") > 1; });
    return found;
  };
  auto forward = single("F");
  std::ranges::copy(single("I"), std::back_inserter(forward));
  const auto gradient = single("W");
  if (forward.empty() || gradient.empty()) return none(draft, step.format + " GEMM of each phase");
  constexpr double result = 2, accumulated = 8;  // bytes per element: BF16, and FP32 read and written
  const std::string format = step.format == "fp8_tensor" ? "fp8" : step.format;
  const double highest = environment_number(records, highest_mhz);
  const Factor of_forward = k_time_factor(draft, forward, unthrottled(forward, highest), *constants, format, result);
  const Factor held = k_time_factor(draft, forward, as_measured(forward), *constants, format, result);
  const Factor of_gradient =
      k_time_factor(draft, gradient, unthrottled(gradient, highest), *constants, format, accumulated);
  const double flops = 2 * constants->tile_m * constants->tile_n * static_cast<double>(draft.machine().device.sms);
  const double rate = flops / constants->k_time * 1e-12;
  draft.notes.push_back(
      fmt::format("gemm.{}: {:.0f} TFLOP/s by public tables, taken; own records back to back {:.0f} ({:+.0f} %), at "
                  "the highest clock "
                  "{:.0f} ({:+.0f} %)",
                  step.kind, rate, rate / held.value, 100 / held.value - 100, rate / of_forward.value,
                  100 / of_forward.value - 100));
  const double ratio = of_gradient.value / of_forward.value;
  const std::string forwards = fmt::format("gemm.{}.k_time", step.kind);
  const std::string gradients = fmt::format("gemm.{}_weight_gradient.k_time", step.kind);
  const double uncertainty = draft.find(forwards)->relative_uncertainty.value_or(0);
  draft.set(
      gradients, constants->k_time * ratio, "ns", std::hypot(of_forward.deviation, of_gradient.deviation) + uncertainty,
      Evidence::fitted,
      fmt::format("gemm.{}.k_time times {:.3g}, the ratio in {} weight gradients and {} other GEMMs of {}, each at its "
                  "recorded clock",
                  step.kind, ratio, gradient.size(), forward.size(), cited_records(draft)));
  draft.share(gradients, draft.errors_of(forwards), uncertainty, gradients);
  return {};
}

model::Result<void> fit_attention_backward_step(Draft& draft) {
  const Measurements& records = *TRY(draft.measured());
  const auto backward = bursts(records, "attention", "B");
  if (backward.size() < 3) return none(draft, "three records of attention backward");
  const double sms = static_cast<double>(draft.machine().device.sms), peak = draft.machine().device.bf16_peak.value();
  const auto seconds_of_phase = [&](const std::vector<Measurement>& of, model::AttentionConstants c, bool back) {
    c.kv_bandwidth = draft.si("attention.kv_bandwidth").value_or(0);
    return vector_of(of, [&](const Measurement& m) {
      const double length = extent_of(m, "length"), sequences = std::max(1.0, extent_of(m, "sequences"));
      return attention_seconds(c,
                               {.batch_heads = sequences * extent_of(m, "heads"),
                                .kv_heads_batch = sequences * extent_of(m, "kv_heads"),
                                .queries = length,
                                .pairs_per_query = length / 2,
                                .qk_dim = extent_of(m, "qk_dim"),
                                .v_dim = extent_of(m, "v_dim"),
                                .backward = back},
                               sms, sms);
    });
  };
  const double highest = environment_number(records, highest_mhz);
  const VectorXd measured = unthrottled(backward, highest);
  // Rows cost as many pairs as forward: few records do not determine both.
  const double pair = attention_pair([&](const std::string& of) { return draft.si(of); }).value_or(0);
  const double rows = pair > 0 ? draft.si("attention.forward.row_time").value_or(0) / pair : 0;
  const auto row_time = [&](double rate) { return rows * 2 * backward_dims / rate; };
  const Form form = [&](const VectorXd& x) {
    return seconds_of_phase(backward, {.rate = x[0], .row_time = row_time(x[0])}, true);
  };
  constexpr double share = 0.5;
  const VectorXd start = VectorXd::Constant(1, share * peak);
  const LogFit fit = log_fit(form, measured, start, {});
  const VectorXd errors = (form(fit.values).array() / measured.array() - 1).abs();
  const auto forward = bursts(records, "attention", "F");
  if (forward.empty()) return none(draft, "record of attention forward");
  const VectorXd predicted = seconds_of_phase(forward,
                                              {.rate = draft.si("attention.forward_rate").value_or(peak),
                                               .pair_time = draft.si("attention.forward.pair_time").value_or(0),
                                               .row_time = draft.si("attention.forward.row_time").value_or(0),
                                               .tail = draft.si("attention.forward.tail").value_or(0)},
                                              false);
  const VectorXd ratios = predicted.cwiseQuotient(unthrottled(forward, highest));
  const double factor = model::quantile({ratios.begin(), ratios.end()}, 0.5);
  const std::string how = fmt::format(
      "backward over forward in {} and {} records of cuDNN, each at its clock, times the "
      "forward of this profile; errors of the form up to {:.0f} % ({})",
      backward.size(), forward.size(), 100 * errors.maxCoeff(), cited_records(draft));
  const double deviation = std::max(fit.uncertainty[0], errors.mean());
  draft.set("attention.backward_rate", fit.values[0] / factor, "TFLOP/s", deviation, Evidence::fitted, how);
  draft.set("attention.backward.row_time", row_time(fit.values[0]) * factor, "ps", 2 * deviation, Evidence::assumed,
            "as many pairs as a row costs forward; " + how);
  const VectorXd held = as_measured(forward);
  for (Eigen::Index i = 0; i < ratios.size(); ++i) {
    const Measurement& m = forward[static_cast<std::size_t>(i)];
    draft.notes.push_back(
        fmt::format("attention forward, {} heads of {}/{}, {} tokens: {:.0f} us by public tables, taken; own "
                    "record back to back {:.0f} ({:+.0f} %), at the highest clock {:+.0f} %",
                    extent_of(m, "heads"), extent_of(m, "qk_dim"), extent_of(m, "v_dim"), extent_of(m, "length"),
                    1e6 * predicted[i], 1e6 * held[i], 100 * held[i] / predicted[i] - 100, 100 / ratios[i] - 100));
  }
  return {};
}

// The median of bytes over time, of records that move enough to be bound by memory.
model::Result<void> fit_memory_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const Measurements& records = *TRY(draft.measured());
  constexpr double enough = 64e6;
  std::vector<double> rates;
  for (const Measurement& m : records.values)
    if (m.op == step.op && m.cache == "cold" && (m.variant == "burst" || m.variant == "kernel") &&
        m.bytes.value_or(0) >= enough)
      rates.push_back(*m.bytes / m.time.p50);
  if (rates.empty()) return none(draft, fmt::format("record of {} that moves 64 MB", step.op));
  const double middle = model::quantile(rates, 0.5);
  for (std::size_t i = 0; i < rates.size() && rates.size() > 1; ++i) {
    std::vector<double> others = rates;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    draft.memory_records.push_back(std::log(model::quantile(others, 0.5) / rates[i]));
  }
  const auto [least, most] = std::ranges::minmax(rates);
  constexpr double meter = 0.03;  // between repetitions of a record
  draft.set(step.constant, middle, "TB/s", std::max(meter, (most - least) / 2 / middle), Evidence::measured,
            fmt::format("median of {} records of {} ({})", rates.size(), step.op, cited_records(draft)));
  return {};
}

model::Result<void> fit_launch_gap_step(Draft& draft) {
  const Measurements& records = *TRY(draft.measured());
  const auto found = std::ranges::find_if(
      records.values, [](const Measurement& m) { return m.op == "launch" && m.variant == "stream_gap"; });
  if (found == records.values.end()) return none(draft, "record of a launch after another");
  draft.set("kernel.launch_gap", found->time.p50, "us", 0.1, Evidence::measured,
            fmt::format("time from an empty kernel to the next of a stream ({})", cited_records(draft)));
  return {};
}

}  // namespace plumbline::calibrate
