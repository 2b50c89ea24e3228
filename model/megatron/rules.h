// Keys of a plan that several arguments decide together, read and written side by side.
#pragma once

#include <string>
#include <vector>

#include "model/megatron/given.h"
#include "model/megatron/model_shape.h"
#include "model/plan/plan.h"

namespace plumbline::model::megatron {

// What the rules read and write. The keys with a row of their own are already in plan and shape when rules are read.
struct RuleReader {
  const Given& given;
  const ModelShape& shape;
  Plan& plan;
  std::vector<Note>& notes;

  void note(std::string_view argument, std::string text) const;
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
// In the order in which they must be read: batch and precision before what depends on them.
std::vector<Rule> rules();

Rule precision_rule();
Rule sharding_rule();
Rule batch_rule();
Rule schedule_rule();
Rule recompute_rule();
Rule overlap_rule();
Rule expert_rule();

// What a plan says where a script is silent: Megatron's defaults where they are not plumbline's.
Plan megatron_defaults();

}  // namespace plumbline::model::megatron
