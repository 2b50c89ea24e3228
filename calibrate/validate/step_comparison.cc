#include "calibrate/validate/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "calibrate/validate/figure_value.h"
#include "calibrate/validate/validation_case.h"
#include "model/result/compared_time.h"
#include "sim/predict/predictor_pool.h"

namespace plumbline::calibrate {
namespace {

using model::Error;
using model::ErrorKind;
using Changes = std::vector<std::string>;
using Renamed = std::pair<std::string_view, std::string_view>;  // column, key

// A shipped model of the type, and its keys of the dimensions that the row gives.
struct ModelWords {
  std::string_view type, config;
  std::vector<Renamed> dimensions;
};

const ModelWords* model_words(std::string_view type) {
  static const std::vector<ModelWords> known = {
      {"llama",
       "models/llama-3-8b.json",
       {{"layers", "num_hidden_layers"},
        {"hidden", "hidden_size"},
        {"heads", "num_attention_heads"},
        {"kv_heads", "num_key_value_heads"},
        {"ffn", "intermediate_size"},
        {"vocabulary", "vocab_size"}}},
      {"gpt2",
       "models/gpt3-175b.json",
       {{"layers", "n_layer"},
        {"hidden", "n_embd"},
        {"heads", "n_head"},
        {"ffn", "n_inner"},
        {"vocabulary", "vocab_size"},
        {"sequence", "n_positions"}}},
  };
  const auto found = std::ranges::find(known, type, &ModelWords::type);
  return found == known.end() ? nullptr : &*found;
}

constexpr Renamed plan_keys[] = {{"gpus", "cluster.gpus"},
                                 {"zero_stage", "parallelism.zero_stage"},
                                 {"sequence", "batch.sequence_length"},
                                 {"micro_batch", "batch.micro_batch_size"},
                                 {"global_batch", "batch.global_batch_size"},
                                 {"virtual_stages", "schedule.virtual_stages"}};

std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

// Adds the changes for a cell: "full", "none", or groups of operators joined by '+'.
void add_recompute(const std::string& cell, Changes& changes) {
  if (cell == "full" || cell == "none") return changes.push_back("recompute.policy=" + quoted(cell));
  changes.emplace_back("recompute.policy=\"selective\"");
  std::string list = quoted(cell);
  for (std::size_t at = list.find('+'); at != std::string::npos; at = list.find('+', at)) list.replace(at, 1, "\", \"");
  changes.push_back(fmt::format("recompute.operators=[{}]", list));
}

Error about(const PublishedStep& step, std::string message, std::string hint) {
  return {ErrorKind::input, std::move(message), "", 0, step.id, std::move(hint)};
}

bool matches(const StepReading& reading, const PublishedStep& step) {
  return reading.set == step.set && step.variant.find(reading.variant) != std::string::npos &&
         (reading.hardware.empty() || reading.hardware == step.hardware);
}

Changes layout_changes(const PublishedStep& step, const StepHardware& hardware, const ModelWords& words) {
  Changes changes = {"model.config=" + quoted(words.config), "cluster.topology=" + quoted(hardware.topology),
                     "schedule.kind=" + quoted(step.schedule), "precision.gemm=" + quoted(step.gemm),
                     fmt::format("parallelism.sequence={}", step.sequence_parallel)};
  if (!hardware.device.empty()) changes.push_back("cluster.device=" + quoted(hardware.device));
  for (const auto& [column, key] : words.dimensions)
    changes.push_back(fmt::format("model.{}={}", key, step.numbers.at(std::string(column))));
  for (const model::Degree& degree : model::parallel_degrees)
    changes.push_back(fmt::format("parallelism.{}={}", degree.name, step.numbers.at(degree.name)));
  for (const auto& [column, key] : plan_keys)
    changes.push_back(fmt::format("{}={}", key, step.numbers.at(std::string(column))));
  add_recompute(step.recompute, changes);
  return changes;
}

ComparedStep compare(const PublishedStep& step, const StepCase& definition, const InputsOf& inputs_of,
                     sim::Fidelity fidelity, sim::PredictorPool& predictors) {
  ComparedStep compared{step, step.lacking(), {}, "", {}, {}, {}, {}, 0};
  if (!compared.lacking.empty()) return compared;
  const auto plan = step_plan(step, definition);
  if (!plan) return compared.error = plan.error(), compared;
  compared.missing = plan->missing;
  compared.profile = plan->profile;
  const auto inputs = inputs_of(plan->plan, plan->profile);
  if (!inputs) return compared.error = inputs.error(), compared;
  const auto simulation = predictors.with(
      *inputs, [&](sim::Predictor& predictor) { return predictor.simulate(inputs->plan, {.fidelity = fidelity}); });
  if (!simulation) return compared.error = simulation.error(), compared;
  compared.predicted = simulation->result.step.time_s;
  compared.peak_bytes = simulation->result.memory.peak_bytes;
  compared.capacity_bytes = simulation->result.memory.capacity_bytes;
  const Naive naive = naive_prediction(inputs->plan, inputs->architecture, inputs->cluster, definition.naive_mfu);
  compared.baseline = naive.step.step.time_s;
  return compared;
}

// Summarizes the predicted rows that `which` accepts.
template <class Which>
StepSummary summarize(std::string name, const std::vector<ComparedStep>& steps, const Which& which) {
  std::vector<double> predictions;
  std::vector<double> baselines;
  for (const ComparedStep& step : steps) {
    const auto error = step.prediction_error();
    if (!error || !which(step.step)) continue;
    predictions.push_back(*error);
    baselines.push_back(step.baseline_error().value_or(0));
  }
  return {std::move(name), errors_of(predictions), errors_of(baselines)};
}

std::vector<StepSummary> summaries_of(const std::vector<ComparedStep>& steps) {
  std::vector<StepSummary> summaries;
  for (const ComparedStep& step : steps) {
    const std::string& set = step.step.set;
    if (std::ranges::find(summaries, set, &StepSummary::name) != summaries.end()) continue;
    StepSummary summary = summarize(set, steps, [&](const PublishedStep& row) { return row.set == set; });
    if (summary.prediction.rows > 0) summaries.push_back(std::move(summary));
  }
  summaries.push_back(summarize("all", steps, [](const PublishedStep&) { return true; }));
  return summaries;
}

}  // namespace

model::Result<StepPlan> step_plan(const PublishedStep& step, const StepCase& definition) {
  const auto hardware = std::ranges::find(definition.hardware, step.hardware, &StepHardware::name);
  if (hardware == definition.hardware.end())
    return tl::unexpected(about(step, fmt::format("the case has no hardware '{}'", step.hardware),
                                "add a [[hardware]] table with this name"));
  const ModelWords* words = model_words(step.model_type);
  if (words == nullptr)
    return tl::unexpected(
        about(step, fmt::format("no shipped model to start a '{}' from", step.model_type), "known: llama, gpt2"));
  StepPlan made{{}, hardware->profile, {}};
  Changes changes = layout_changes(step, *hardware, *words);
  for (const StepReading& reading : definition.readings) {
    if (!matches(reading, step)) continue;
    changes.insert(changes.end(), reading.plan.begin(), reading.plan.end());
    made.missing.insert(made.missing.end(), reading.missing.begin(), reading.missing.end());
    if (!reading.cluster.empty()) changes.push_back("cluster.topology=" + quoted(reading.cluster));
    if (!reading.profile.empty()) made.profile = reading.profile;
    if (!reading.stack.empty()) changes.push_back("stack.name=" + quoted(reading.stack));
  }
  changes.push_back("cluster.profile=" + quoted(made.profile));
  auto plan = model::read_plan("", step.id, changes);
  if (!plan) {
    const Error& error = plan.error();
    return tl::unexpected(about(step, fmt::format("{}: {}", error.key, error.message), error.hint));
  }
  plan->file.clear();  // there is no file: models are searched among the shipped ones
  made.plan = std::move(*plan);
  return made;
}

std::optional<double> ComparedStep::prediction_error() const { return model::relative_error(predicted, step.seconds); }

std::optional<double> ComparedStep::baseline_error() const {
  return predicted ? model::relative_error(baseline, step.seconds) : std::nullopt;
}

StepErrors errors_of(const std::vector<double>& errors) {
  StepErrors result;
  result.rows = errors.size();
  if (errors.empty()) return result;
  Aggregate median;
  median.statistic = Aggregate::Statistic::median_absolute_error;
  result.median_absolute = median.of(errors).value_or(0);
  for (const double error : errors) {
    result.mean_absolute += std::abs(error) / static_cast<double>(errors.size());
    result.bias += error / static_cast<double>(errors.size());
    if (std::abs(error) > std::abs(result.largest)) result.largest = error;
  }
  return result;
}

bool ComparedDemand::holds() const {
  const StepErrors& errors = summary.prediction;
  return errors.rows > 0 && errors.mean_absolute <= demand.mean_absolute_error &&
         std::abs(errors.bias) <= demand.bias && errors.mean_absolute < summary.baseline.mean_absolute;
}

bool ComparedDemand::reaches_aim() const {
  const StepErrors& errors = summary.prediction;
  return errors.mean_absolute <= demand.aim_mean_absolute_error.value_or(INFINITY) &&
         std::abs(errors.bias) <= demand.aim_bias.value_or(INFINITY);
}

bool StepComparison::holds() const { return std::ranges::all_of(demands, &ComparedDemand::holds); }

StepComparison compare_steps(const StepCase& definition, const std::vector<PublishedStep>& steps,
                             const InputsOf& inputs_of, sim::Fidelity fidelity) {
  StepComparison comparison{definition, {}, {}, {}};
  sim::PredictorPool predictors;
  for (const PublishedStep& step : steps)
    comparison.steps.push_back(compare(step, definition, inputs_of, fidelity, predictors));
  comparison.summaries = summaries_of(comparison.steps);
  for (const StepDemand& demand : definition.demands) {
    const auto wanted = [&](const PublishedStep& row) {
      return demand.hardware.empty() || std::ranges::find(demand.hardware, row.hardware) != demand.hardware.end();
    };
    comparison.demands.push_back({demand, summarize(demand.name, comparison.steps, wanted)});
  }
  return comparison;
}

}  // namespace plumbline::calibrate
