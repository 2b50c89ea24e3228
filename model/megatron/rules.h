// Keys of a plan that depend on several arguments, with the code that reads and the code that writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/given.h"
#include "model/megatron/model_shape.h"
#include "model/plan/plan.h"

namespace plumbline::model::megatron {

// The inputs and outputs of the rules. Keys with their own row in the table are set before rules are read.
struct RuleReader {
  const Given& given;
  const ModelShape& shape;
  Plan& plan;
  std::vector<Note>& notes;

  // Returns the whole number that an argument has; another value is refused.
  std::optional<std::int64_t> number(std::string_view argument) const;
  void note(std::string_view argument, std::string text) const;
  void refuse(std::string_view argument, std::string text) const;  // as Megatron does
};
struct RuleWriter {
  const Plan& plan;
  const ModelShape& shape;
  Given& out;
};

struct Rule {
  void (*read)(const RuleReader&);
  void (*write)(const RuleWriter&);
};
// Returns the rules in the order in which they must be read: batch and precision before the rules that depend on them.
std::vector<Rule> rules();

Rule precision_rule();
Rule attention_rule();
Rule loss_rule();
Rule sharding_rule();
Rule batch_rule();
Rule schedule_rule();
Rule recompute_rule();
Rule overlap_rule();
Rule expert_rule();
Rule dispatcher_rule();
Rule training_rule();
Rule optimizer_rule();

// Returns the plan of a script without arguments: Megatron's defaults where plumbline's differ.
Plan megatron_defaults();

}  // namespace plumbline::model::megatron
