#include "model/plan/alternative.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "model/base/text.h"
#include "model/plan/detail/plan_rules.h"
#include "model/plan/detail/value_text.h"
#include "model/plan/plan_fields.h"
#include "model/plan/software.h"

namespace plumbline::model {
namespace {

// A key of the software that plans leave open and that runs may have otherwise, unnoticed.
struct UsualValues {
  std::string_view key, name;
  std::array<std::string_view, 4> values;  // the likeliest first, empty after the last
  bool of_experts = false;                 // it decides nothing unless experts are on several ranks
};

constexpr UsualValues usual_of_training[] = {
    {"precision.gemm", "GEMMs in", {"mxfp8", "fp8", "fp8_tensor", "bf16"}},
    {"stack.dispatcher", "dispatcher", {"hybridep", "deepep", "alltoall"}, true},
    {"stack.dispatch_overlap", "overlap of dispatch", {"false", "true"}, true},
    {"stack.graphs", "CUDA graphs", {"partial", "full", "none"}},
    {"stack.fused", "fused kernels of experts", {"[\"router\", \"permute\"]", "[]"}},
    {"attention.kernel", "attention", {"cudnn", "flash3", "flash2"}},
    {"loss.kernel", "loss", {"fused", "unfused"}},
    {"recompute.policy", "recomputation", {"full", "none"}},
    {"overlap.communication_sms", "SMs of dispatch and combine", {"20", "0"}, true},
    {"overlap.gradient_reduce", "overlap of gradients", {"false", "true"}},
    {"overlap.parameter_gather", "overlap of parameters", {"false", "true"}},
    {"overlap.tensor", "overlap of tensor parallelism", {"true", "false"}},
};
constexpr UsualValues usual_of_serving[] = {
    {"inference.weights", "weights", {"bf16", "fp8"}},
    {"inference.kv_cache", "KV cache", {"fp8", "bf16"}},
    {"inference.two_micro_batches", "two micro-batches", {"true", "false"}},
};

std::string words_of(std::string_view, bool value) { return value ? "on" : "off"; }
std::string words_of(std::string_view key, const std::vector<std::string>& list) {
  for (const auto& [word, values] : list_words(key))
    if (values == list) return word;
  return word_of(list);
}
template <class T>
std::string words_of(std::string_view, const T& value) {
  return word_of(value);
}
template <class T>
std::string words_of(std::string_view key, const std::optional<T>& value) {
  return value ? words_of(key, *value) : "";
}

std::string words_of(const Plan& plan, std::string_view wanted) {
  std::string words;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    if (key == wanted) words = words_of(key, field);
  });
  return words;
}

bool is_open(const Plan& plan, std::string_view key) {
  const auto place = plan.places.find(key);
  return place == plan.places.end() || (!place->second.implied_by.empty() && place->second.given.empty());
}

void add_changes(const Plan& plan, const UsualValues& usual, std::vector<UsualChange>& changes) {
  const std::string now = words_of(plan, usual.key);
  const std::size_t warnings = software_warnings(plan).size();
  for (const std::string_view value : usual.values) {
    if (value.empty()) return;
    UsualChange change{usual.key, usual.name, now, {}, fmt::format("{}={}", usual.key, value), false, plan};
    if (!change_plan({change.setting}, change.plan)) continue;
    change.value = words_of(change.plan, usual.key);
    change.open = is_open(plan, usual.key);
    if (change.value != now && software_warnings(change.plan).size() <= warnings) changes.push_back(std::move(change));
  }
}

}  // namespace

std::map<std::string, std::string, std::less<>> plan_values(const Plan& plan) {
  std::map<std::string, std::string, std::less<>> values;
  std::string section;
  Plan plain = plan;
  for (auto& [key, place] : plain.places) place.implied_by.clear();  // to_toml() adds it as a comment
  const std::string all = to_toml(plain);
  for (const std::string_view line : lines_of(all)) {
    const std::size_t equals = line.find(" = ");
    if (line.starts_with('[')) section = std::string(line.substr(1, line.size() - 2));
    if (!line.starts_with('[') && !line.starts_with('#') && equals != std::string_view::npos)
      values[fmt::format("{}.{}", section, line.substr(0, equals))] = std::string(line.substr(equals + 3));
  }
  return values;
}

std::vector<UsualChange> usual_changes(const Plan& plan, SoftwareOf what) {
  std::vector<UsualChange> changes;
  using Keys = std::span<const UsualValues>;
  for (const UsualValues& usual : what == SoftwareOf::training ? Keys(usual_of_training) : Keys(usual_of_serving))
    if (!usual.of_experts || plan.parallelism.expert > 1) add_changes(plan, usual, changes);
  return changes;
}

}  // namespace plumbline::model
