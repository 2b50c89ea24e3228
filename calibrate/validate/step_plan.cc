#include "calibrate/validate/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace plumbline::calibrate {
namespace {

using model::Error;
using Changes = std::vector<std::string>;
using Renamed = std::pair<std::string_view, std::string_view>;  // column, key

// A shipped model of the type, and its words for the dimensions, which the row gives.
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

// "full", "none", or groups of operators joined by '+'.
void add_recompute(const std::string& cell, Changes& changes) {
  if (cell == "full" || cell == "none") return changes.push_back("recompute.policy=" + quoted(cell));
  changes.emplace_back("recompute.policy=\"selective\"");
  std::string list = quoted(cell);
  for (std::size_t at = list.find('+'); at != std::string::npos; at = list.find('+', at)) list.replace(at, 1, "\", \"");
  changes.push_back(fmt::format("recompute.operators=[{}]", list));
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

}  // namespace

model::Result<StepPlan> step_plan(const PublishedStep& step, const StepCase& definition) {
  const auto hardware = std::ranges::find(definition.hardware, step.hardware, &StepHardware::name);
  if (hardware == definition.hardware.end())
    return model::wrong_input(step.id, fmt::format("the case does not know the hardware '{}'", step.hardware),
                              "add a [[hardware]] table with this name");
  const ModelWords* words = model_words(step.model_type);
  if (words == nullptr)
    return model::wrong_input(step.id, fmt::format("no shipped model to start a '{}' from", step.model_type),
                              "known: llama, gpt2");
  StepPlan made{{}, hardware->profile, {}};
  Changes changes = layout_changes(step, *hardware, *words);
  for (const StepReading& reading : definition.readings) {
    if (!matches(reading, step)) continue;
    changes.insert(changes.end(), reading.plan.begin(), reading.plan.end());
    made.missing.insert(made.missing.end(), reading.missing.begin(), reading.missing.end());
    if (!reading.profile.empty()) made.profile = reading.profile;
  }
  changes.push_back("cluster.profile=" + quoted(made.profile));
  auto plan = model::read_plan("", step.id, changes);
  if (!plan) {
    const Error& error = plan.error();
    return model::wrong_input(step.id, fmt::format("{}: {}", error.key, error.message), error.hint);
  }
  plan->file.clear();  // there is none: models are searched among the shipped ones
  made.plan = std::move(*plan);
  return made;
}

}  // namespace plumbline::calibrate
