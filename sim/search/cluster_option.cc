#include "sim/search/cluster_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/base/bytes.h"
#include "model/base/data_type.h"
#include "model/base/text.h"
#include "model/memory/memory.h"
#include "model/plan/alternative.h"
#include "model/plan/software.h"
#include "model/result/result.h"
#include "sim/interval/interval.h"
#include "sim/predict/cost_models.h"
#include "sim/search/detail/plan_draws.h"
#include "sim/tasks/inputs_key.h"

namespace plumbline::sim {
namespace {

using model::Result;

// Parses NAME[@GPUS][:PROFILE]; gpus is 0 where no size is named.
Result<ClusterChoice> choice_of(const std::string& text) {
  const auto refuse = [&] {
    return model::wrong_input("--cluster", fmt::format("'{}' is not NAME[@GPUS][:PROFILE]", text),
                              "for example --cluster h800-rail-fat-tree,h100-dgx@1024:h100-torch");
  };
  ClusterChoice choice;
  const std::size_t colon = std::min(text.rfind(':'), text.rfind(":scaled:"));  // of a profile scaled:NAME
  choice.cluster = text.substr(0, colon);
  if (colon != std::string::npos) choice.profile = text.substr(colon + 1);
  if (colon != std::string::npos && choice.profile.empty()) return refuse();
  const std::size_t at = choice.cluster.rfind('@');
  const bool sized = at != std::string::npos && choice.cluster.find('/', at) == std::string::npos;
  if (sized) {
    choice.gpus = model::parse_number<std::int64_t>(std::string_view(choice.cluster).substr(at + 1)).value_or(0);
    if (choice.gpus < 1) return refuse();
    choice.cluster.resize(at);
  }
  if (choice.cluster.empty()) return refuse();
  return choice;
}

// Parses CLUSTER:GPUS[@USD_PER_GPU_HOUR[:PROFILE]].
Result<ClusterChoice> offer_of(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    return model::wrong_input("--offer",
                              fmt::format("'{}' is not CLUSTER:GPUS[@USD_PER_GPU_HOUR[:PROFILE]]: {}", text, why),
                              "for example --offer h200-hgx:512@2.60, or h100-dgx:1024@1.95:h100-torch");
  };
  const std::size_t at = text.rfind('@');
  const std::string place = text.substr(0, at);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos) return refuse("it names no number of GPUs");
  if (colon == 0) return refuse("it names no cluster");
  const std::string size = place.substr(colon + 1);
  const auto gpus = model::parse_number<std::int64_t>(size);
  if (!gpus || *gpus < 1) return refuse(fmt::format("'{}' is no number of GPUs", size));
  ClusterChoice choice{place.substr(0, colon), "", *gpus, true, {}};
  if (at == std::string::npos) return choice;
  const std::string terms = text.substr(at + 1);
  const std::size_t second = terms.find(':');
  const std::string price = terms.substr(0, second);
  choice.usd_per_gpu_hour = model::parse_number<double>(price);
  if (!choice.usd_per_gpu_hour || !std::isfinite(*choice.usd_per_gpu_hour) || *choice.usd_per_gpu_hour <= 0)
    return refuse(fmt::format("'{}' is no price above 0 of a GPU-hour", price));
  constexpr double most_usd = 1e6;  // as of run.price_usd_per_gpu_hour
  if (*choice.usd_per_gpu_hour > most_usd)
    return refuse(fmt::format("'{}' is more than {} USD for a GPU-hour", price, most_usd));
  if (second == std::string::npos) return choice;
  choice.profile = terms.substr(second + 1);
  if (choice.profile.empty()) return refuse("it names no profile after its price");
  return choice;
}

// Returns the sizes of a cluster: its own, or all of `gpus`.
Result<std::vector<std::int64_t>> sizes_of(const ClusterChoice& choice, const std::vector<std::int64_t>& gpus) {
  if (choice.gpus == 0) return gpus.empty() ? std::vector<std::int64_t>{0} : gpus;
  if (!gpus.empty() && std::ranges::find(gpus, choice.gpus) == gpus.end())
    return model::wrong_input(
        "--cluster", fmt::format("{}@{} contradicts --gpus {}", choice.cluster, choice.gpus, fmt::join(gpus, ",")),
        "leave --gpus out, or give it that size too");
  return std::vector{choice.gpus};
}

using model::Error;
using model::ErrorKind;
using model::Precision;

constexpr const char* price_key = "run.price_usd_per_gpu_hour";

// Returns the recipe's plan for this cluster. Keys from options of the command line have the place "--set".
Result<model::Plan> plan_of(const Recipe& recipe, const ClusterChoice& choice,
                            const std::vector<std::string>& overrides) {
  std::vector<std::string> changes;
  if (!choice.cluster.empty()) changes.push_back("cluster.topology=" + model::toml_string(choice.cluster));
  if (choice.gpus > 0) changes.push_back(fmt::format("cluster.gpus={}", choice.gpus));
  if (!choice.profile.empty()) changes.push_back("cluster.profile=" + model::toml_string(choice.profile));
  if (choice.usd_per_gpu_hour) {
    changes.push_back(fmt::format("{}={}", price_key, *choice.usd_per_gpu_hour));
    changes.emplace_back("run.ownership=rent");
  }
  changes.insert(changes.end(), overrides.begin(), overrides.end());
  auto plan = model::read_plan(recipe.text, recipe.path, changes);
  if (plan) return plan;
  Error error = plan.error();
  const auto missing = [&](const char* key, bool given, const char* option, const char* what, const char* hint) {
    if (error.key == key && error.line == 0 && !given) error = Error{ErrorKind::input, what, "", 0, option, hint};
  };
  missing("cluster.topology", !choice.cluster.empty(), "--cluster", "no cluster is named",
          "give --cluster NAME[,NAME...], or --offer NAME:GPUS@USD_PER_GPU_HOUR");
  missing("cluster.gpus", choice.gpus > 0, "--gpus", "no number of GPUs is given", "give --gpus N[,N...]");
  return tl::unexpected(error);
}

// Resets keys that the plan sets for another cluster, and the stack that is the default there.
void forget_other_cluster(const Recipe& recipe, const LoadInputs& load, model::Plan& plan,
                          std::vector<std::string>& notes) {
  const auto own = model::read_plan(recipe.text, recipe.path, {});
  if (!own || own->cluster.topology == plan.cluster.topology) return;
  if (own->stack.name && !asked(plan, "stack.name")) {
    model::Plan unstated = *own;
    unstated.stack.name.reset();
    const auto loaded = load(unstated);
    if (loaded && loaded->profile.stack() == *own->stack.name)
      plan.stack.name.reset();
    else
      notes.push_back(fmt::format("stack.name stays {}, as the plan states it", *own->stack.name));
  }
  for (const std::string& key : forget_cluster(plan))
    notes.push_back(fmt::format("{} is that of {} and does not hold here", key, own->cluster.topology));
}

// Replaces quantized formats that the device or the software lacks by BF16, but where they were asked for.
void avoid_lacking_formats(Inputs& inputs, std::vector<std::string>& notes) {
  const model::Device& device = inputs.cluster.device;
  const auto replace = [&](const char* key, Precision& precision) {
    if (!is_quantized(precision) || asked(inputs.plan, key)) return;
    const std::string format(to_string(precision));
    if (!model::has_format(device, precision)) {
      notes.push_back(fmt::format("{} is bf16: {} has no {}", key, device.name, format));
    } else if (!model::software_has(inputs.plan, key, format)) {
      notes.push_back(
          fmt::format("{} is bf16: stack {} has no {}", key, inputs.plan.software.find(key)->second.stack, format));
    } else {
      return;
    }
    precision = Precision::bf16;
  };
  replace("precision.gemm", inputs.plan.precision.gemm);
  replace("precision.dispatch", inputs.plan.precision.dispatch);
  replace("precision.combine", inputs.plan.precision.combine);
  if (inputs.plan.inference.given) replace("inference.weights", inputs.plan.inference.weights);
  std::string& head = inputs.plan.precision.head;
  if (head != "bf16" && inputs.plan.precision.gemm != Precision::mxfp8 && !asked(inputs.plan, "precision.head")) {
    head = "bf16";
    notes.push_back("precision.head is bf16, as GEMMs are not in mxfp8");
  }
  std::string& attention = inputs.plan.precision.attention;
  const auto format = model::attention_format(inputs.plan);
  if (!format || asked(inputs.plan, "precision.attention")) return;
  const bool known = std::ranges::any_of(inputs.profile.parameters(), [&](const model::Parameter& parameter) {
    return parameter.name == fmt::format("attention.{}.forward_rate", attention);
  });
  if (known && model::has_format(device, *format)) return;
  notes.push_back(fmt::format("precision.attention is bf16: {} has no {}",
                              known ? device.name : "profile " + inputs.profile.name(), attention));
  attention = "bf16";
}

model::Error placed(model::Error error, const ClusterChoice& choice) {
  if (error.key == "cluster.gpus" && choice.gpus > 0) error.file = choice.offered ? "--offer" : "--gpus";
  const bool cluster = error.key == "cluster.topology" || error.key == "cluster.profile";
  if (cluster && !choice.cluster.empty()) error.file = choice.offered ? "--offer" : "--cluster";
  return error;
}

// What a draw adds to a plan that was found.
struct Drawn {
  model::PredictionInterval interval;
  std::vector<double> time_draws, price_draws;
};

// Each plan is a task. Those of a search that was stopped are drawn here, since no other run has the same.
Result<void> draw_plans(const ClusterOption& option, const SearchOptions& options, std::vector<RankedPlan>& plans) {
  std::uint64_t key = model::hash_of(bytes_of(option.inputs));
  for (const RankedPlan& found : plans)
    key = model::hash_of(model::to_bytes(model::to_toml(found.plan), found.cost.step_s), key);
  const auto draw = [&](std::size_t i) -> Result<std::string> {
    Inputs own = option.inputs;
    own.plan = plans[i].plan;
    model::StepResult result = plans[i].result;
    PlanCost cost;
    TRY(draw_plan(own, options.threads, result, cost));
    return model::to_bytes(Drawn{std::move(*result.interval), std::move(cost.time_draws), std::move(cost.price_draws)});
  };
  Tasks& tasks = option.search.complete ? *options.tasks : local_tasks();
  const auto results = TRY(on_threads(options.threads, [&] {
    return tasks.run({.key = fmt::format("draws {:016x}", key), .count = plans.size(), .run = draw});
  }));
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto drawn = model::from_bytes<Drawn>(results[i]);
    if (!drawn) return model::infeasible("", "draws of a plan are damaged", "search without --resume");
    RankedPlan& found = plans[i];
    found.result.interval = std::move(drawn->interval);
    found.cost = cost_of(option, found.result);
    found.cost.time_draws = std::move(drawn->time_draws);
    found.cost.price_draws = std::move(drawn->price_draws);
  }
  return {};
}

void sort_by_step(std::vector<RankedPlan>& plans) {
  std::ranges::stable_sort(plans, {}, [](const RankedPlan& found) { return found.cost.step_s; });
}

// Adds a plan, or counts it as the twin of one that is there.
void add_plan(RankedPlan plan, std::vector<RankedPlan>& plans) {
  const auto twin =
      std::ranges::find_if(plans, [&](const RankedPlan& known) { return are_twins(known.result, plan.result); });
  if (twin == plans.end()) return plans.push_back(std::move(plan));
  ++twin->twins;
}

// What simulate_found() makes of the plans of a search.
struct SimulatedPlans {
  std::vector<RankedPlan> plans, edge;  // those that fit with search.min_fit, and those that may fit
  std::size_t failing = 0;              // of those that the search took for sure, how many fit with less
};

// Simulates plans and adds those that do not hardly fit to `found`; `refusal` has the reason of the last that could not
// be predicted. Returns the least that a step took, in units of the search's estimate (1e9: no plan was predicted).
double add_simulated(const ClusterOption& option, std::span<const Candidate> candidates, bool sure,
                     SimulatedPlans& found, std::optional<Error>& refusal) {
  std::vector<model::Plan> plans;
  for (const Candidate& candidate : candidates) {
    plans.push_back(candidate.plan);
    plans.back().search = {};  // a setting of the search, not of the found plan
  }
  auto simulations = simulate_top_plans(option.inputs, plans);
  const double least = option.inputs.plan.search.min_fit;
  double least_ratio = 1e9;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    auto& simulation = simulations[i];
    if (!simulation) {
      refusal = simulation.error();
      continue;
    }
    model::Memory& memory = simulation->result.memory;
    Inputs own = option.inputs;
    own.plan = plans[i];
    if (memory.fits) add_fit(own, memory);
    const double fit = memory.fits ? *memory.fits_probability : 0;
    if (sure && fit < least) ++found.failing;
    const PlanCost cost = cost_of(option, simulation->result);
    least_ratio = std::min(least_ratio, cost.step_s / candidates[i].estimate.step.time_s);
    if (!memory.fits || fit < std::min(model::hardly_fits, least)) continue;
    add_plan({std::move(plans[i]), std::move(simulation->result), cost}, fit >= least ? found.plans : found.edge);
  }
  sort_by_step(found.plans);
  sort_by_step(found.edge);
  return least_ratio;
}

// The number of plans that are simulated after a stop, so that the user does not wait for all.
constexpr std::size_t when_stopped = 3;

// Simulates the first `top` candidates and those at the edge, and of as many others those that would be among the first
// if the simulation were as kind to them as to the kindest of these; after a stop only the first few.
SimulatedPlans simulate_found(const ClusterOption& option, const SearchResult& search, std::size_t top,
                              std::optional<Error>& refusal) {
  SimulatedPlans found;
  const std::span<const Candidate> best = search.best;
  const std::size_t count = search.complete ? top : std::min(top, when_stopped);
  const std::span<const Candidate> first = best.first(std::min(count, best.size()));
  const double ratio = add_simulated(option, first, true, found, refusal);
  if (!search.complete) return found;
  add_simulated(option, std::span(search.edge).first(std::min(most_at_edge, search.edge.size())), false, found,
                refusal);
  std::span<const Candidate> others = best.subspan(first.size(), std::min(top, best.size() - first.size()));
  if (found.plans.size() >= top) {
    const double slowest = found.plans[top - 1].cost.step_s;
    const auto slower = std::ranges::find_if(
        others, [&](const Candidate& candidate) { return candidate.estimate.step.time_s * ratio >= slowest; });
    others = others.first(static_cast<std::size_t>(slower - others.begin()));
  }
  add_simulated(option, others, true, found, refusal);
  return found;
}

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

Result<std::vector<ClusterChoice>> cluster_choices(const std::vector<std::string>& clusters,
                                                   const std::vector<std::int64_t>& gpus,
                                                   const std::vector<std::string>& offers) {
  std::vector<ClusterChoice> choices;
  if (!offers.empty() && (!clusters.empty() || !gpus.empty()))
    return model::wrong_input("--offer",
                              "an offer names its cluster and its size, so that --cluster and --gpus have "
                              "no meaning",
                              "leave these out: a cluster with its own price is --offer NAME:GPUS");
  for (const std::int64_t size : gpus)
    if (size < 1)
      return model::wrong_input("--gpus", fmt::format("{} GPUs train nothing", size),
                                "give numbers from 1 on: --gpus 1024,2048");
  std::vector<ClusterChoice> named;
  for (const std::string& text : offers) named.push_back(TRY(offer_of(text)));
  for (const std::string& text : clusters) named.push_back(TRY(choice_of(text)));
  if (named.empty()) named.emplace_back();
  for (ClusterChoice choice : named) {
    for (const std::int64_t size : TRY(sizes_of(choice, gpus))) {
      choice.gpus = size;
      if (std::ranges::find(choices, choice) == choices.end()) choices.push_back(choice);
    }
  }
  return choices;
}

Result<ClusterOption> load_option(const Recipe& recipe, const ClusterChoice& choice,
                                  const std::vector<std::string>& overrides, const LoadInputs& load) {
  auto plan = plan_of(recipe, choice, overrides);
  if (!plan) return tl::unexpected(placed(plan.error(), choice));
  ClusterOption option;
  forget_other_cluster(recipe, load, *plan, option.notes);
  auto inputs = load(*plan);
  if (!inputs) return tl::unexpected(placed(inputs.error(), choice));
  option.inputs = std::move(*inputs);
  const std::size_t notes = option.notes.size();
  avoid_lacking_formats(option.inputs, option.notes);
  if (option.notes.size() > notes) option.inputs = TRY(load(option.inputs.plan));  // what is left depends on the format
  add_memos(option.inputs);
  option.cluster = option.inputs.cluster.name;
  option.gpus = plan->cluster.gpus;
  option.offered_usd = choice.usd_per_gpu_hour;
  return option;
}

PlanCost cost_of(const ClusterOption& option, const model::StepResult& result) {
  PlanCost cost;
  cost.gpus = static_cast<double>(option.gpus);
  cost.step_s = model::middle_step(result).time_s;
  if (!result.run) return cost;
  const model::RunCost run = *model::middle_run(result);
  cost.days = run.days;
  cost.gpu_hours = run.gpu_hours;
  cost.usd = run.cost_usd;
  return cost;
}

void keep_edge(ClusterOption& option) {
  sort_by_step(option.edge);
  std::erase_if(option.edge, [&](const RankedPlan& plan) {
    return !option.plans.empty() && plan.cost.step_s >= option.plans.front().cost.step_s;
  });
  option.edge.resize(std::min(option.edge.size(), most_at_edge));
}

Result<void> search_option(ClusterOption& option, const SearchOptions& options) {
  std::optional<Error> refusal;
  // The rows of experts and the libraries widen what is left of peaks, so that plans that the search takes for sure may
  // not be: it looks again for smaller ones, and keeps what it found if there are no more of them.
  constexpr double tighter = 0.92, tightest = 0.7;
  for (double share = 1; share > tightest; share *= tighter) {
    SearchOptions own = options;
    own.sure_share = share;
    auto found = search(option.inputs, own);
    if (!found) {
      if (found.error().kind == model::ErrorKind::input) return tl::unexpected(found.error());
      option.error = found.error();
      return {};
    }
    const bool complete = found->complete;
    SimulatedPlans simulated = simulate_found(option, *found, options.top, refusal);
    const bool enough = simulated.failing == 0 || simulated.plans.size() >= options.top;
    if (share == 1 || simulated.plans.size() > option.plans.size()) {
      option.search = std::move(*found);
      option.plans = std::move(simulated.plans);
      option.edge = std::move(simulated.edge);
    }
    option.search.complete = option.search.complete && complete;
    if (!complete || enough) break;
  }
  if (!option.search.complete)
    option.notes.push_back(
        fmt::format("the search was stopped: of what it had found until then, at most {} plans are simulated and "
                    "compared, the fastest by their closed forms",
                    std::min(options.top, when_stopped)));
  option.plans.resize(std::min(option.plans.size(), options.top));
  keep_edge(option);
  for (std::vector<RankedPlan>* const plans : {&option.plans, &option.edge}) {
    TRY(draw_plans(option, options, *plans));
    sort_by_step(*plans);
  }
  keep_edge(option);
  if (option.plans.empty())
    option.error = refusal;
  else
    std::ranges::copy(option.plans.front().result.warnings, std::back_inserter(option.notes));
  return {};
}

model::Known<model::HourlyPrice> price_of(const ClusterOption& option) {
  auto price = model::hourly_price(option.inputs.plan, option.inputs.cluster);
  if (option.offered_usd && price.value) price.value->source = "offered";
  return price;
}

bool asked(const model::Plan& plan, const char* key) {
  const auto place = plan.places.find(key);
  return place != plan.places.end() && place->second.file == "--set";
}

std::vector<std::string> forget_cluster(model::Plan& plan) {
  std::vector<std::string> forgotten;
  const auto forget = [&](const char* key, auto& field) {
    if (!field || asked(plan, key)) return;
    field.reset();
    forgotten.emplace_back(key);
  };
  forget("cluster.profile", plan.cluster.profile);
  forget("cluster.device", plan.cluster.device);
  forget("cluster.power_limit_w", plan.cluster.power_limit_w);
  forget("cluster.nics_per_node", plan.cluster.nics_per_node);
  forget("cluster.nic_gbps", plan.cluster.nic_gbps);
  forget("cluster.oversubscription", plan.cluster.oversubscription);
  forget("cluster.placement", plan.cluster.placement);
  forget("cluster.domain_gpus", plan.cluster.domain_gpus);
  forget("cluster.host_speed", plan.cluster.host_speed);
  forget(price_key, plan.run.price_usd_per_gpu_hour);
  return forgotten;
}

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
