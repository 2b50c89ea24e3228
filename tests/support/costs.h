// Profiles, one rank of DeepSeek-V3 and its operators by name, for the tests of costs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/cost/operator_class.h"
#include "model/layers/context.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "tests/support/architectures.h"
#include "tests/support/profiles.h"

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

inline model::Profile profile(const std::string& name_or_file) {
  return model::load_profile(profile_file(name_or_file)).value();
}

// Returns a profile with round values for some constants, in the units of the file.
inline model::Profile profile_with(const std::map<std::string, double>& values) {
  const model::Profile base = profile("h800");
  std::vector<model::Parameter> parameters = base.parameters();
  for (const auto& [name, value] : values) parameters[base.find(name).value()].value = value;
  return model::Profile("round", "", parameters);
}

// Returns the profile with constants of its own for each term of the forms of GEMMs and attention that it may have, in
// the order of magnitude of published kernels. What `profile` has stays, and so do the tiles that its rates are of.
inline model::Profile with_every_term(const model::Profile& profile) {
  std::vector<model::Parameter> parameters = profile.parameters();
  const auto add = [&](const std::string& name, double value, const std::string& unit) {
    if (!profile.find(name)) parameters.push_back({.name = name, .value = value, .unit = unit});
  };
  for (const std::string format : {"bf16", "fp8", "fp32", "bf16_weight_gradient", "fp8_weight_gradient"}) {
    const std::string kind = "gemm." + format + ".";
    add(kind + "ramp", 4, "us");
    add(kind + "wave_share", format == "fp8" ? 0.3 : 0.7, "1");
    add(kind + "memory_bandwidth", 2.5, "TB/s");
    add(kind + "droop", 0.2, "1");
    add(kind + "droop_time", 2, "ms");
    add(kind + "grouped_slowdown", 1.05, "1");
  }
  for (const std::string direction : {"forward", "backward"}) {
    add("attention." + direction + ".pair_time", direction == "forward" ? 150e-6 : 400e-6, "ns");
    add("attention." + direction + ".row_time", direction == "forward" ? 0.245 : 1.2, "ns");
    add("attention." + direction + ".tail", 0.9, "1");
  }
  add("attention.kv_bandwidth", 2.9, "TB/s");
  add("attention.dim_block", 64, "1");
  add("kernel.norm.passes", 3, "1");
  add("kernel.norm.launches", 4, "1");
  add("kernel.swiglu_gradient.passes", 1.5, "1");
  add("gemm.accumulation_bytes", 6, "B");
  add("gemm.slowdown_aligned_8", 1.5, "1");
  return model::Profile(profile.name() + " with every term", profile.description(), parameters);
}

// Returns the profile with these times of the host, by name after "host.": microseconds, but for counts and flags.
inline model::Profile with_host(const model::Profile& profile, const std::map<std::string, double>& values) {
  std::vector<model::Parameter> parameters = profile.parameters();
  for (const auto& [name, value] : values) {
    const bool counts = name == "graphs" || name == "launch_blocking" || name == "fills" || name == "messages" ||
                        name.starts_with("synchronizations.");
    parameters.push_back({.name = "host." + name, .value = value, .unit = counts ? "1" : "us"});
  }
  return model::Profile(profile.name() + " with a host", profile.description(), parameters);
}

inline model::Parameter number(const std::string& name, double value, const std::string& unit = "1") {
  return {.name = name, .value = value, .unit = unit};
}

// Returns the profile with further constants without a unit.
inline model::Profile with_constants(const model::Profile& profile, const std::map<std::string, double>& values) {
  std::vector<model::Parameter> parameters = profile.parameters();
  for (const auto& [name, value] : values) parameters.push_back(number(name, value));
  return model::Profile(profile.name(), profile.description(), parameters);
}

// One micro-batch of DeepSeek-V3 on one of 64 expert-parallel ranks, with the published recomputation.
inline model::LayerContext deepseek_rank(model::Precision gemm) {
  model::LayerContext c;
  c.architecture = architecture("deepseek-v3");
  c.gemm = c.dispatch = gemm;
  c.recompute = {model::RecomputeGroup::rmsnorm, model::RecomputeGroup::mla_up_projection,
                 model::RecomputeGroup::swiglu};
  c.tokens = c.sequence_length = 4096;
  c.expert_parallel = 64;
  c.groups_per_token = 4;
  c.distinct_ranks_per_token = 7.5;
  return c;
}

// A layer of a reference model that trains on one sequence, and that decodes requests with tokens in their caches.
inline model::LayerContext training(const std::string& name, std::int64_t tokens) {
  model::LayerContext c;
  c.architecture = architecture(name);
  c.tokens = c.sequence_length = tokens;
  return c;
}

inline model::LayerContext decoding(const std::string& name, std::int64_t requests, std::int64_t new_tokens = 1,
                                    double cached_tokens = 1000) {
  model::LayerContext c = training(name, requests * new_tokens);
  c.inference = {.kind = model::InferencePass::Kind::decode,
                 .requests = requests,
                 .new_tokens = new_tokens,
                 .cached_tokens = cached_tokens};
  c.inference.shared_tokens = true;
  return c;
}

inline const model::Operator& find(const model::Graph& graph, const std::string& name,
                                   model::Phase phase = model::Phase::F) {
  return *std::find_if(graph.operators.begin(), graph.operators.end(),
                       [&](const model::Operator& op) { return op.name == name && op.phase == phase; });
}

// Returns the first operator of a kind, of which there is one.
inline const model::Operator& only(const model::Graph& graph, model::OperatorKind kind) {
  return *std::ranges::find(graph.operators, kind, &model::Operator::kind);
}

inline bool between_ranks(const model::Graph& graph, const model::Operator& op) {
  return operator_class(graph, op) >= model::OperatorClass::exchange;
}

}  // namespace plumbline::tests
