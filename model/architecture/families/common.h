// Keys that several families share, and the checks that go with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/architecture/architecture.h"
#include "model/architecture/config_reader.h"

namespace plumbline::model {

// What a missing key means where the families differ.
struct DecoderDefaults {
  std::optional<std::int64_t> key_value_heads;  // none: as many as heads
  double norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
};

// Llama's names for the decoder that Llama, Mistral, Qwen and DeepSeek share: RMSNorm, SwiGLU, rotary positions.
void read_decoder(ConfigReader& config, Architecture& model, const DecoderDefaults& missing = {});

// head_dim, or an equal share of the hidden size (`missing` where the family has a number of its own).
void read_head_dim(ConfigReader& config, Architecture& model, std::optional<std::int64_t> missing = std::nullopt);

// The keys of a family that shares the hidden size equally among heads, each with keys and values of its own.
struct SizeKeys {
  std::string_view layers, hidden_size, heads;
};
void read_equal_heads(ConfigReader& config, Architecture& model, const SizeKeys& keys);

// Refuses any activation but the kinds that a layer can compute.
void require_silu(ConfigReader& config, std::string_view key);
void require_gelu(ConfigReader& config, std::string_view key, std::string_view missing);

// A token cannot use more experts than there are.
void check_experts_per_token(ConfigReader& config, const Architecture& model, std::string_view experts_key);

// LayerNorm before attention and MLP, an MLP of two matrices with GELU: what GPT-like models share.
void make_gpt_like(Architecture& model, bool biases);

}  // namespace plumbline::model
