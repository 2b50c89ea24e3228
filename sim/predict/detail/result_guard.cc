#include "sim/predict/detail/result_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/plan/software.h"
#include "model/profile/device_profile.h"

namespace plumbline::sim {
namespace {

using model::ErrorKind;

constexpr double rate_rounding = 1e-9;

bool is_number(double value) { return std::isfinite(value) && value >= 0; }

std::string with_what(const Predicted& predicted) {
  return fmt::format("profile {} on {}", predicted.inputs.profile.name(), predicted.inputs.cluster.device.name);
}

model::Failure refuse(const Predicted& predicted, ErrorKind kind, const std::string& what) {
  return tl::unexpected(model::plan_error(
      predicted.plan, kind, "cluster.profile", fmt::format("with {} {}", with_what(predicted), what),
      "the plan, or a constant of the profile or the topology, is wrong: plumbline show lists constants"));
}

// Returns whether the profile's rates were measured or stated for a device whose peak nobody has stated.
bool peak_is_open(const Predicted& predicted) {
  const auto& parameters = predicted.inputs.cluster.parameters;
  const auto peak = std::ranges::find(parameters, "device.bf16_peak", &model::Parameter::name);
  return predicted.costs.profile->holds && peak != parameters.end() && peak->kind == model::Evidence::assumed;
}

double highest_peak(const Predicted& predicted) {
  const model::Device& device = predicted.inputs.cluster.device;
  const auto attention = model::attention_format(predicted.plan);
  const double of_attention = attention ? model::peak(device, *attention) : 0;
  return std::max({device.bf16_peak.value(), model::peak(device, predicted.plan.precision.gemm), of_attention});
}

bool is_below(double seconds, double limit) { return seconds < limit * (1 - rate_rounding); }

}  // namespace

model::Result<void> check_estimate(const Predicted& predicted, const model::StepTimes& step, double peak_bytes) {
  if (!is_number(step.time_s) || step.time_s == 0)
    return refuse(predicted, ErrorKind::input, fmt::format("the step takes {} s", step.time_s));
  if (!is_number(peak_bytes))
    return refuse(predicted, ErrorKind::input, fmt::format("the fullest rank holds {} B", peak_bytes));
  for (const std::optional<double>& slots : step.slots_s)
    if (slots && !is_number(*slots))
      return refuse(predicted, ErrorKind::input, fmt::format("slots of a rank take {} s", *slots));
  const double peak = highest_peak(predicted), rate = step.model_tflops_per_gpu_causal * 1e12;
  if (peak == 0 || rate <= peak * (1 + rate_rounding) || peak_is_open(predicted)) return {};
  return refuse(predicted, ErrorKind::infeasible,
                fmt::format("the step takes {:.4g} s, an MFU of {:.1f} %: faster than the peak of {:.4g} TFLOP/s",
                            step.time_s, 100 * rate / peak, peak / 1e12));
}

model::Result<void> check_limits(const Predicted& predicted, double step_s, double bound_s, double flops_at_peak_s) {
  if (!is_number(bound_s) || is_below(step_s, bound_s))
    return refuse(predicted, ErrorKind::input,
                  fmt::format("the step takes {:.6g} s and its lower bound is {:.6g} s", step_s, bound_s));
  if (!is_below(step_s, flops_at_peak_s) || peak_is_open(predicted)) return {};
  return refuse(predicted, ErrorKind::infeasible,
                fmt::format("the step takes {:.4g} s, and its FLOPs take {:.4g} s at the device's peak", step_s,
                            flops_at_peak_s));
}

model::Result<void> check_countable(const Predicted& predicted, double step_s) {
  constexpr double longest = 1e6;  // s; a ninth of what the counter holds, since links may be shared
  if (step_s < longest) return {};
  return refuse(predicted, ErrorKind::input,
                fmt::format("the step takes {:.4g} s, too long for an event simulation", step_s));
}

std::vector<std::string> peak_warnings(const Predicted& predicted, double step_s, double flops_at_peak_s) {
  if (!is_below(step_s, flops_at_peak_s)) return {};
  return {fmt::format("the step is faster than the assumed peak of {} allows: its file understates it",
                      predicted.inputs.cluster.device.name)};
}

}  // namespace plumbline::sim
