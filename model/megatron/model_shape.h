// A transformer as Megatron's arguments describe it. The defaults are Megatron's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/base/error.h"

namespace plumbline::model::megatron {

struct ModelShape {
  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0;
  bool grouped_query = false;
  std::int64_t query_groups = 1;                // key-value heads, under grouped_query
  std::optional<std::int64_t> ffn_hidden_size;  // default: 4 hidden sizes, or 8/3 in steps of 64 when gated
  std::optional<std::int64_t> kv_channels;      // default: hidden_size / heads
  std::int64_t max_positions = 0;
  std::string position = "learned_absolute";
  std::int64_t rotary_base = 10000;
  double rotary_percent = 1;
  std::string normalization = "LayerNorm";
  double norm_epsilon = 1e-5;
  bool gated = false;  // --swiglu
  bool untied = false;
  bool no_linear_bias = false;
  bool qkv_bias = false;
  bool qk_norm = false;
  std::optional<std::int64_t> vocabulary;
  std::int64_t vocabulary_multiple = 128;  // padded to a multiple of this times the tensor degree
  std::optional<std::int64_t> experts;
  std::int64_t experts_per_token = 2;
  std::optional<std::int64_t> expert_ffn;         // default: ffn_hidden_size
  std::string expert_layers = "1";                // every n-th layer, or a list such as ([0]*3+[1]*58)
  std::optional<std::int64_t> shared_expert_ffn;  // of all shared experts together
  std::optional<std::int64_t> expert_groups;
  std::optional<std::int64_t> groups_per_token;
  std::optional<double> router_scaling;
  std::string router_score = "softmax";
  bool router_bias = false;
  bool latent = false;
  std::optional<std::int64_t> q_lora_rank;  // none: queries are not compressed
  std::int64_t kv_lora_rank = 32;
  std::int64_t qk_head_dim = 128;
  std::int64_t qk_position_dim = 64;
  std::int64_t v_head_dim = 128;
  std::optional<std::int64_t> prediction_layers;

  std::int64_t ffn() const;
  std::int64_t key_value_heads() const { return grouped_query ? query_groups : heads; }
};

// Calls visit(name, field) with the names under which the table of arguments knows the fields.
template <class Shape, class Visitor>
void visit_shape(Shape& shape, Visitor&& visit) {
  visit("shape.layers", shape.layers);
  visit("shape.hidden_size", shape.hidden_size);
  visit("shape.heads", shape.heads);
  visit("shape.grouped_query", shape.grouped_query);
  visit("shape.query_groups", shape.query_groups);
  visit("shape.ffn_hidden_size", shape.ffn_hidden_size);
  visit("shape.kv_channels", shape.kv_channels);
  visit("shape.max_positions", shape.max_positions);
  visit("shape.position", shape.position);
  visit("shape.rotary_base", shape.rotary_base);
  visit("shape.rotary_percent", shape.rotary_percent);
  visit("shape.normalization", shape.normalization);
  visit("shape.norm_epsilon", shape.norm_epsilon);
  visit("shape.gated", shape.gated);
  visit("shape.untied", shape.untied);
  visit("shape.no_linear_bias", shape.no_linear_bias);
  visit("shape.qkv_bias", shape.qkv_bias);
  visit("shape.qk_norm", shape.qk_norm);
  visit("shape.vocabulary", shape.vocabulary);
  visit("shape.vocabulary_multiple", shape.vocabulary_multiple);
  visit("shape.experts", shape.experts);
  visit("shape.experts_per_token", shape.experts_per_token);
  visit("shape.expert_ffn", shape.expert_ffn);
  visit("shape.expert_layers", shape.expert_layers);
  visit("shape.shared_expert_ffn", shape.shared_expert_ffn);
  visit("shape.expert_groups", shape.expert_groups);
  visit("shape.groups_per_token", shape.groups_per_token);
  visit("shape.router_scaling", shape.router_scaling);
  visit("shape.router_score", shape.router_score);
  visit("shape.router_bias", shape.router_bias);
  visit("shape.latent", shape.latent);
  visit("shape.q_lora_rank", shape.q_lora_rank);
  visit("shape.kv_lora_rank", shape.kv_lora_rank);
  visit("shape.qk_head_dim", shape.qk_head_dim);
  visit("shape.qk_position_dim", shape.qk_position_dim);
  visit("shape.v_head_dim", shape.v_head_dim);
  visit("shape.prediction_layers", shape.prediction_layers);
}

// Which layers hold experts: the first `dense_first` never, then every `frequency`-th. Nothing when the text says
// anything else.
struct ExpertLayers {
  std::int64_t dense_first = 0;
  std::int64_t frequency = 1;
};
std::optional<ExpertLayers> parse_expert_layers(const std::string& text, std::int64_t layers);
std::string expert_layers_text(const ExpertLayers& which, std::int64_t layers);

}  // namespace plumbline::model::megatron
