// Words of FSDP and torchtitan that set keys of a plan (PLAN_ALIAS and RENAMED_KEY in model/plan/plan_keys.def). They
// are read like keys; the plan has only the keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::model {

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

}  // namespace plumbline::model
