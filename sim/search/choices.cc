#include "sim/search/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <utility>

#include "model/architecture/load_architecture.h"
#include "model/architecture/metrics.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/plan/layout.h"
#include "model/plan/software.h"
#include "model/schedule/schedule.h"
#include "sim/search/recipe.h"

namespace plumbline::sim {
namespace {

using Values = std::vector<std::int64_t>;

// The default values of a breadth; a list in [search] may have others.
struct Defaults {
  std::int64_t shortest_piece;  // tokens of a sequence on one context rank
  Values zero_stages, chunks, communication_sms;
  std::vector<std::string> recompute;  // empty: all words
  std::vector<std::string> split;
};

const Defaults& defaults(Breadth breadth) {
  static const Defaults quick = {
      2048, {1, 3}, {1, 2, 4}, {16, 20}, {"none", "selective", "full", "given"}, {"even", "balanced", "given"}};
  static const Defaults complete = {1024,
                                    {0, 1, 2, 3},
                                    {1, 2, 3, 4, 6, 8},
                                    {0, 8, 12, 16, 20, 24, 32},
                                    {},
                                    {"even", "first-1", "last-1", "last-2", "ends-1", "balanced", "given"}};
  return breadth == Breadth::quick ? quick : complete;
}

void sort_unique(Values& values) {
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
}

// Returns the given list, or else the defaults and the plan's own value.
Values chosen(const Values& given, Values defaults, std::int64_t own) {
  Values values = given;
  if (given.empty()) {
    values = std::move(defaults);
    values.push_back(own);
  }
  sort_unique(values);
  return values;
}

Values powers_of_two(std::int64_t most) {
  Values values;
  for (std::int64_t value = 1; value <= std::max<std::int64_t>(1, most); value *= 2) values.push_back(value);
  return values;
}

Values divisors(std::int64_t whole, std::int64_t most) {
  Values values;
  for (std::int64_t value = 1; value <= std::min(whole, most); ++value)
    if (whole % value == 0) values.push_back(value);
  return values;
}

std::vector<std::string> cheap_operators(const Inputs& inputs) {
  const model::Architecture& model = inputs.architecture;
  std::vector<std::string> words = {"rmsnorm"};
  if (model.attention == model::AttentionKind::multi_head_latent) words.emplace_back("mla_up_projection");
  words.emplace_back("swiglu");
  if (inputs.plan.attention.kernel == "unfused") words.emplace_back("core_attention");
  model::Plan plan = inputs.plan;
  plan.recompute.policy = "selective";
  std::erase_if(words, [&](const std::string& word) {
    plan.recompute.operators = {word};
    return !model::recomputes(plan, model);
  });
  return words;
}

std::vector<Recomputation> all_recomputations(const Inputs& inputs) {
  const model::Architecture& model = inputs.architecture;
  const std::vector<std::string> only = model::selective_operators(inputs.plan);
  std::vector<std::string> operators = only.empty() ? cheap_operators(inputs) : only;
  std::vector<Recomputation> all;
  all.push_back({"none", "none", {}, {}, false});
  all.push_back({"selective", "selective", operators, {}, false});
  operators.emplace_back("mlp");
  if (model.has_dense_mlp() && only.empty()) all.push_back({"mlp", "selective", operators, {}, false});
  operators.emplace_back("moe");
  if (model.experts.routed_experts > 0 && only.empty()) all.push_back({"moe", "selective", operators, {}, false});
  all.push_back({"half", "full", {}, {}, true});
  all.push_back({"full", "full", {}, {}, false});
  return all;
}

bool same(const Recomputation& one, const Recomputation& other) {
  const bool operators = one.policy != "selective" || one.operators == other.operators;
  return one.policy == other.policy && operators && one.layers == other.layers && one.half == other.half;
}

std::vector<Recomputation> recomputations(const Inputs& inputs, Breadth breadth) {
  const auto& own = inputs.plan.recompute;
  const auto& given_words = inputs.plan.search.recompute;
  const auto& words = given_words.empty() ? defaults(breadth).recompute : given_words;
  const auto wanted = [&](const std::string& word) {
    return words.empty() || std::ranges::find(words, word) != words.end();
  };
  std::vector<Recomputation> found;
  for (Recomputation& one : all_recomputations(inputs))
    if (wanted(one.word)) found.push_back(std::move(one));
  Recomputation given{"given", own.policy, own.operators, own.layers, false};
  const auto known = [&](const Recomputation& one) { return same(one, given); };
  if (wanted("given") && std::ranges::none_of(found, known)) found.push_back(std::move(given));
  std::erase_if(found, [&, plan = inputs.plan](const Recomputation& one) mutable {
    one.apply(plan, 1);
    return !model::recomputes(plan, inputs.architecture);
  });
  // Software that refuses whole layers with a schedule runs the first choice, if any.
  std::ranges::stable_partition(found, [](const Recomputation& one) { return one.policy != "full"; });
  return found;
}

// Returns the given stages, or else those of the defaults. One that the software lacks stands for the next one that it
// has: PyTorch's FSDP shards gradients with the optimizer's states.
Values zero_stages(const model::Plan& plan, Breadth breadth) {
  const Values& given = plan.search.zero_stage;
  Values stages = chosen(given, defaults(breadth).zero_stages, plan.parallelism.zero_stage);
  if (!given.empty()) return stages;
  Values had = defaults(Breadth::complete).zero_stages, result;
  std::erase_if(had, [&](std::int64_t stage) {
    return !model::software_has(plan, "parallelism.zero_stage", std::to_string(stage));
  });
  if (had.empty()) return stages;
  for (const std::int64_t stage : stages) {
    const auto next = std::ranges::lower_bound(had, stage);
    const std::int64_t value = next == had.end() ? had.back() : *next;
    if (std::ranges::find(result, value) == result.end()) result.push_back(value);
  }
  return result;
}

struct Fewer {  // layers that the first and the last stage have less than the others
  const char* word;
  std::int64_t first, last;
};
constexpr std::array<Fewer, 5> fewer = {
    {{"even", 0, 0}, {"first-1", 1, 0}, {"last-1", 0, 1}, {"last-2", 0, 2}, {"ends-1", 1, 1}}};

Values layer_counts(std::int64_t layers, std::int64_t stages, const Fewer& ends) {
  Values counts = model::even_layer_counts(layers + ends.first + ends.last, stages);
  counts.front() -= ends.first;
  counts.back() -= ends.last;
  return counts;
}

// Returns whether every stage holds layers; `ends` may do with the embedding or the head.
bool filled(const Values& counts, bool ends) {
  const auto stages = static_cast<std::int64_t>(counts.size());
  for (std::int64_t stage = 0; stage < stages; ++stage)
    if (counts[static_cast<std::size_t>(stage)] < (ends ? model::fewest_layers(stage, stages) : 1)) return false;
  return true;
}

namespace fs = std::filesystem;
using model::Result;

// Returns the file's statements: "# Published: ..." and "# Assumed: ...".
std::vector<std::string> stated(const std::string& text) {
  std::vector<std::string> sentences;
  for (const std::string_view line : model::lines_of(text)) {
    if (line.starts_with("# Published: ")) sentences.push_back(fmt::format("published: {}", line.substr(13)));
    if (line.starts_with("# Assumed: ")) sentences.push_back(fmt::format("assumed: {}", line.substr(11)));
  }
  return sentences;
}

std::int64_t odd_part(std::int64_t value) {
  while (value > 0 && value % 2 == 0) value /= 2;
  return value;
}

}  // namespace

void Recomputation::apply(model::Plan& plan, std::int64_t half_of_a_stage) const {
  plan.recompute.policy = policy;
  plan.recompute.operators = operators;
  plan.recompute.layers = half ? std::optional(half_of_a_stage) : layers;
}

Choices::Choices(const Inputs& inputs, Breadth breadth) : inputs_(inputs), breadth_(breadth) {
  const model::Plan& plan = inputs.plan;
  const model::MixtureOfExperts& experts = inputs.architecture.experts;
  const std::int64_t node = inputs.cluster.gpus_per_node;
  const bool moe = experts.routed_experts > 0;
  const auto& own = plan.parallelism;
  tensor = chosen(plan.search.tensor, powers_of_two(node), own.tensor);
  using model::Parallelism;
  const Values pieces = powers_of_two(plan.batch.sequence_length / defaults(breadth).shortest_piece);
  degrees = {
      {&Parallelism::context, chosen(plan.search.context, pieces, own.context)},
      {&Parallelism::expert,
       chosen(plan.search.expert, moe ? divisors(experts.routed_experts, plan.cluster.gpus) : Values{1}, own.expert)},
      {&Parallelism::expert_tensor,
       chosen(plan.search.expert_tensor, powers_of_two(moe && breadth == Breadth::complete ? node : 1),
              own.expert_tensor)}};
  zero_stage = zero_stages(plan, breadth);
  micro_batch_size =
      chosen(plan.search.micro_batch_size, powers_of_two(plan.batch.global_batch_size), plan.batch.micro_batch_size);
  recompute = recomputations(inputs, breadth);
  for (const Fewer& ends : fewer) split.emplace_back(ends.word);
  split.insert(split.end(), {"balanced", "given"});
  const auto& words = plan.search.split.empty() ? defaults(breadth).split : plan.search.split;
  std::erase_if(split, [&](const std::string& word) { return std::ranges::find(words, word) == words.end(); });
}

std::vector<bool> Choices::sequence(std::int64_t ranks) const {
  const model::Plan& plan = inputs_.plan;
  if (!plan.search.sequence.empty()) {
    std::vector<bool> given;
    for (const bool value : {false, true})
      if (std::ranges::count(plan.search.sequence, value) > 0) given.push_back(value);
    return given;
  }
  if (ranks == 1)
    return plan.parallelism.tensor == 1 && plan.parallelism.sequence ? std::vector<bool>{false, true}
                                                                     : std::vector<bool>{false};
  return inputs_.architecture.experts.routed_experts > 0 ? std::vector<bool>{true} : std::vector<bool>{false, true};
}

Values Choices::pipeline(std::int64_t tensor_ranks, std::int64_t context_ranks) const {
  const model::Plan& plan = inputs_.plan;
  const std::int64_t rest = plan.cluster.gpus / (tensor_ranks * context_ranks);
  return chosen(plan.search.pipeline, divisors(rest, inputs_.architecture.layers), plan.parallelism.pipeline);
}

std::vector<std::string> Choices::schedule(std::int64_t ranks, std::int64_t expert) const {
  const model::Plan& plan = inputs_.plan;
  const std::string& own = plan.schedule.kind;
  std::vector<std::string> kinds = plan.search.schedule;
  if (ranks == 1) {
    if (!kinds.empty()) return {kinds.front()};
    kinds = {"1f1b"};
    if (plan.parallelism.pipeline == 1 && own != kinds.front()) kinds.push_back(own);
    return kinds;
  }
  if (!kinds.empty()) return kinds;
  for (const model::ScheduleKind* kind : model::schedule_kinds())
    if (std::string name(kind->name()); model::software_has(plan, "schedule.kind", name))
      kinds.push_back(std::move(name));
  // What overlaps a pair there is the all-to-all of experts; without one it is a longer warm-up for nothing.
  if (expert == 1) std::erase(kinds, "interleaved-overlap");
  return kinds;
}

Values Choices::virtual_stages(std::int64_t ranks) const {
  const model::Plan& plan = inputs_.plan;
  const Values& given = plan.search.virtual_stages;
  if (ranks > 1) return chosen(given, defaults(breadth_).chunks, plan.schedule.virtual_stages);
  if (!given.empty()) return {given.front()};
  return chosen({}, {1}, plan.parallelism.pipeline == 1 ? plan.schedule.virtual_stages : 1);
}

Values Choices::communication_sms(std::int64_t ranks) const {
  const model::Plan& plan = inputs_.plan;
  const Values& given = plan.search.communication_sms;
  const std::int64_t own = plan.overlap.communication_sms;
  if (ranks > 1 && !model::dispatch_takes_sms(plan) && given.empty()) return chosen({}, {0}, own);
  if (ranks > 1) {
    Values shares = chosen(given, defaults(breadth_).communication_sms, own);
    std::erase_if(shares, [&](std::int64_t sms) { return sms >= inputs_.cluster.device.sms; });
    return shares;
  }
  if (given.empty()) return chosen({}, {0}, plan.parallelism.expert == 1 ? own : 0);
  return {std::ranges::find(given, 0) != given.end() ? 0 : given.front()};
}

std::vector<Split> Choices::splits(std::int64_t stages, const Costs& costs) const {
  const std::int64_t layers = inputs_.architecture.layers;
  std::vector<Split> found;
  std::vector<Values> seen;
  for (const std::string& word : split) {
    Values counts = inputs_.plan.schedule.layers_per_stage.counts;
    bool may_be_empty = true;  // the first and the last stage
    if (word == "balanced") {
      const auto known = stages > 1 && stages <= layers + 2 ? costs() : model::wrong_input("", "");
      counts = known ? model::balanced_layer_counts(*known, stages) : Values{};
    } else if (word != "given") {
      const auto* ends = std::ranges::find(fewer, word, &Fewer::word);
      counts = layer_counts(layers, stages, *ends);
      may_be_empty = ends->first + ends->last == 0;
    }
    const bool whole = static_cast<std::int64_t>(counts.size()) == stages &&
                       std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == layers;
    if (!whole || !filled(counts, may_be_empty) || std::ranges::find(seen, counts) != seen.end()) continue;
    seen.push_back(counts);
    found.push_back({word, word == "even" ? Values{} : std::move(counts)});
  }
  return found;
}

DefaultRecipe default_recipe(double parameters, double active_parameters, std::int64_t positions,
                             const std::vector<std::int64_t>& gpus, std::optional<double> asked) {
  constexpr std::int64_t longest = 4096;
  constexpr double tokens_per_parameter = 20, small = 1 << 22, large = 1 << 24, large_model = 100e9,
                   fewest_steps = 1000, fewest_sequences = 32;
  DefaultRecipe recipe;
  recipe.parameters = parameters;
  recipe.active_parameters = active_parameters;
  recipe.sequence_length = positions > 0 ? std::min(positions, longest) : longest;
  recipe.tokens = asked.value_or(std::round(tokens_per_parameter * active_parameters));
  std::int64_t odd = 1;
  for (const std::int64_t size : gpus) odd = std::lcm(odd, odd_part(std::max<std::int64_t>(size, 1)));
  double tokens = parameters <= large_model ? small : large;
  const auto length = static_cast<double>(recipe.sequence_length);
  if (asked) tokens = std::min(tokens, std::max(*asked / fewest_steps, fewest_sequences * length));
  const double sequences = tokens / (length * static_cast<double>(odd));
  recipe.global_batch_size = odd * (std::int64_t{1} << std::lround(std::max(0.0, std::log2(sequences))));
  return recipe;
}

Result<Recipe> recipe_of_plan(const std::string& path) {
  const auto text = TRY(model::read_text_file(path));
  return Recipe{fs::path(path).stem().string(), text, path, stated(text), {}};
}

Result<Recipe> recipe_of_model(const std::string& config, const std::string& written,
                               const std::vector<std::int64_t>& gpus, std::optional<double> tokens) {
  const auto architecture = TRY(model::load_architecture(config));
  constexpr std::int64_t any_length = 4096;  // parameters do not depend on it
  const model::ModelMetrics metrics = model::model_metrics(architecture, any_length);
  const DefaultRecipe sizes =
      default_recipe(metrics.parameters, metrics.active_parameters, architecture.longest_sequence, gpus, tokens);
  Recipe recipe;
  recipe.name = fs::path(config).stem().string();
  recipe.path = config;
  recipe.text = fmt::format(
      "[model]\nconfig = {}\n[batch]\nsequence_length = {}\nmicro_batch_size = 1\nglobal_batch_size = {}\n"
      "[run]\ntokens = {:e}\n",
      model::toml_string(written), sizes.sequence_length, sizes.global_batch_size, sizes.tokens);
  recipe.defaults = sizes;
  return recipe;
}

}  // namespace plumbline::sim
