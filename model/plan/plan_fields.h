// The fields of a plan by their keys, as model/plan/plan_keys.def lists them.
#pragma once

#include <string_view>
#include <type_traits>

#include "model/plan/plan.h"

namespace plumbline::model {

// Visits the keys of [parallelism] for visit_fields.
template <class ParallelismType, class Visitor>
void visit_parallelism(ParallelismType& parallelism, Visitor&& visit) {
#define PLAN_KEY(...)
#define INFERENCE_KEY(...)
#define PARALLELISM_KEY(NAME, MEMBER, ...) visit("parallelism." NAME, parallelism.MEMBER);
#include "model/plan/plan_keys.def"
}

// Visits the keys of a [[campaign.phase]] and of a [[run.phase]] by their names within it.
template <class Phase, class Visitor>
void visit_phase(Phase& phase, Visitor&& visit) {
  const auto leaf = [](std::string_view key) { return key.substr(key.rfind('.') + 1).data(); };
  if constexpr (std::is_same_v<std::remove_const_t<Phase>, RunPhase>) {
#define STATED_PHASE_KEY(NAME, MEMBER, ...) visit(leaf(NAME), phase.MEMBER);
#include "model/plan/plan_keys.def"
  } else {
#define PHASE_KEY(NAME, MEMBER, ...) visit(leaf(NAME), phase.MEMBER);
#include "model/plan/plan_keys.def"
  }
}

// Calls visit(key, field) for every scalar and list key of the plan, in file order (model/plan/plan_keys.def). Reading,
// unknown-key checks, printing and JSON all use this list. [[run.phase]] and [[campaign.phase]] are handled separately;
// of the model's keys only those that the plan gives are visited. The key string is valid during the call only.
template <class PlanType, class Visitor>
void visit_fields(PlanType& plan, Visitor&& visit) {
#define PLAN_KEY(NAME, MEMBER, ...) visit(NAME, plan.MEMBER);
#define MODEL_KEYS \
  for (auto& [key, value] : plan.model.overrides) visit("model." + key, value);
#include "model/plan/plan_keys.def"
}

}  // namespace plumbline::model
