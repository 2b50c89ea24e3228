// What a plan's [parallelism] states: how ranks divide model, batch and sequence.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace plumbline::model {

// Keys, units and meaning: model/plan/plan_keys.def.
struct Parallelism {
  std::int64_t tensor = 1;
  bool sequence = false;
  std::int64_t context = 1;
  std::string context_method = "ring";
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t zero_stage = 0;
  std::int64_t shard_group = 0;
  bool reshard_after_forward = true;
  std::string reduce_after = "pass";
  std::int64_t synchronization_interval = 1;

  bool operator==(const Parallelism&) const = default;
};

// A key of [parallelism] whose value is a number of ranks over which something is divided.
struct Degree {
  const char* name;  // its last part
  std::int64_t Parallelism::*value;
  bool divides_parameters;  // else it divides only activations, layers or tokens
};
// All degrees, in the order of the plan. Code that treats degrees alike iterates over this list; model/plan/layout.h
// derives the groups of ranks from them.
inline constexpr std::array<Degree, 5> parallel_degrees = {{{"tensor", &Parallelism::tensor, true},
                                                            {"context", &Parallelism::context, false},
                                                            {"pipeline", &Parallelism::pipeline, false},
                                                            {"expert", &Parallelism::expert, true},
                                                            {"expert_tensor", &Parallelism::expert_tensor, true}}};

}  // namespace plumbline::model
