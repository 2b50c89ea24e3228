// Readers of Hugging Face's config.json, one file per family of models. Each reads the keys of its model types as a
// plain list and leaves errors in the ConfigReader. To add a model type, add its line to model_types.def, and its
// reader where more differs than DecoderDefaults have.
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

// Flags that state biases; without a key there are none. Where a file has none of a flag, the first one's biases are as
// `missing`, the MLP's as `missing_mlp`, if their keys differ.
struct BiasKeys {
  std::string_view query_key_value, attention_output, mlp;
  bool missing = false, missing_mlp = false;
};
inline constexpr BiasKeys attention_biases{"attention_bias", "attention_bias"};
inline constexpr BiasKeys llama_biases{"attention_bias", "attention_bias", "mlp_bias"};

// Queries and keys are normalised head by head, or all heads at once.
enum class HeadNorm { none, each, all };

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
  std::string_view width_key = "moe_intermediate_size";
  std::string_view dense_key = "first_k_dense_replace";
  std::string_view scaling_key = "routed_scaling_factor";
};

// DeepSeek-V3's.
inline constexpr ExpertDefaults scored_experts{
    .groups = 8, .groups_per_token = 4, .dense_layers_first = 3, .scaling_factor = 2.5};

// What a family has in place of Llama's: keys, the values of missing ones, and what no key states.
struct DecoderDefaults {
  std::optional<std::int64_t> key_value_heads;  // none: as many as heads
  std::optional<std::int64_t> head_dim;         // of grouped-query attention; none: an equal share of the hidden size
  std::string_view head_dim_key = "head_dim";
  NormKind norm = NormKind::root_mean_square;
  bool norm_bias = false;
  std::string_view epsilon_key = "rms_norm_eps";
  double norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
  std::string_view rope_theta_key = "rope_theta";
  bool tied_embedding = false;
  std::string_view activation_key = "hidden_act";
  std::string_view activation = "silu";  // empty: the family checks it itself
  bool gated = true;                     // the MLP has three matrices
  bool dense_mlp = true;                 // without dense layers their width may be missing
  std::string_view layers_key = "num_hidden_layers";
  std::int64_t layers = 0;  // where the file names each one; 0: their number is required
  BiasKeys biases;
  HeadNorm head_norm = HeadNorm::none;
  bool post_norms = false;
  double rotary_share = 0;  // where partial_rotary_factor is missing; 0: it is not read
  double attention_dropout = 0;
  std::string_view attention_dropout_key = "attention_dropout";
  std::optional<double> residual_dropout;  // the file states it, and embedding_dropout; none: neither is read
  std::optional<SlidingWindow> window;     // by sliding_window and layer_types
  std::optional<std::int64_t> query_rank;  // of latent attention, where it is missing; none: of grouped queries
  std::optional<ExpertDefaults> experts;   // none: an MLP in each layer, or the family reads its experts itself
  std::optional<std::int64_t> prediction;  // modules of prediction, where their number is missing; none: it is not read
};

// Reads the decoder that Llama, Mistral, Qwen and DeepSeek share, by Llama's keys: RMSNorm, SwiGLU, rotary positions.
void read_decoder(ConfigReader& config, Architecture& model, const DecoderDefaults& missing = {});

// Reads the dimensions of latent attention; without a key for the rank of queries it is `missing_q_rank`, without one
// for the columns of a head's values `missing_value_dim`, if that is not 0.
void read_latent_attention(ConfigReader& config, Architecture& model, std::int64_t missing_q_rank = 1536,
                           std::int64_t missing_value_dim = 0);

// Reads a head's columns; when missing they are `missing` or, without one, an equal share of the hidden size.
void read_head_dim(ConfigReader& config, Architecture& model, std::optional<std::int64_t> missing = std::nullopt,
                   std::string_view key = "head_dim");

// Reads the decoder with its heads, of latent attention or grouped queries, and experts where `missing` has them.
void read_llama_like(ConfigReader& config, Architecture& model, const DecoderDefaults& missing = {});

void read_biases(ConfigReader& config, Architecture& model, const BiasKeys& keys);

// Returns the tokens of the window; an explicit null, or 0, means that there is none.
std::int64_t window_tokens(ConfigReader& config, std::int64_t missing);

// Reads the share of a head's columns that are rotated.
void read_rotary_share(ConfigReader& config, Architecture& model, std::string_view key, double missing);

// Reads what each layer mixes tokens with: by the names in a list, or attention in each n-th layer, counted from one,
// and a recurrence in the others. What the layer does with each token follows from the experts. A model of fewer layers
// than names has the first ones.
void read_mixers(ConfigReader& config, Architecture& model, std::int64_t attention_every,
                 std::string_view key = "layer_types");

// Reads which layers have the window: by the names in a list, else all but each n-th, counted from one. Follows the
// experts.
void read_windows(ConfigReader& config, Architecture& model, std::int64_t full_every,
                  std::string_view key = "layer_types");

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

// Reads the activation of the MLP and whether that is of three matrices: rejects other ones than `missing` and those
// that cost the same by another name, and lists what is computed by another one's kernel.
void read_activation(ConfigReader& config, Architecture& model, std::string_view key, std::string_view missing,
                     bool gated = false);

// Checks that heads share keys and values evenly.
void check_shared_heads(ConfigReader& config, const Architecture& model, std::string_view key = "num_key_value_heads");

// Checks that a token uses at most as many experts as there are.
void check_experts_per_token(ConfigReader& config, const Architecture& model, std::string_view experts_key,
                             std::string_view key = "num_experts_per_tok");

// Reads the experts of DeepSeek-V2 and later, and checks them.
void read_routed_experts(ConfigReader& config, Architecture& model, const ExpertDefaults& missing);

// Reads which layers have experts where the file names what each has; the first dense ones are a number.
void read_sparse_layers(ConfigReader& config, MixtureOfExperts& experts);

// Reads the columns of what routed experts read and write where they work in a latent, under Nemotron 3's key: Megatron
// has such experts with any attention (--moe-latent-size).
void read_expert_latent(ConfigReader& config, Architecture& model);

// Reads the number of modules of prediction.
void read_prediction(ConfigReader& config, Architecture& model, std::int64_t missing = 0,
                     std::string_view key = "num_nextn_predict_layers");

// Reads experts as wide as the MLP that they replace, by Mixtral's keys or others of their numbers.
void read_local_experts(ConfigReader& config, Architecture& model, std::int64_t count, std::int64_t per_token,
                        std::string_view key = "num_local_experts",
                        std::string_view per_token_key = "num_experts_per_tok");

// Normalises queries and keys head by head in place of norms with a weight for each column of all heads.
void omit_wide_norms(Architecture& model, std::string what = "norms over the queries and keys of all heads at once");

// Names the clamp of queries, keys and values, if the file has one.
void omit_clamp(ConfigReader& config, Architecture& model, std::string_view key);

// Counts a bias of the output, which takes no time.
void omit_output_bias(Architecture& model);

// Sets what GPT-like models share: LayerNorm before attention and MLP, an MLP of two matrices with GELU.
void make_gpt_like(Architecture& model, bool biases);

#define MODEL_TYPE(name, read) void read(ConfigReader& config, Architecture& model);
#define DECODER_TYPE(name, ...)
#include "model/architecture/families/model_types.def"

struct ModelType {
  std::string_view name;                         // Hugging Face's model_type
  void (*reader)(ConfigReader&, Architecture&);  // nullptr: a decoder of `missing`
  DecoderDefaults missing;

  void read(ConfigReader& config, Architecture& model) const {
    return reader == nullptr ? read_llama_like(config, model, missing) : reader(config, model);
  }
};
inline constexpr auto model_types = std::to_array<ModelType>({
#define MODEL_TYPE(name, read) {#name, read, {}},
#define DECODER_TYPE(name, ...) {#name, nullptr, {__VA_ARGS__}},
#include "model/architecture/families/model_types.def"
});

// Returns the row of a type, or nullptr. The text model of a type that sees is named after it: gemma3_text.
const ModelType* find_model_type(std::string_view name);

// Reads the language model of `model.model_type`, or the one inside it: of a type without a row by that one's own type.
// What sees, hears or speaks is not read. Returns the key of a type that is not known, otherwise nothing.
std::string read_model(ConfigReader& config, Architecture& model);

// Returns every key that any model type reads.
const std::vector<std::string>& config_keys();

}  // namespace plumbline::model
