// Architectures of a few thousand parameters, one for each kind of layer.
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
  bool fused_attention = true;           // of the loss too
  friend void PrintTo(const TinyModel& model, std::ostream* out) { *out << model.name; }  // for GoogleTest
};

// Returns models like deepseek_v3 (latent attention, sigmoid router with groups, shared expert, multi-token
// prediction), deepseek_v2 with and without query compression (softmax router), llama (grouped queries, dense), and a
// llama whose embedding is the output projection and feeds a prediction module.
std::vector<TinyModel> tiny_models();

// Returns models with recurrent layers, like qwen3_next, kimi_linear, minimax, falcon_h1, granitemoehybrid,
// nemotron_h and jamba, with gates of heads, like laguna, norms of values, like gemma4, experts without work, like
// longcat_flash, or with compressed entries and several residual streams, like deepseek_v4 without its indexer, which
// no device runs.
std::vector<TinyModel> recurrent_models();

// Returns models with indexers, which no device runs: like deepseek_v3.2 and minimax_m3, of whose short sequences a
// query sees all tokens, chosen in order, and like deepseek_v4, of whose compressed entries it sees some.
std::vector<TinyModel> sparse_models();

struct TinyLayout {
  model::Precision precision = model::Precision::bf16;
  model::RecomputePolicy recompute;
  std::int64_t ranks = 1;      // expert-parallel ranks
  std::int64_t sequences = 4;  // those of the whole batch, divided over the ranks
  bool offloaded = false;      // whether activations wait in host memory
  model::Adapters adapters = {};
};
inline constexpr std::int64_t tiny_sequence_length = 5;

model::LayerContext tiny_context(const TinyModel& model, const TinyLayout& layout);

}  // namespace plumbline::tests
