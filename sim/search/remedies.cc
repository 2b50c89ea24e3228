#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/plan/plan_change.h"
#include "sim/search/cluster_option.h"

namespace plumbline::sim {
namespace {

// A word of search.remedies and what it sets.
struct Remedy {
  std::string_view word;
  const char* setting;
};
constexpr std::array<Remedy, 5> remedies = {{{"offload_optimizer", "offload.optimizer=true"},
                                             {"offload_activations", "offload.activations=1.0"},
                                             {"bf16_moments", "precision.optimizer_moments=bf16"},
                                             {"bf16_gradients", "precision.gradients=bf16"},
                                             {"bf16_master_weights", "precision.master_weights=bf16"}}};

// A training of less than a token for each parameter does not begin at random weights.
bool is_fine_tuning(const Inputs& inputs) {
  const model::Plan& plan = inputs.plan;
  return plan.run.tokens &&
         *plan.run.tokens < model::model_metrics(inputs.architecture, plan.batch.sequence_length).parameters;
}

// Returns the words that a search without words tries. Offloading trains the same; gradients and moments in BF16 do
// not, but are usual in fine-tunings. Training without master weights is an experiment that not all software has.
std::vector<std::string> usual_words(const Inputs& inputs) {
  std::vector<std::string> words = {"offload_optimizer", "offload_activations"};
  if (is_fine_tuning(inputs)) words.insert(words.end(), {"bf16_gradients", "bf16_moments"});
  return words;
}

std::vector<Remedy> remedies_of(const Inputs& inputs) {
  std::vector<std::string> words = inputs.plan.search.remedies;
  if (words.empty()) words = usual_words(inputs);
  std::vector<Remedy> found;
  for (const std::string& word : words) {
    const auto* remedy = std::ranges::find(remedies, word, &Remedy::word);
    if (remedy == remedies.end()) continue;
    const std::string setting = remedy->setting;
    const bool free = !asked(inputs.plan, setting.substr(0, setting.find('=')).c_str());
    const bool possible = !word.starts_with("offload") || inputs.cluster.device.host_bandwidth.value() > 0;
    if (possible && free) found.push_back(*remedy);
  }
  return found;
}

bool refused_by_hosts(const ClusterOption& option) {
  return std::ranges::find(option.search.removed, host_rule, &Removed::rule) != option.search.removed.end();
}

bool in_vain(const ClusterOption& option) {
  return option.search.complete && option.search.space > 0 && option.plans.empty();
}

}  // namespace

model::Result<void> search_with_remedies(ClusterOption& option, const SearchOptions& options) {
  TRY(search_option(option, options));
  if (!in_vain(option)) return {};
  ClusterOption tried = option;
  std::vector<std::string> made;
  for (const Remedy& remedy : remedies_of(option.inputs)) {
    const model::Plan before = tried.inputs.plan;
    TRY(model::change_plan({remedy.setting}, tried.inputs.plan));
    if (model::to_toml(tried.inputs.plan) == model::to_toml(before)) continue;
    tried.error.reset();
    TRY(search_option(tried, options));
    const bool vain = in_vain(tried);
    if (vain && refused_by_hosts(tried)) {
      tried.inputs.plan = before;
      for (ClusterOption* one : {&option, &tried})
        one->notes.push_back(fmt::format("the hosts do not hold what {} puts there", remedy.setting));
      continue;
    }
    made.emplace_back(remedy.setting);
    if (!vain) break;
  }
  if (made.empty()) return {};
  const bool helped = !tried.plans.empty();
  if (!helped && !tried.search.complete) return {};
  if (helped) {
    tried.edge.insert(tried.edge.begin(), option.edge.begin(), option.edge.end());
    option = std::move(tried);
  }
  option.notes.push_back(
      fmt::format("no plan fits in memory {} {}", helped ? "without" : "with", fmt::join(made, ", ")));
  return {};
}

}  // namespace plumbline::sim
