#include "model/plan/software.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/plan/detail/value_text.h"

namespace plumbline::model {
namespace {

// Returns whether the key decides anything in the plan.
bool is_at_work(const Plan& plan, std::string_view key) {
  if (key == "schedule.kind") return plan.parallelism.pipeline > 1;
  if (key == "stack.dispatcher") return plan.parallelism.expert > 1;
  return true;
}

}  // namespace

std::string listed_as(std::string_view key) { return std::string(key == "precision.experts" ? "precision.gemm" : key); }

bool software_has(const Plan& plan, const std::string& key, std::string_view value) {
  const auto list = plan.software.find(key);
  return list == plan.software.end() || std::ranges::find(list->second.values, value) != list->second.values.end();
}

std::vector<std::string> software_warnings(const Plan& plan) {
  std::vector<std::string> warnings;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    const auto list = plan.software.find(listed_as(key));
    if (list == plan.software.end() || !is_at_work(plan, key)) return;
    const std::string word = word_of(field);
    if (word.empty() || software_has(plan, list->first, word)) return;
    warnings.push_back(fmt::format("stack {} has no {} {}: it has {}", list->second.stack, key, word,
                                   fmt::join(list->second.values, ", ")));
  });
  return warnings;
}

std::vector<std::string> software_replacements(const Plan& plan) {
  std::vector<std::string> sentences;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    const auto place = plan.places.find(key);
    if (place == plan.places.end() || place->second.given.empty()) return;
    sentences.push_back(fmt::format("{} runs {} {} as {} on this GPU", place->second.implied_by, key,
                                    place->second.given, word_of(field)));
  });
  return sentences;
}

std::optional<Precision> attention_format(const Plan& plan) {
  if (plan.precision.attention == "bf16") return std::nullopt;
  return plan.precision.attention == "mxfp8" ? Precision::mxfp8 : Precision::fp8_tensor;
}

bool fuses_experts(const Plan& plan) {
  const Precision experts = plan.precision.experts.value_or(plan.precision.gemm);
  return (experts == Precision::mxfp8 || experts == Precision::nvfp4) &&
         std::ranges::find(plan.stack.fused, "experts") != plan.stack.fused.end();
}

}  // namespace plumbline::model
