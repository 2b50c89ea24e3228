// Architectures of a few thousand parameters, one of each kind that the layers know.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "model/layers/blocks.h"

namespace plumbline::tests {

struct TinyModel {
  std::string name;
  model::Architecture architecture;
  std::vector<model::BlockKind> blocks;  // from the embedding to the head, in the order of a forward pass
  bool fused_attention = true;           // and loss
  friend void PrintTo(const TinyModel& model, std::ostream* out) { *out << model.name; }  // for GoogleTest
};

// deepseek_v3-like (latent attention, sigmoid router with groups, shared expert, multi-token prediction),
// deepseek_v2-like with and without query compression (softmax router), llama-like (grouped queries,
// dense), and a llama-like one whose embedding serves as output projection and feeds a prediction module.
std::vector<TinyModel> tiny_models();

struct TinyLayout {
  model::Precision precision = model::Precision::bf16;
  model::RecomputePolicy recompute;
  std::int64_t ranks = 1;      // expert-parallel
  std::int64_t sequences = 4;  // of the whole batch, divided over the ranks
  bool offloaded = false;      // activations wait in host memory
};
inline constexpr std::int64_t tiny_sequence_length = 5;

model::LayerContext tiny_context(const TinyModel& model, const TinyLayout& layout);

}  // namespace plumbline::tests
