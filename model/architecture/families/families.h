// Readers of Hugging Face's config.json, one file per family of models. Each reads the keys of its model types as a
// plain list and leaves errors in the ConfigReader. To add a model type, write its reader and add its line to
// model_types.def.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/architecture/config_reader.h"

namespace plumbline::model {

// Keys that several families share, and their checks.

// Values of missing keys where the families differ.
struct DecoderDefaults {
  std::optional<std::int64_t> key_value_heads;  // none: as many as heads
  std::optional<std::int64_t> head_dim;         // of grouped-query attention; none: an equal share of the hidden size
  double norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
  bool tied_embedding = false;
  bool gelu_gate = false;   // the gate of the MLP is GELU, by the key hidden_activation
  bool dense_mlp = true;    // without dense layers their width may be missing
  bool other_gate = false;  // the family checks the gate of its MLP itself
  std::int64_t layers = 0;  // where the file names each one; 0: their number is required
};

// Reads the decoder that Llama, Mistral, Qwen and DeepSeek share, by Llama's keys: RMSNorm, SwiGLU, rotary positions.
void read_decoder(ConfigReader& config, Architecture& model, const DecoderDefaults& missing = {});

// Reads the dimensions of latent attention; without a key for the rank of queries it is `missing_q_rank`.
void read_latent_attention(ConfigReader& config, Architecture& model, std::int64_t missing_q_rank = 1536);

// Reads head_dim; when missing it is `missing` or, without one, an equal share of the hidden size.
void read_head_dim(ConfigReader& config, Architecture& model, std::optional<std::int64_t> missing = std::nullopt);

// Reads the decoder with the heads of grouped-query attention.
void read_llama_like(ConfigReader& config, Architecture& model, const DecoderDefaults& missing = {});

// Reads whether the projections of attention have biases.
void read_attention_bias(ConfigReader& config, Architecture& model, bool missing = false);

// Returns the tokens of the window; an explicit null means that there is none.
std::int64_t window_tokens(ConfigReader& config, std::int64_t missing);

// Reads the share of a head's columns that are rotated.
void read_rotary_share(ConfigReader& config, Architecture& model, std::string_view key, double missing);

// Reads what each layer mixes tokens with: by the names of layer_types, or attention in each n-th layer, counted from
// one, and a recurrence in the others. What the layer does with each token follows from the experts. A model of fewer
// layers than names has the first ones.
void read_mixers(ConfigReader& config, Architecture& model, std::int64_t attention_every);

// Reads which layers have the window: by the names of layer_types, else all but each n-th, counted from one. Follows
// the experts.
void read_windows(ConfigReader& config, Architecture& model, std::int64_t full_every);

// Reads which layers have the window from a list of zeros and others, if there is one. Follows the experts.
void read_window_list(ConfigReader& config, Architecture& model, std::string_view key);

// Returns lightning attention with a key and a value of each of the model's heads, in chunks of that many tokens.
Recurrence lightning_attention(const Architecture& model, std::int64_t chunk);

// Reads the format of the recurrence's state between passes of inference, and checks its heads.
void finish_recurrence(ConfigReader& config, Architecture& model, std::string_view format_key,
                       std::string_view key_heads_key);

// The keys of a family that divides the hidden size equally among heads, each with its own keys and values.
struct SizeKeys {
  std::string_view layers, hidden_size, heads;
};
void read_equal_heads(ConfigReader& config, Architecture& model, const SizeKeys& keys);

// Reject activations that a layer cannot compute.
void require_silu(ConfigReader& config, std::string_view key);
void require_gelu(ConfigReader& config, std::string_view key, std::string_view missing);

// Checks that a token uses at most as many experts as there are.
void check_experts_per_token(ConfigReader& config, const Architecture& model, std::string_view experts_key,
                             std::string_view key = "num_experts_per_tok");

// The values of missing keys, and the names of keys, in which families with DeepSeek's router differ.
struct ExpertDefaults {
  std::int64_t shared_experts = 1;
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  std::int64_t dense_layers_first = 0;
  bool normalize_weights = true;
  double scaling_factor = 1;
  std::string_view score = "sigmoid";
  int group_score_experts = 2;
  bool greedy = false;  // groups are not used unless topk_method names them
  std::string_view experts_key = "n_routed_experts";
  std::string_view per_token_key = "num_experts_per_tok";
  std::string_view shared_key = "n_shared_experts";
  std::string_view dense_key = "first_k_dense_replace";
  std::string_view scaling_key = "routed_scaling_factor";
};

// Reads the experts of DeepSeek-V2 and later, and checks them.
void read_routed_experts(ConfigReader& config, Architecture& model, const ExpertDefaults& missing);

// Reads the columns of what routed experts read and write where they work in a latent, under Nemotron 3's key: Megatron
// has such experts with any attention (--moe-latent-size).
void read_expert_latent(ConfigReader& config, Architecture& model);

// Reads experts as wide as the MLP that they replace, by Mixtral's keys.
void read_local_experts(ConfigReader& config, Architecture& model, std::int64_t count, std::int64_t per_token);

// Makes the MLP one of two matrices; `activation` is the only value of `key` that is read.
void read_ungated_mlp(ConfigReader& config, Architecture& model, std::string_view key, std::string_view activation,
                      std::string_view shown);

// Normalises queries and keys head by head in place of norms with a weight for each column of all heads.
void omit_wide_norms(Architecture& model, std::string what);

// Sets what GPT-like models share: LayerNorm before attention and MLP, an MLP of two matrices with GELU.
void make_gpt_like(Architecture& model, bool biases);

#define MODEL_TYPE(name, read) void read(ConfigReader& config, Architecture& model);
#include "model/architecture/families/model_types.def"

struct ModelType {
  std::string_view name;  // Hugging Face's model_type
  void (*read)(ConfigReader&, Architecture&);
};
inline constexpr auto model_types = std::to_array<ModelType>({
#define MODEL_TYPE(name, read) {#name, read},
#include "model/architecture/families/model_types.def"
});

// Returns the row of a type, or nullptr. The text model of a type that sees is named after it: gemma3_text.
const ModelType* find_model_type(std::string_view name);

// Reads the model of `model.model_type`. Of a type without a row it reads the language model inside, by its own type;
// what sees or hears is not read. Returns the key of a type that is not known, otherwise nothing.
std::string read_model(ConfigReader& config, Architecture& model);

// Returns every key that any model type reads.
std::vector<std::string> config_keys();

}  // namespace plumbline::model
