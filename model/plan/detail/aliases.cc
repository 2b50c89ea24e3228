#include "model/plan/detail/aliases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "model/base/text.h"
#include "model/plan/sharding_words.h"

namespace plumbline::model {
namespace {

// How the ranks that reduce a gradient shard; 0: as many as the other number leaves.
struct Sharding {
  std::int64_t shards = 0, replicas = 0;
  bool of_context = false;  // the shards are those of one context rank
};

// The keys of renamed aliases, and of others those that they set.
struct Alias {
  std::string_view name, renamed;
};
constexpr Alias aliases[] = {
#define PLAN_ALIAS(NAME, ...) {NAME, ""},
#define RENAMED_KEY(NAME, KEY, ...) {NAME, KEY},
#include "model/plan/plan_keys.def"
};

std::string_view leaf(std::string_view name) { return name.substr(name.rfind('.') + 1); }

Error refused(const GivenAlias& alias, ErrorKind kind, std::string message, std::string hint) {
  return {kind, std::move(message), alias.place.file, alias.place.line, alias.name, std::move(hint)};
}

// Returns the positive number of a text, else 0.
std::int64_t ranks_of(std::string_view text) {
  return std::max<std::int64_t>(0, parse_number<std::int64_t>(trimmed(text)).value_or(0));
}

// Reads an alias of data parallelism into `sharding`; returns what is expected where the value is another.
std::string_view read_sharding(const GivenAlias& alias, Sharding& sharding) {
  const std::string_view word = leaf(alias.name);
  const std::int64_t ranks = ranks_of(alias.value);
  if (word == "hsdp") {
    const std::vector<std::string_view> parts = split_at(alias.value, 'x');
    if (parts.size() == 2) sharding = {ranks_of(parts[1]), ranks_of(parts[0])};
    return sharding.shards > 0 && sharding.replicas > 0 ? "" : "expected replicas and ranks of a group, such as 2x64";
  }
  if (word.starts_with("dp_")) {
    sharding.of_context = true;
    const bool shard = word == "dp_shard";
    (shard ? sharding.shards : sharding.replicas) = ranks;
    if (sharding.replicas == 0) sharding.replicas = 1;
    if (ranks > 0 || (shard && alias.value == "-1")) return "";
    return shard ? "expected a number of ranks, or -1 for all" : "expected a number of replicas";
  }
  sharding = {ranks, 1};
  if (word == "ddp") std::swap(sharding.shards, sharding.replicas);
  return ranks > 0 || alias.value == "true" ? "" : "expected a number of ranks, or true for all";
}

// Fills in what is not given. Returns an error where shards * replicas are not `all`.
std::optional<Error> fill(const GivenAlias& alias, const Plan& plan, std::int64_t all, Sharding& sharding) {
  const auto& degrees = plan.parallelism;
  if (sharding.of_context) sharding.shards *= degrees.context;
  const std::int64_t shards = std::max<std::int64_t>(1, sharding.shards);
  const std::int64_t given = shards * std::max<std::int64_t>(1, sharding.replicas);
  const bool open = sharding.shards == 0 || sharding.replicas == 0;
  const bool fits = open ? all % given == 0 : given == all;
  if (sharding.shards == 0) sharding.shards = std::max<std::int64_t>(1, all / given);
  if (fits) return std::nullopt;
  std::string hint = fmt::format("{} ranks need cluster.gpus={}", given, given * degrees.tensor * degrees.pipeline);
  if (shards > 1 && all % shards == 0 && all > shards)
    hint = fmt::format("parallelism.hsdp={}x{} has {} replicas; {}", all / shards, shards, all / shards, hint);
  return refused(alias, ErrorKind::infeasible,
                 fmt::format("{} ranks of data parallelism, but {} GPUs / (tensor {} * pipeline {}) are {}{}", given,
                             plan.cluster.gpus, degrees.tensor, degrees.pipeline, all,
                             degrees.context > 1 ? fmt::format(", context {} included", degrees.context) : ""),
                 hint);
}

void set_key(const GivenAlias& alias, const std::string& key, std::int64_t value, std::int64_t& field, Plan& plan) {
  if (plan.places.contains(key)) return;
  field = value;
  plan.places[key] = {alias.place.file, alias.place.line, std::string(leaf(alias.name))};
}

}  // namespace

std::string alias_name(std::string_view key) {
  for (const Alias& alias : aliases)
    if (alias.name == key || leaf(alias.name) == key) return std::string(alias.name);
  return "";
}

std::string_view renamed_key(std::string_view name) {
  for (const Alias& alias : aliases)
    if (alias.name == name) return alias.renamed;
  return "";
}

std::vector<std::string> alias_targets(std::string_view alias) {
  if (const std::string_view key = renamed_key(alias); !key.empty()) return {std::string(key)};
  if (alias.starts_with("stack.")) return {"stack.name"};
  return {"parallelism.zero_stage", "parallelism.shard_group"};
}

bool complete_each_other(std::string_view alias, std::string_view other) {
  return alias != other && leaf(alias).starts_with("dp_") && leaf(other).starts_with("dp_");
}

std::optional<Error> apply_aliases(const std::vector<GivenAlias>& given, Plan& plan) {
  Sharding sharding;
  const GivenAlias* last = nullptr;
  for (const GivenAlias& alias : given) {
    if (alias.name.starts_with("stack.")) {
      if (alias.value != "true" && alias.value != "false")
        return refused(alias, ErrorKind::input, "expected true or false", "another stack is a stack.name");
      const bool compiled = (alias.value == "true") == (leaf(alias.name) == "compile");
      if (plan.places.contains("stack.name")) continue;
      plan.stack.name = compiled ? "torchtitan-compile" : "pytorch-fsdp-eager";
      plan.places["stack.name"] = {alias.place.file, alias.place.line, std::string(leaf(alias.name))};
      continue;
    }
    const std::string_view expected = read_sharding(alias, sharding);
    if (!expected.empty())
      return refused(alias, ErrorKind::input, fmt::format("{}, found '{}'", expected, alias.value),
                     sharding_hint(alias.value));
    last = &alias;
  }
  const auto& degrees = plan.parallelism;
  const std::int64_t blocks = degrees.tensor * degrees.pipeline;
  // Degrees that do not divide are refused with the layout.
  if (last == nullptr || plan.cluster.gpus % (blocks * degrees.context) != 0) return std::nullopt;
  const std::int64_t all = plan.cluster.gpus / blocks;
  if (auto error = fill(*last, plan, all, sharding)) return error;
  const std::int64_t shards = sharding.shards;
  set_key(*last, "parallelism.zero_stage", shards > 1 || last->name.ends_with("fsdp") ? 3 : 0,
          plan.parallelism.zero_stage, plan);
  set_key(*last, "parallelism.shard_group", shards > 1 && shards < all ? shards : 0, plan.parallelism.shard_group,
          plan);
  return std::nullopt;
}

}  // namespace plumbline::model
