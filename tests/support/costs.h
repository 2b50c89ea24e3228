// Shipped profiles, one rank of DeepSeek-V3 and its operators by name, for the tests of costs.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/cost/operator_class.h"
#include "model/layers/context.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {

inline const std::vector<std::string> profile_names = {"h800-datasheet", "h800-public", "h800"};

// Returns the H800 of the cost functions; topology_test compares it with the shipped file.
inline model::Device h800_device() {
  model::Device device;
  device.name = "h800-sxm";
  device.sms = 132;
  device.sm = {2048, 65536, 233472};
  return device;
}

inline model::Profile profile(const std::string& name) {
  return model::load_profile(shipped("calibrate/profiles/" + name + ".toml")).value();
}

// Returns a shipped profile with round values for some constants, in the units of the file.
inline model::Profile profile_with(const std::map<std::string, double>& values) {
  const model::Profile base = profile("h800");
  std::vector<model::Parameter> parameters = base.parameters();
  for (const auto& [name, value] : values) parameters[base.find(name).value()].value = value;
  return model::Profile("round", "", parameters);
}

// One micro-batch of DeepSeek-V3 on one of 64 expert-parallel ranks, with the published recomputation.
inline model::LayerContext deepseek_rank(model::Precision gemm) {
  model::LayerContext c;
  c.architecture = model::load_architecture(shipped("examples/models/deepseek-v3.json")).value();
  c.gemm = c.dispatch = gemm;
  c.recompute = {model::RecomputeGroup::rmsnorm, model::RecomputeGroup::mla_up_projection,
                 model::RecomputeGroup::swiglu};
  c.tokens = c.sequence_length = 4096;
  c.expert_parallel = 64;
  c.groups_per_token = 4;
  c.distinct_ranks_per_token = 7.5;
  return c;
}

inline const model::Operator& find(const model::Graph& graph, const std::string& name,
                                   model::Phase phase = model::Phase::F) {
  return *std::find_if(graph.operators.begin(), graph.operators.end(),
                       [&](const model::Operator& op) { return op.name == name && op.phase == phase; });
}

inline bool between_ranks(const model::Graph& graph, const model::Operator& op) {
  return operator_class(graph, op) >= model::OperatorClass::exchange;
}

}  // namespace plumbline::tests
