// Checks the range or allowed words of each plan key while the plan is read, and for model/plan/layout.h what the
// degrees of a plan must divide in a model.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/architecture/config_value.h"
#include "model/base/data_type.h"
#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// Returns nothing when the value is allowed, else an error with message and hint; the caller adds file, line and key.
std::optional<Error> check_plan_value(std::string_view key, std::int64_t value);
std::optional<Error> check_plan_value(std::string_view key, double value);
std::optional<Error> check_plan_value(std::string_view key, const std::string& value);
inline std::optional<Error> check_plan_value(std::string_view, bool) { return std::nullopt; }
inline std::optional<Error> check_plan_value(std::string_view, Precision) { return std::nullopt; }
// Keys of the model are checked when the model is read.
std::optional<Error> check_plan_value(std::string_view key, const ConfigValue& value);
template <class Value>
std::optional<Error> check_plan_value(std::string_view key, const std::vector<Value>& values) {
  for (const Value& value : values)
    if (auto error = check_plan_value(key, value)) return error;
  return std::nullopt;
}

// The keys without which there is no plan; those of [batch] may be missing where there is an [inference].
inline constexpr std::array<std::string_view, 6> required_plan_keys = {
    "model.config",          "cluster.topology",       "cluster.gpus",
    "batch.sequence_length", "batch.micro_batch_size", "batch.global_batch_size"};
// Those without which there is no [rollout]; batch.global_batch_size follows from it.
inline constexpr std::array<std::string_view, 6> required_rollout_keys = {
    "rollout.prompts",       "rollout.answers",          "rollout.prompt_tokens",
    "rollout.answer_tokens", "rollout.answer_tokens_sd", "rollout.max_answer_tokens"};

// The range of a key that is a whole number.
struct IntegerRange {
  std::int64_t least;
  std::int64_t most;
};
IntegerRange integer_range(std::string_view key);

// Returns the range of a key that is a number: "at least 0, below 1".
std::string number_range_text(std::string_view key);

// Returns the words that a key takes; none where it takes any text or no text at all.
std::vector<std::string> plan_words(std::string_view key);

// Returns the words that stand for a list of others; none of most keys.
const std::map<std::string, std::vector<std::string>>& list_words(std::string_view key);

// Returns "did you mean 'x'? one of a, b, c"; the question is left out when no choice is near.
std::string choice_hint(std::string_view found, const std::vector<std::string>& choices);

// Words of FSDP and torchtitan that set keys of a plan (PLAN_ALIAS and RENAMED_KEY in model/plan/plan_keys.def). They
// are read like keys; the plan has only the keys.

// An alias that a plan gives, with its value as text: lists are joined by x.
struct GivenAlias {
  std::string name;
  std::string value;
  Plan::Place place;
};

// Returns the alias of that name, or of its last part alone: "parallelism.fsdp" of "fsdp". "" where there is none.
std::string alias_name(std::string_view key);

// Returns the key that an alias renames; "" of other aliases.
std::string_view renamed_key(std::string_view alias);

// Returns the keys that an alias sets.
std::vector<std::string> alias_targets(std::string_view alias);

// Returns whether two aliases describe the same choice together: dp_shard and dp_replicate.
bool complete_each_other(std::string_view alias, std::string_view other);

// Sets the keys of these aliases that the plan does not give. Ranks that do not fill the GPUs of the plan are
// infeasible.
std::optional<Error> apply_aliases(const std::vector<GivenAlias>& given, Plan& plan);

// What the degrees of a plan must divide in a model; each rule has its reason. Keeps the first error about degrees that
// do not satisfy their rules: infeasible, with the key, the rule and the nearest degrees that do.
class Divisions {
 public:
  using Allowed = std::function<bool(std::int64_t)>;

  explicit Divisions(const Plan& plan) : plan_(plan) {}

  // Records an error about `degree` at `key` unless `allowed` accepts it.
  void require(const std::string& key, std::int64_t degree, const Allowed& allowed, std::string rule);
  void require_divides(const std::string& key, std::int64_t degree, std::int64_t whole, std::string_view what);
  // Requires that the heads of attention divide over tensor ranks, and those of keys and values or their copies.
  void require_heads(const std::string& key, std::int64_t tensor, const Architecture& model);
  // Requires that context ranks can work on heads of the recurrence, and that these divide over them.
  void require_recurrent_heads(std::int64_t context, std::int64_t tensor, const Architecture& model);
  // Requires one stage where layers read what others made next to the stream.
  void require_one_stage(const std::string& key, std::int64_t stages, const Architecture& model);

  const std::optional<Error>& error() const { return error_; }

 private:
  const Plan& plan_;
  std::optional<Error> error_;
};

// Returns an infeasible error with the key, the rule and the nearest degrees that satisfy it, or nothing.
std::optional<Error> check_divisions(const Plan& plan, const Architecture& architecture);

}  // namespace plumbline::model
