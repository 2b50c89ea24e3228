#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "calibrate/validate/detail/case_rows.h"
#include "calibrate/validate/step_case.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

using Changes = std::vector<std::string>;
using Renamed = std::pair<std::string_view, std::string_view>;  // column, key

// A shipped model of the type, and its keys of the dimensions that the row gives.
struct ModelWords {
  std::string_view type, config;
  std::vector<Renamed> dimensions;
};

// Returns the keys that most types have, and `others`.
std::vector<Renamed> with_common(std::vector<Renamed> others) {
  others.insert(others.begin(), {{"layers", "num_hidden_layers"},
                                 {"hidden", "hidden_size"},
                                 {"heads", "num_attention_heads"},
                                 {"kv_heads", "num_key_value_heads"},
                                 {"ffn", "intermediate_size"},
                                 {"vocabulary", "vocab_size"}});
  return others;
}

// Returns the types in alphabetical order.
const std::vector<ModelWords>& known_models() {
  static const std::vector<Renamed> routed = with_common({{"experts", "n_routed_experts"},
                                                          {"experts_per_token", "num_experts_per_tok"},
                                                          {"expert_ffn", "moe_intermediate_size"}});
  static const std::vector<Renamed> qwen = with_common({{"experts", "num_experts"},
                                                        {"experts_per_token", "num_experts_per_tok"},
                                                        {"expert_ffn", "moe_intermediate_size"}});
  static const std::vector<ModelWords> known = {
      {"deepseek_v2", "models/deepseek-v2.json", routed},
      {"deepseek_v3", "models/deepseek-v3.json", routed},
      {"gpt2",
       "models/gpt3-175b.json",
       {{"layers", "n_layer"},
        {"hidden", "n_embd"},
        {"heads", "n_head"},
        {"ffn", "n_inner"},
        {"vocabulary", "vocab_size"},
        {"sequence", "n_positions"}}},
      {"llama", "models/llama-3-8b.json", with_common({})},
      // An expert's width is the key that dense models of this family use.
      {"mixtral",
       "models/mixtral-8x22b.json",
       {{"layers", "num_hidden_layers"},
        {"hidden", "hidden_size"},
        {"heads", "num_attention_heads"},
        {"kv_heads", "num_key_value_heads"},
        {"vocabulary", "vocab_size"},
        {"experts", "num_local_experts"},
        {"experts_per_token", "num_experts_per_tok"},
        {"expert_ffn", "intermediate_size"}}},
      {"mpt",
       "models/mpt-7b.json",
       {{"layers", "n_layers"},
        {"hidden", "d_model"},
        {"heads", "n_heads"},
        {"vocabulary", "vocab_size"},
        {"sequence", "max_seq_len"}}},
      {"qwen2_moe", "models/qwen2-57b-a14b.json", qwen},
      {"qwen3_moe", "models/qwen3-235b-a22b.json", qwen},
  };
  return known;
}

constexpr Renamed plan_keys[] = {{"gpus", "cluster.gpus"},
                                 {"zero_stage", "parallelism.zero_stage"},
                                 {"sequence", "batch.sequence_length"},
                                 {"micro_batch", "batch.micro_batch_size"},
                                 {"global_batch", "batch.global_batch_size"},
                                 {"virtual_stages", "schedule.virtual_stages"}};

// Adds the changes for a cell: "full", "none", or groups of operators joined by '+'.
void add_recompute(const std::string& cell, Changes& changes) {
  if (cell == "full" || cell == "none") return changes.push_back("recompute.policy=" + model::toml_string(cell));
  changes.emplace_back("recompute.policy=\"selective\"");
  std::string list = model::toml_string(cell);
  for (std::size_t at = list.find('+'); at != std::string::npos; at = list.find('+', at)) list.replace(at, 1, "\", \"");
  changes.push_back(fmt::format("recompute.operators=[{}]", list));
}

// Returns the model that the row starts from, whose dimensions the row gives.
model::Result<const ModelWords*> words_of(const PublishedStep& step) {
  const auto& known = known_models();
  const auto found = std::ranges::find(known, step.model_type, &ModelWords::type);
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const ModelWords& words : known) names.emplace_back(words.type);
    return tl::unexpected(about_row(step.id, fmt::format("no shipped model to start a '{}' from", step.model_type),
                                    fmt::format("known: {}", fmt::join(names, ", "))));
  }
  for (const auto& [column, key] : found->dimensions)
    if (!step.numbers.contains(column))
      return tl::unexpected(about_row(step.id, fmt::format("a {} has a '{}', which the row lacks", found->type, column),
                                      "fill in the cell"));
  return &*found;
}

bool matches(const StepReading& reading, const PublishedStep& step) {
  return reading.set == step.set && step.variant.find(reading.variant) != std::string::npos &&
         (reading.hardware.empty() || reading.hardware == step.hardware);
}

Changes layout_changes(const PublishedStep& step, const StepHardware& hardware, const ModelWords& words) {
  // The frameworks of these steps spread layers evenly; a row with another split states it.
  Changes changes = {"model.config=" + model::toml_string(words.config),
                     "cluster.topology=" + model::toml_string(hardware.topology),
                     "schedule.kind=" + model::toml_string(step.schedule),
                     "schedule.layers_per_stage=\"even\"",
                     "precision.gemm=" + model::toml_string(step.gemm),
                     fmt::format("parallelism.sequence={}", step.sequence_parallel)};
  if (!hardware.device.empty()) changes.push_back("cluster.device=" + model::toml_string(hardware.device));
  changes.insert(changes.end(), hardware.plan.begin(), hardware.plan.end());
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
    return tl::unexpected(about_row(step.id, fmt::format("the case has no hardware '{}'", step.hardware),
                                    "add a [[hardware]] table with this name"));
  const ModelWords& words = *TRY(words_of(step));
  StepPlan made{{}, hardware->profile, "device", {}};
  Changes changes = layout_changes(step, *hardware, words);
  for (const StepReading& reading : definition.readings) {
    if (!matches(reading, step)) continue;
    changes.insert(changes.end(), reading.plan.begin(), reading.plan.end());
    made.missing.insert(made.missing.end(), reading.missing.begin(), reading.missing.end());
    made.missing_tensors = made.missing_tensors || reading.missing_tensors;
    if (!reading.cluster.empty()) changes.push_back("cluster.topology=" + model::toml_string(reading.cluster));
    if (!reading.stack.empty()) changes.push_back("stack.name=" + model::toml_string(reading.stack));
    if (!reading.profile.empty()) made.profile = reading.profile;
    if (!reading.memory.empty()) made.memory = reading.memory;
  }
  changes.insert(changes.end(), step.plan.begin(), step.plan.end());
  if (!made.profile.empty()) changes.push_back("cluster.profile=" + model::toml_string(made.profile));
  made.plan = TRY(plan_of_row(step.id, changes));
  return made;
}

}  // namespace plumbline::calibrate
