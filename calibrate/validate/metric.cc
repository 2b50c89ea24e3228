#include "calibrate/validate/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

using model::OpType;
using model::RunCost;
using model::StepResult;
using model::TimelineSummary;
using Value = std::optional<double>;

struct Metric {
  std::string key;
  std::function<Value(const StepResult&)> read;
  bool from_step_time = false;
};

using Step = model::StepTimes;

auto of_run(auto field) {
  return [field](const StepResult& result) { return result.run ? Value((*result.run).*field) : std::nullopt; };
}

auto of_step(auto field) {
  return [field](const StepResult& result) -> Value { return result.step.*field; };
}

auto of_interval(double model::Quantiles::*quantile) {
  return [quantile](const StepResult& r) { return r.interval ? Value(r.interval->time_s.*quantile) : std::nullopt; };
}

std::vector<Metric> all_metrics() {
  std::vector<Metric> all = {
      {"step.time_s", of_step(&Step::time_s), true},
      {"step.tokens_per_s", of_step(&Step::tokens_per_s), true},
      {"step.tokens_per_s_per_gpu", of_step(&Step::tokens_per_s_per_gpu), true},
      {"step.model_tflops_per_gpu", of_step(&Step::model_tflops_per_gpu)},
      {"step.model_tflops_per_gpu_causal", of_step(&Step::model_tflops_per_gpu_causal)},
      {"step.mfu", of_step(&Step::mfu)},
      {"step.mfu_causal", of_step(&Step::mfu_causal)},
      {"step.bubble_s", of_step(&Step::bubble_s)},
      {"step.exposed_communication_s", of_step(&Step::exposed_communication_s)},
      {"step.optimizer_s", of_step(&Step::optimizer_s)},
      {"interval.time_s.p10", of_interval(&model::Quantiles::p10)},
      {"interval.time_s.p50", of_interval(&model::Quantiles::p50)},
      {"interval.time_s.p90", of_interval(&model::Quantiles::p90)},
      {"bound.time_s", [](const StepResult& result) { return result.bound_s; }},
      {"run.tokens", of_run(&RunCost::tokens)},
      {"run.steps", of_run(&RunCost::steps)},
      {"run.days", of_run(&RunCost::days), true},
      {"run.gpu_hours", of_run(&RunCost::gpu_hours), true},
      {"run.cost_usd", of_run(&RunCost::cost_usd), true},
      {"run.goodput", of_run(&RunCost::goodput)},
      {"run.total_gpu_hours", of_run(&RunCost::total_gpu_hours), true},
      {"run.total_cost_usd", of_run(&RunCost::total_cost_usd), true},
      {"memory.peak_bytes", [](const StepResult& result) -> Value { return result.memory.peak_bytes; }},
      {"memory.capacity_bytes", [](const StepResult& result) -> Value { return result.memory.capacity_bytes; }},
  };
  for (const auto& [name, values] : {std::pair("slots_s", &Step::slots_s),
                                     {"slots_mean_s", &Step::slots_mean_s},
                                     {"exposed_mean_s", &Step::exposed_mean_s},
                                     {"chunk_s", &Step::chunk_s}})
    for (std::size_t op = 0; op < model::PerOp().size(); ++op)
      all.push_back({fmt::format("step.{}.{}", name, model::to_string(static_cast<OpType>(op))),
                     [values = values, op](const StepResult& result) { return (result.step.*values)[op]; }});
  return all;
}

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = all_metrics();
  return all;
}

const Metric* find_metric(std::string_view key) {
  const auto found = std::ranges::find(metrics(), key, &Metric::key);
  return found == metrics().end() ? nullptr : &*found;
}

// Returns the keys of a sum, without the blanks around them.
std::vector<std::string_view> terms(std::string_view sum) {
  std::vector<std::string_view> keys = model::split_at(sum, '+');
  for (std::string_view& key : keys) key = model::trimmed(key);
  return keys;
}

constexpr std::string_view chunk_prefix = "chunk.";

struct Quantity {
  std::string_view name;  // "time_s"; names that end in a dot take an argument
  Value (*read)(const TimelineSummary& chunk, std::string_view argument);
};

Value compute_share(const TimelineSummary& chunk, std::string_view) {
  return chunk.seconds > 0 ? Value(chunk.compute_share()) : std::nullopt;
}

Value span(const TimelineSummary& chunk, std::string_view argument) {
  const std::size_t dot = argument.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<int> slot = model::parse_number<int>(argument.substr(dot + 1));
  const auto wanted = [&](const TimelineSummary::Phase& s) {
    return s.name == argument.substr(0, dot) && s.slot == slot;
  };
  const auto found = std::ranges::find_if(chunk.phases, wanted);
  return found == chunk.phases.end() ? std::nullopt : Value(found->end - found->start);
}

// The first period is that of slot 1.
Value period(const TimelineSummary& chunk, std::string_view argument) {
  const std::optional<int> slot = model::parse_number<int>(argument);
  if (!slot || *slot < 1 || static_cast<std::size_t>(*slot) > chunk.periods.size()) return std::nullopt;
  return chunk.periods[static_cast<std::size_t>(*slot) - 1];
}

Value class_time(const TimelineSummary& chunk, std::string_view argument) {
  const auto found = std::ranges::find(chunk.classes, argument, &TimelineSummary::ClassTime::row);
  return found == chunk.classes.end() ? std::nullopt : Value(found->seconds);
}

Value gemm(const TimelineSummary& chunk, std::string_view argument) {
  const auto wanted = [&](const TimelineSummary::Gemm& p) { return p.name + "." + p.kind == argument; };
  const auto found = std::ranges::find_if(chunk.gemms, wanted);
  return found == chunk.gemms.end() ? std::nullopt : Value(found->mean());
}

Value gemm_sum(const TimelineSummary& chunk, std::string_view argument) {
  Value sum;
  for (const std::string_view kind : model::split_at(argument, '+'))
    for (const TimelineSummary::Gemm& p : chunk.gemms)
      if (p.kind == kind) sum = sum.value_or(0) + p.mean();
  return sum;
}

template <double TimelineSummary::*field>
Value total_of(const TimelineSummary& chunk, std::string_view) {
  return chunk.*field;
}

constexpr Quantity quantities[] = {
    {"time_s", total_of<&TimelineSummary::seconds>},
    {"compute_busy_s", total_of<&TimelineSummary::compute_busy>},
    {"compute_busy_share", compute_share},
    {"communication_busy_s", total_of<&TimelineSummary::communication_busy>},
    {"exposed_communication_s", total_of<&TimelineSummary::exposed_communication>},
    {"span_s.", span},
    {"period_s.", period},
    {"class_s.", class_time},
    {"gemm_s.", gemm},
    {"gemm_sum_s.", gemm_sum},
};

// A metric split into its quantity and the argument after the name.
struct Split {
  const Quantity* quantity = nullptr;
  std::string_view argument;
};

Split split_argument(std::string_view metric) {
  if (!of_chunk(metric)) return {};
  metric.remove_prefix(chunk_prefix.size());
  for (const Quantity& quantity : quantities) {
    const bool takes_argument = quantity.name.ends_with('.');
    if (takes_argument ? metric.starts_with(quantity.name) && metric.size() > quantity.name.size()
                       : metric == quantity.name)
      return {&quantity, metric.substr(quantity.name.size())};
  }
  return {};
}

model::Result<void> unknown(std::string_view metric, std::string_view name, const std::vector<std::string>& known,
                            std::string_view otherwise) {
  return model::wrong_input("metric", fmt::format("unknown metric '{}'", metric),
                            model::did_you_mean(name, known, otherwise));
}

model::Result<void> check_chunk_metric(std::string_view metric) {
  if (split_argument(metric).quantity != nullptr) return {};
  std::vector<std::string> known;
  for (const Quantity& quantity : quantities) {
    std::string_view name = quantity.name;
    if (name.ends_with('.')) name.remove_suffix(1);
    known.push_back(fmt::format("{}{}", chunk_prefix, name));
  }
  const std::string_view name = metric.substr(0, metric.find('.', chunk_prefix.size()));
  return unknown(metric, name, known, fmt::format("known: {}", fmt::join(known, ", ")));
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

std::optional<double> metric_value(std::string_view metric, const TimelineSummary& chunk) {
  const auto [quantity, argument] = split_argument(metric);
  return quantity == nullptr ? std::nullopt : quantity->read(chunk, argument);
}

bool of_chunk(std::string_view metric) { return metric.starts_with(chunk_prefix); }

model::Result<void> check_metric(std::string_view metric) {
  return of_chunk(metric) ? check_chunk_metric(metric) : check_step_metric(metric);
}

model::Result<void> check_step_metric(std::string_view metric) {
  for (const std::string_view key : terms(metric)) {
    if (find_metric(key) != nullptr) continue;
    std::vector<std::string> known;
    for (const Metric& candidate : metrics()) known.emplace_back(candidate.key);
    return unknown(key, key, known, "a key of the JSON output, or a sum of such");
  }
  return {};
}

}  // namespace plumbline::calibrate
