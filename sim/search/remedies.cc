#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/memory/memory.h"
#include "model/plan/alternative.h"
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

// Returns the words that a search without words tries. Offloading trains the same; gradients and moments in BF16 do
// not, but are usual in fine-tunings. Training without master weights is an experiment that not all software has.
std::vector<std::string> usual_words(const Inputs& inputs) {
  std::vector<std::string> words = {"offload_optimizer", "offload_activations"};
  // A training of less than a token for each parameter does not begin at random weights.
  const std::optional<double> tokens = inputs.plan.run.tokens;
  if (tokens && *tokens < model::model_metrics(inputs.architecture, inputs.plan.batch.sequence_length).parameters)
    words.insert(words.end(), {"bf16_gradients", "bf16_moments"});
  return words;
}

// Returns those that change the plan where it was not asked to be as it is.
std::vector<Remedy> remedies_of(const Inputs& inputs) {
  std::vector<std::string> words = inputs.plan.search.remedies;
  if (words.empty()) words = usual_words(inputs);
  std::vector<Remedy> found;
  for (const std::string& word : words) {
    const auto* remedy = std::ranges::find(remedies, word, &Remedy::word);
    if (remedy == remedies.end()) continue;
    const std::string setting = remedy->setting;
    const bool free = !asked(inputs.plan, setting.substr(0, setting.find('=')).c_str());
    const bool on_gpu = word == "offload_optimizer" && inputs.plan.optimizer.kind == "muon";
    const bool possible = !on_gpu && (!word.starts_with("offload") || inputs.cluster.device.host_bandwidth.value() > 0);
    model::Plan changed = inputs.plan;
    const bool changes = possible && free && model::change_plan({setting}, changed) &&
                         model::to_toml(changed) != model::to_toml(inputs.plan);
    if (changes) found.push_back(*remedy);
  }
  return found;
}

bool was_removed(const ClusterOption& option, const char* rule) {
  return std::ranges::find(option.search.removed, rule, &Removed::rule) != option.search.removed.end();
}

// Tries sets of remedies, the words of the search one after another.
class RemedySearch {
 public:
  RemedySearch(const ClusterOption& option, const SearchOptions& options)
      : option_(option), options_(options), remedies_(remedies_of(option.inputs)), tried_{0} {
    for (std::size_t i = 0; i < remedies_.size(); ++i)
      if (remedies_[i].word.starts_with("offload")) on_host_ |= bit(i);
  }

  // Returns the option with the first set that helps, or was not searched to its end; nothing: none helps.
  model::Result<std::optional<ClusterOption>> run() {
    for (std::size_t count = 1; count <= remedies_.size(); ++count)
      for (const Set set : sets(count)) {
        if (!tried_.insert(set).second || is_refused(set)) continue;
        ClusterOption found = TRY(with(set));
        if (!found.plans.empty()) return with_fewest(all(count), set, std::move(found));
        if (!found.search.complete) return found;
        note_hosts(set, found);
      }
    return std::nullopt;
  }

  // Returns the notes of an option that no set helps.
  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    const Set left = add_refusals(all(remedies_.size()), notes);
    if (left != 0) notes.push_back(fmt::format("no plan fits in memory with {}", fmt::join(settings(left), ", ")));
    return notes;
  }

 private:
  using Set = unsigned;  // bit i: remedies_[i]

  static Set bit(std::size_t i) { return Set{1} << i; }
  static Set all(std::size_t count) { return bit(count) - 1; }

  model::Result<ClusterOption> with(Set set) const {
    ClusterOption found = option_;
    found.error.reset();
    TRY(model::change_plan(settings(set), found.inputs.plan));
    TRY(search_option(found, options_));
    return found;
  }

  // Leaves out of a set that helps what need not be offloaded with the others, and adds the notes.
  model::Result<std::optional<ClusterOption>> with_fewest(Set looked_at, Set set, ClusterOption found) {
    for (std::size_t i = 0; i < remedies_.size() && found.search.complete; ++i) {
      const Set less = set & ~(bit(i) & on_host_);
      if (less == set || !tried_.insert(less).second) continue;
      ClusterOption other = TRY(with(less));
      if (other.plans.empty()) continue;
      found = std::move(other);
      set = less;
    }
    add_notes(looked_at, set, found.notes);
    return found;
  }

  std::vector<std::string> settings(Set set) const {
    std::vector<std::string> found;
    for (std::size_t i = 0; i < remedies_.size(); ++i)
      if ((set & bit(i)) != 0) found.emplace_back(remedies_[i].setting);
    return found;
  }

  // Returns the first `count` remedies, each on top of those before. Where hosts refused plans, what is offloaded may
  // be left out of them, and the fewest remedies come first.
  std::vector<Set> sets(std::size_t count) const {
    if (!hosts_refuse_) return {all(count)};
    std::vector<Set> found;
    for (Set set = 0; set <= all(count); ++set)
      if ((set | on_host_) == (all(count) | on_host_)) found.push_back(set);
    std::ranges::stable_sort(found, {}, [](Set set) { return std::popcount(set); });
    return found;
  }

  // Returns whether hosts refused a set with the same formats that offloads no more.
  bool is_refused(Set set) const {
    return std::ranges::any_of(
        refused_, [&](Set known) { return (set & known) == known && (set | on_host_) == (known | on_host_); });
  }

  // A set is refused where none of its plans fails but for the hosts.
  void note_hosts(Set set, const ClusterOption& found) {
    const auto refused = [&](const RankedPlan& plan) {
      const model::Memory& memory = plan.result.memory;
      return model::fits_on_host(memory.host_bytes, memory.host_capacity_bytes) < found.inputs.plan.search.min_fit;
    };
    if (!was_removed(found, host_rule) && std::ranges::none_of(found.edge, refused)) return;
    hosts_refuse_ = true;
    if (!was_removed(found, gpu_rule) && std::ranges::all_of(found.edge, refused)) refused_.push_back(set);
  }

  // Adds what hosts refused of a set: the last that it offloads of each refused one. Returns the others.
  Set add_refusals(Set set, std::vector<std::string>& notes) const {
    Set left = set;
    for (std::size_t i = 0; i < remedies_.size(); ++i) {
      const auto is_last = [&](Set known) { return std::bit_floor(known & on_host_) == bit(i); };
      if ((set & bit(i)) == 0 || std::ranges::none_of(refused_, is_last)) continue;
      notes.push_back(fmt::format("the hosts do not hold what {} puts there", remedies_[i].setting));
      left &= ~bit(i);
    }
    return left;
  }

  void add_notes(Set looked_at, Set helps, std::vector<std::string>& notes) const {
    add_refusals(looked_at & ~helps, notes);
    notes.push_back(fmt::format("no plan fits in memory without {}", fmt::join(settings(helps), ", ")));
  }

  const ClusterOption& option_;
  const SearchOptions& options_;
  std::vector<Remedy> remedies_;
  Set on_host_ = 0;            // those that offload
  std::set<Set> tried_;        // the empty one is the option as it was asked for
  std::vector<Set> refused_;   // by hosts
  bool hosts_refuse_ = false;  // some plans of a set
};

}  // namespace

model::Result<void> search_with_remedies(ClusterOption& option, const SearchOptions& options) {
  TRY(search_option(option, options));
  if (!option.search.complete || option.search.space == 0 || !option.plans.empty()) return {};
  RemedySearch tries(option, options);
  auto found = TRY(tries.run());
  if (!found) {
    std::ranges::move(tries.notes(), std::back_inserter(option.notes));
  } else if (!found->plans.empty()) {
    found->edge.insert(found->edge.begin(), option.edge.begin(), option.edge.end());
    keep_edge(*found);
    option = std::move(*found);
  }
  return {};
}

}  // namespace plumbline::sim
