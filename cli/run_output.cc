#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/outputs.h"
#include "cli/run.h"
#include "model/architecture/metrics.h"
#include "reports/json/json.h"
#include "reports/text/step/summary.h"
#include "reports/trace/trace.h"

namespace plumbline::cli {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<reports::BoardScalar> scalars_of(const real::ClockReading& reading) {
  std::vector<reports::BoardScalar> scalars;
  const auto add = [&](const char* tag, const auto& value) {
    if (value) scalars.push_back({tag, static_cast<double>(*value)});
  };
  add("gpu/power_w", reading.power_w);
  add("gpu/sm_mhz", reading.sm_mhz);
  add("gpu/memory_mhz", reading.memory_mhz);
  add("gpu/temperature_c", reading.temperature_c);
  add("gpu/busy", reading.busy);
  return scalars;
}

// "  loss 6.2401  gradient norm 1.205"; nothing of a rank that learns nothing.
std::string learning_of(const real::StepFigures& figures) {
  if (!std::isfinite(figures.loss)) return "";
  return fmt::format("  loss {:.4f}  gradient norm {:.3f}", figures.loss, figures.gradient_norm);
}

std::string rate_of(const real::StepFigures& figures) {
  return std::isfinite(figures.tokens_per_second) ? fmt::format("  {:.0f} tokens/s", figures.tokens_per_second) : "";
}

std::string device_of(const real::ClockReading& reading) {
  std::string text;
  if (reading.power_w) text += fmt::format("  {:.0f} W", *reading.power_w);
  if (reading.sm_mhz) text += fmt::format("  {} MHz", *reading.sm_mhz);
  if (reading.busy) text += fmt::format("  busy {:.0f} %", 100 * *reading.busy);
  if (reading.throttle && *reading.throttle != "none") text += fmt::format("  slowed by {}", *reading.throttle);
  return text;
}

}  // namespace

RunMonitor monitor_of(const sim::Inputs& inputs, std::int64_t steps) {
  const auto metrics = model::model_metrics(inputs.architecture, inputs.plan.batch.sequence_length);
  const double peak = inputs.cluster.device.bf16_peak.value() * static_cast<double>(inputs.plan.cluster.gpus);
  return {steps, peak, metrics.flops_per_token};
}

model::Result<void> RunMonitor::open(const std::string& folder) {
  if (folder.empty()) return {};
  auto board = TRY(reports::TensorBoard::create(folder, seconds_since_1970()));
  board_ = std::move(board);
  return {};
}

void RunMonitor::step(const real::StepFigures& figures, const real::ClockReading& reading) {
  show(figures, reading);
  if (!board_ || failed_) return;
  std::vector<reports::BoardScalar> scalars = {
      {"loss", figures.loss},
      {"gradient_norm", figures.gradient_norm},
      {"tokens_per_second", figures.tokens_per_second},
      {"time/step_s", figures.seconds},
      {"loss_scale", figures.loss_scale},
      {"utilisation", figures.tokens_per_second * flops_per_token_ / peak_flops_}};
  std::erase_if(scalars, [](const reports::BoardScalar& scalar) { return std::isnan(scalar.value); });
  for (reports::BoardScalar& scalar : scalars_of(reading)) scalars.push_back(std::move(scalar));
  std::vector<reports::BoardHistogram> histograms;
  for (const real::LayerLoad& load : figures.loads) {
    scalars.push_back({fmt::format("expert_load/layer_{}_max_violation", load.layer), load.max_violation});
    histograms.push_back({fmt::format("expert_load/layer_{}", load.layer), load.rows});
  }
  if (auto written = board_->write(figures.step, seconds_since_1970(), scalars, histograms); !written)
    failed_ = written.error();
}

// Not more than a line each half second, but the last step's.
void RunMonitor::show(const real::StepFigures& figures, const real::ClockReading& reading) {
  const double now = seconds_since_1970();
  constexpr double pause = 0.5;
  if (figures.step < steps_ && now - shown_ < pause) return;
  shown_ = now;
  fmt::print(stderr, "step {:>{}}/{}{}  {:.1f} ms{}{}{}\n", figures.step, fmt::formatted_size("{}", steps_), steps_,
             learning_of(figures), 1e3 * figures.seconds, rate_of(figures), device_of(reading),
             figures.skipped ? "  skipped: gradients overflowed" : "");
}

model::Result<int> write_run(const RunArguments& arguments, const sim::Inputs& inputs, const real::RunResult& result,
                             reports::TrainingReport report) {
  const real::TrainingResult& training = result.training;
  if (training.seconds.empty()) {
    fmt::print(stderr, "nothing to do: the checkpoint has {} steps already\n", training.progress.step);
    return 0;
  }
  report.first_step = training.first_step;
  report.losses = training.losses;
  report.gradient_norms = training.gradient_norms;
  report.seconds = training.seconds;
  report.measured_seconds = result.measured_seconds;
  report.skipped = training.skipped;
  for (const real::LayerLoad& load : training.loads)
    report.loads.push_back({load.layer, load.max_violation, load.variation, load.rows});
  const auto& [step, timeline] = std::tie(result.step.result, result.step.timeline);
  if (!arguments.json.empty()) TRY(write_output(arguments.json, reports::to_json(step, inputs.plan, report, timeline)));
  if (!arguments.trace.empty())
    TRY(write_output(arguments.trace, reports::to_trace(timeline, {}, arguments.trace.ends_with(".gz"))));
  if (arguments.json == "-" || arguments.trace == "-") return 0;
  return printed(reports::training_summary(step, inputs.plan, report));
}

}  // namespace plumbline::cli
