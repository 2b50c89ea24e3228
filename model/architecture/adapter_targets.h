// The layers next to which adapters lie, from the names of modules that trainers state.
#pragma once

#include <string>
#include <vector>

namespace plumbline::model {

struct AdapterTargets {
  bool attention = false, mlp = false, experts = false;

  // Returns them as training.targets has them; empty where no module of attention or MLP is named.
  std::vector<std::string> words() const;
};

// Reads names of Hugging Face (q_proj, mlp.down_proj), of Megatron Core (linear_qkv, linear_fc1) and of older models
// (query_key_value, w1). A router is no MLP, and those of an MLP but of a shared expert are of experts too where the
// model has any.
AdapterTargets adapter_targets(std::vector<std::string> modules, bool experts);

}  // namespace plumbline::model
