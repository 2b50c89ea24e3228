#include "calibrate/validate/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace plumbline::calibrate {
namespace {

using model::OpType;
using model::RunCost;
using model::StepResult;
using Value = std::optional<double>;

struct Metric {
  std::string_view key;
  Value (*read)(const StepResult&);
  bool from_step_time = false;
};

template <auto field>
Value of_run(const StepResult& result) {
  return result.run ? Value((*result.run).*field) : std::nullopt;
}

template <auto field>
Value of_step(const StepResult& result) {
  return result.step.*field;
}

template <auto field, OpType type>
Value of_slot(const StepResult& result) {
  return (result.step.*field)[static_cast<std::size_t>(type)];
}

template <std::size_t index>
Value of_interval(const StepResult& result) {
  return result.interval_s ? Value((*result.interval_s)[index]) : std::nullopt;
}

using Step = model::StepTimes;

constexpr Metric metrics[] = {
    {"step.time_s", of_step<&Step::time_s>, true},
    {"step.tokens_per_s", of_step<&Step::tokens_per_s>, true},
    {"step.tokens_per_s_per_gpu", of_step<&Step::tokens_per_s_per_gpu>, true},
    {"step.model_tflops_per_gpu", of_step<&Step::model_tflops_per_gpu>},
    {"step.model_tflops_per_gpu_causal", of_step<&Step::model_tflops_per_gpu_causal>},
    {"step.mfu", of_step<&Step::mfu>},
    {"step.mfu_causal", of_step<&Step::mfu_causal>},
    {"step.bubble_s", of_step<&Step::bubble_s>},
    {"step.exposed_communication_s", of_step<&Step::exposed_communication_s>},
    {"step.optimizer_s", of_step<&Step::optimizer_s>},
    {"step.slots_s.F", of_slot<&Step::slots_s, OpType::F>},
    {"step.slots_s.B", of_slot<&Step::slots_s, OpType::B>},
    {"step.slots_s.I", of_slot<&Step::slots_s, OpType::I>},
    {"step.slots_s.W", of_slot<&Step::slots_s, OpType::W>},
    {"step.slots_s.FB", of_slot<&Step::slots_s, OpType::FB>},
    {"step.slots_mean_s.F", of_slot<&Step::slots_mean_s, OpType::F>},
    {"step.slots_mean_s.B", of_slot<&Step::slots_mean_s, OpType::B>},
    {"step.slots_mean_s.I", of_slot<&Step::slots_mean_s, OpType::I>},
    {"step.slots_mean_s.W", of_slot<&Step::slots_mean_s, OpType::W>},
    {"step.slots_mean_s.FB", of_slot<&Step::slots_mean_s, OpType::FB>},
    {"step.exposed_mean_s.F", of_slot<&Step::exposed_mean_s, OpType::F>},
    {"step.exposed_mean_s.B", of_slot<&Step::exposed_mean_s, OpType::B>},
    {"step.exposed_mean_s.I", of_slot<&Step::exposed_mean_s, OpType::I>},
    {"step.exposed_mean_s.W", of_slot<&Step::exposed_mean_s, OpType::W>},
    {"step.exposed_mean_s.FB", of_slot<&Step::exposed_mean_s, OpType::FB>},
    {"step.chunk_s.F", of_slot<&Step::chunk_s, OpType::F>},
    {"step.chunk_s.B", of_slot<&Step::chunk_s, OpType::B>},
    {"step.chunk_s.I", of_slot<&Step::chunk_s, OpType::I>},
    {"step.chunk_s.W", of_slot<&Step::chunk_s, OpType::W>},
    {"step.chunk_s.FB", of_slot<&Step::chunk_s, OpType::FB>},
    {"interval.time_s.p10", of_interval<0>},
    {"interval.time_s.p50", of_interval<1>},
    {"interval.time_s.p90", of_interval<2>},
    {"bound.time_s", [](const StepResult& result) -> Value { return result.bound_s; }},
    {"run.tokens", of_run<&RunCost::tokens>},
    {"run.steps", of_run<&RunCost::steps>},
    {"run.days", of_run<&RunCost::days>, true},
    {"run.gpu_hours", of_run<&RunCost::gpu_hours>, true},
    {"run.cost_usd", of_run<&RunCost::cost_usd>, true},
    {"run.goodput", of_run<&RunCost::goodput>},
    {"run.total_gpu_hours", of_run<&RunCost::total_gpu_hours>, true},
    {"run.total_cost_usd", of_run<&RunCost::total_cost_usd>, true},
    {"memory.peak_bytes", [](const StepResult& result) -> Value { return result.memory.peak_bytes; }},
    {"memory.capacity_bytes", [](const StepResult& result) -> Value { return result.memory.capacity_bytes; }},
};

const Metric* find_metric(std::string_view key) {
  const auto* found = std::ranges::find(metrics, key, &Metric::key);
  return found == std::end(metrics) ? nullptr : found;
}

// The keys of a sum, without the blanks around them.
std::vector<std::string_view> terms(std::string_view sum) {
  std::vector<std::string_view> keys;
  while (true) {
    const std::size_t plus = sum.find('+');
    std::string_view key = sum.substr(0, plus);
    key.remove_prefix(std::min(key.find_first_not_of(' '), key.size()));
    key = key.substr(0, key.find_last_not_of(' ') + 1);
    keys.push_back(key);
    if (plus == std::string_view::npos) return keys;
    sum.remove_prefix(plus + 1);
  }
}

}  // namespace

std::optional<double> metric_value(std::string_view metric, const StepResult& result) {
  double sum = 0;
  for (const std::string_view key : terms(metric)) {
    const Metric* known = find_metric(key);
    const Value value = known != nullptr ? known->read(result) : std::nullopt;
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum;
}

bool follows_from_step_time(std::string_view metric) {
  return std::ranges::all_of(terms(metric), [](std::string_view key) {
    const Metric* known = find_metric(key);
    return known != nullptr && known->from_step_time;
  });
}

model::Result<void> check_metric(std::string_view metric) {
  for (const std::string_view key : terms(metric)) {
    if (find_metric(key) != nullptr) continue;
    std::vector<std::string> known;
    for (const Metric& candidate : metrics) known.emplace_back(candidate.key);
    const std::string nearest = model::nearest_name(key, known);
    return tl::unexpected(model::Error{
        model::ErrorKind::input, fmt::format("unknown metric '{}'", key), "", 0, "metric",
        nearest.empty() ? "a key of the JSON output, or a sum of such" : fmt::format("did you mean '{}'?", nearest)});
  }
  return {};
}

}  // namespace plumbline::calibrate
