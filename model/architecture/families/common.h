// Keys that several families share, and their checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/architecture/architecture.h"
#include "model/architecture/config_reader.h"

namespace plumbline::model {

// Values of missing keys where the families differ.
struct DecoderDefaults {
  std::optional<std::int64_t> key_value_heads;  // none: as many as heads
  double norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
  bool tied_embedding = false;
  bool gelu_gate = false;  // the gate of the MLP is GELU, by the key hidden_activation
};

// Reads the decoder that Llama, Mistral, Qwen and DeepSeek share, by Llama's keys: RMSNorm, SwiGLU, rotary positions.
void read_decoder(ConfigReader& config, Architecture& model, const DecoderDefaults& missing = {});

// Reads head_dim; when missing it is `missing` or, without one, an equal share of the hidden size.
void read_head_dim(ConfigReader& config, Architecture& model, std::optional<std::int64_t> missing = std::nullopt);

// Reads the share of a head's columns that are rotated.
void read_rotary_share(ConfigReader& config, Architecture& model, std::string_view key, double missing);

// The keys of a family that divides the hidden size equally among heads, each with its own keys and values.
struct SizeKeys {
  std::string_view layers, hidden_size, heads;
};
void read_equal_heads(ConfigReader& config, Architecture& model, const SizeKeys& keys);

// Reject activations that a layer cannot compute.
void require_silu(ConfigReader& config, std::string_view key);
void require_gelu(ConfigReader& config, std::string_view key, std::string_view missing);

// Checks that a token uses at most as many experts as there are.
void check_experts_per_token(ConfigReader& config, const Architecture& model, std::string_view experts_key);

// Sets what GPT-like models share: LayerNorm before attention and MLP, an MLP of two matrices with GELU.
void make_gpt_like(Architecture& model, bool biases);

}  // namespace plumbline::model
