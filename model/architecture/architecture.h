// The architecture of a language model, as a Hugging Face config.json states it. Plain data.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::model {

enum class AttentionKind { multi_head_latent, grouped_query, shared_key_value };
enum class ScoreFunction { sigmoid, softmax };
enum class NormKind { root_mean_square, layer };  // arXiv 1910.07467 | arXiv 1607.06450
enum class MlpKind { swiglu, gelu };              // gated, three matrices (arXiv 2002.05202) | two matrices
enum class PositionKind { rotary, learned, alibi, none };

// What a layer does: it mixes tokens, then transforms each of them; a layer of some models does one of the two.
// Attention and a recurrence may read the same tokens in parallel, which are added.
enum class Mixer : std::uint8_t {
  none,
  attention,
  windowed_attention,
  recurrence,
  attention_and_recurrence,
  compressed_attention,         // to a window, and to compressed entries of several tokens each
  sparse_compressed_attention,  // to those of the entries that an indexer chooses
  // Of grouped queries to the blocks of tokens that an indexer chooses. Latent attention with an indexer is
  // `attention`, and this to the tokens that an earlier layer's chose.
  sparse_attention
};
inline bool attends(Mixer mixer) { return mixer != Mixer::none && mixer != Mixer::recurrence; }
inline bool compresses(Mixer mixer) {
  return mixer == Mixer::compressed_attention || mixer == Mixer::sparse_compressed_attention;
}
inline bool recurs(Mixer mixer) { return mixer == Mixer::recurrence || mixer == Mixer::attention_and_recurrence; }
enum class FeedForward : std::uint8_t { none, dense, experts };
// Whether a layer has a block that several layers share, and is the first to have that one.
enum class SharedBlock : std::uint8_t { none, first, again };
struct LayerKind {
  Mixer mixer = Mixer::attention;
  FeedForward feed_forward = FeedForward::dense;
  bool borrows = false;                   // attends to keys and values of an earlier layer, and has none
  SharedBlock block = SharedBlock::none;  // its attention is in that one, before the recurrence
  auto operator<=>(const LayerKind&) const = default;
};

// Multi-head latent attention (DeepSeek-V2 report, arXiv 2405.04434, section 2.1). q_lora_rank 0: no query compression,
// which grouped-query attention with one key and value may have too (Step-3, arXiv 2507.19427, section 3.2).
struct LatentAttention {
  std::int64_t q_lora_rank = 0;
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  bool operator==(const LatentAttention&) const = default;
};

// Attention of a query to the tokens alone that an indexer scores highest (deepseek-ai/DeepSeek-V3.2-Exp @6d8cb70
// inference/model.py, classes Indexer and MLA): the sum over its heads of a weight times ReLU(q k), with one key for
// all heads. Over latents, which all heads of attention share, so that they share the choice. Of grouped queries each
// group has a head of the indexer and a choice of blocks of tokens, by the largest q k in them, the query's own block
// among them (MiniMax Sparse Attention, arXiv 2606.13392; class MiniMaxM3VLIndexer of huggingface/transformers @0117d5f
// src/transformers/models/minimax_m3_vl/modular_minimax_m3_vl.py).
struct SparseAttention {
  std::int64_t tokens = 0;  // that a query sees at most, or compressed entries; 0: all
  std::int64_t heads = 0, head_dim = 0;
  std::int64_t block = 1;  // tokens that are chosen as one

  // Tokens that a query far into a sequence sees, in the mean: its own block ends after it.
  std::int64_t seen() const { return tokens - (block - 1) / 2; }
  bool operator==(const SparseAttention&) const = default;
};

// Attention of all heads to one vector of each token, which is its key and its value; queries are projected through a
// latent, and the heads' results by groups, each to a latent of its own (DeepSeek-V4, arXiv 2606.19348, section 2.3).
// Beyond a window a compressed entry stands for a block of tokens: a sum of projections of the block, weighed in each
// column by the softmax of other projections over the block. Entries among which an indexer chooses are of their block
// and the one before.
struct SharedKeyValue {
  std::int64_t output_groups = 1, output_rank = 0;  // rank: of a group's latent
  // Tokens of a block, in layers that see all compressed entries, or chosen ones.
  std::int64_t compression = 0, sparse_compression = 0;

  std::int64_t compression_of(Mixer mixer) const {
    if (mixer == Mixer::sparse_compressed_attention) return sparse_compression;
    return mixer == Mixer::compressed_attention ? compression : 0;
  }
  bool operator==(const SharedKeyValue&) const = default;
};

// Mixture of experts. routed_experts 0: the model is dense.
struct MixtureOfExperts {
  std::int64_t routed_experts = 0;
  std::int64_t shared_experts = 0;
  std::int64_t experts_per_token = 0;
  // Experts that return their input: the router scores them, too. `experts_per_token` are those of a token that it is
  // expected to choose of the others.
  std::int64_t idle_experts = 0;
  std::int64_t intermediate_size = 0;         // size of one routed expert
  std::int64_t latent_size = 0;               // columns of what routed experts read and write; 0: the hidden size
  std::int64_t shared_intermediate_size = 0;  // size of all shared experts; 0: each is as large as a routed one
  bool latent_norm = false;                   // of the sums of experts, before they are projected back (kimi_k3)
  bool shared_gate = false;                   // the shared experts' output times sigmoid(x . w) (qwen2_moe)
  // A layer with experts has a dense MLP too; router, experts and MLP each read the stream behind a norm of their own,
  // and what experts and MLP make is normalised before it is added (gemma4).
  bool with_dense = false;
  std::int64_t groups = 1;                 // expert groups of group-limited routing (n_group)
  std::int64_t groups_per_token = 1;       // topk_group
  std::int64_t dense_layers_first = 0;     // layers before the first MoE layer (first_k_dense_replace)
  std::int64_t layer_frequency = 1;        // every n-th layer after those is MoE (moe_layer_freq)
  std::int64_t layer_offset = 0;           // remainder of those layers' numbers by n
  std::vector<std::int64_t> dense_layers;  // further dense ones (mlp_only_layers); number `layers`: prediction modules
  ScoreFunction score = ScoreFunction::softmax;
  // The score of a group is the sum of its two best experts (DeepSeek-V3) or its best one (DeepSeek-V2).
  int group_score_experts = 1;
  bool normalize_weights = false;  // norm_topk_prob
  double scaling_factor = 1.0;     // routed_scaling_factor

  std::int64_t shared_width() const {  // intermediate size of the shared experts as one MLP
    return shared_intermediate_size > 0 ? shared_intermediate_size : shared_experts * intermediate_size;
  }
  bool operator==(const MixtureOfExperts&) const = default;
};

// The GEMMs of a layer that add a bias to every row.
struct Biases {
  bool query_key_value = false;
  bool attention_output = false;
  bool mlp = false;
  bool router = false;
  bool experts = false;  // of their second GEMM, times the row's weight; that of the first is part of it
  bool operator==(const Biases&) const = default;
};

// Probabilities of setting an entry to zero in training.
struct Dropout {
  double embedding = 0;
  double attention = 0;  // for softmax probabilities
  double residual = 0;   // for what attention and MLP add to the residual stream
  bool operator==(const Dropout&) const = default;
};

// Restricts grouped-query attention to the last `tokens` tokens, the query's own included.
struct SlidingWindow {
  std::int64_t tokens = 0;       // 0: no layer has a window
  std::int64_t first_layer = 0;  // layers before it have no window
  std::int64_t full_every = 0;   // the n-th, 2n-th, ... layer, counted from one, has none; 0: each has
  std::int64_t full_offset = 0;  // remainder by n of the numbers, counted from one, of those that have none
  bool chunks = false;           // sequences are cut into chunks of `tokens`, and a query sees its own (llama4)
  bool rotary_only = false;      // layers without a window do not rotate queries and keys (llama4)
  // Heads of layers with the window; 0: as many, or as wide, as those of other layers.
  std::int64_t heads = 0, key_value_heads = 0, head_dim = 0, rotary_dim = 0;
  bool operator==(const SlidingWindow&) const = default;
};

// How values differ from what is projected next to queries and keys (gemma4).
struct HeadValues {
  bool normalized = false;  // each head's value is, without a gain
  bool are_keys = false;    // of layers without a window, whose values are keys before they are normalised
  bool operator==(const HeadValues&) const = default;
};

// The last layers of a model that attend to the keys and values of another: of the last one before them all that
// attends as they do, to the window or to all tokens (gemma4).
struct BorrowedKeyValues {
  std::int64_t layers = 0;
  std::int64_t intermediate_size = 0;  // of their MLPs; 0: as those of other layers
  bool operator==(const BorrowedKeyValues&) const = default;
};

// Blocks of attention and an MLP with one set of matrices for several layers (Zamba2, arXiv 2411.15242): they read the
// stream and the embedding side by side, and what a layer projects of their result is added to what its recurrence
// reads.
struct SharedBlocks {
  std::int64_t adapter_rank = 0;    // of what each layer adds to the first GEMM of the MLP; 0: no layer has a block
  bool attention_adapters = false;  // and to queries, keys and values
  bool operator==(const SharedBlocks&) const = default;
};

// An input of each layer apart from the stream, which a gate that is projected of the stream multiplies and which is
// added to it behind the MLP: the token's row of a table of the layer, and a projection of the token's embedding, which
// is normalised (gemma4).
struct LayerInputs {
  std::int64_t columns = 0;     // of a layer; 0: there are none
  std::int64_t vocabulary = 0;  // rows of the tables
  bool operator==(const LayerInputs&) const = default;
};

// The heads of a layer of grouped-query attention.
struct HeadShape {
  std::int64_t heads = 0, key_value_heads = 0;
  std::int64_t query_key_dim = 0, value_dim = 0;
  std::int64_t rotary_dim = 0;  // rotated columns of queries and keys
  bool operator==(const HeadShape&) const = default;
};

// A mixer whose heads each carry a state [key_dim, value_dim] from token to token in place of keys and values. Queries,
// keys and values come from one projection through a short causal convolution and SiLU; gates or constants decay the
// state; a gate as wide as the values multiplies the normalised result. What Mamba-2 names B, C, x, z and groups are
// keys, queries, values, that gate and key heads.
enum class RecurrenceKind : std::uint8_t {
  gated_delta,     // Gated DeltaNet (arXiv 2412.06464): a token replaces what the state has for its key
  channel_delta,   // Kimi Delta Attention (arXiv 2510.26692): the same with a decay of each column of the keys
  state_space,     // Mamba-2 (arXiv 2405.21060): a token adds to the state
  constant_decay,  // lightning attention (arXiv 2405.17381): the same with a constant factor for each head
  // No state but the last inputs of the convolution, of one product of projected columns, which another multiplies
  // (LFM2): heads have values alone.
  short_convolution,
  // Mamba-1 (arXiv 2312.00752): state_space with heads of one value, the channels, a decay of each entry of a state,
  // and one query and key for all, which are projected of the convolution's result as time steps are. It gates the
  // result.
  selective_scan
};
struct Recurrence {
  RecurrenceKind kind = RecurrenceKind::gated_delta;
  std::int64_t key_heads = 0, value_heads = 0;  // value_heads 0: no layer has a recurrence
  std::int64_t key_dim = 0, value_dim = 0;
  std::int64_t convolution = 4;  // taps; 0: none, SiLU alone
  bool convolution_bias = false;
  bool normalized = true;  // the result, before or after it is gated; selective_scan: time steps, queries, keys
  bool norm_gains = true;  // of the latter
  bool full_gate = false;  // output gates are projected whatever gate_rank is
  // Of the two matrices each behind decays and output gates, 0: they are projected; or behind time steps.
  std::int64_t gate_rank = 0;
  std::int64_t chunk = 64;       // tokens that the kernels of training and prompts compute as one
  std::int64_t state_bytes = 0;  // of an entry of the state between passes of inference; 0: not stated by config.json

  std::int64_t kept_bytes() const { return state_bytes > 0 ? state_bytes : 4; }
  bool delta() const { return kind == RecurrenceKind::gated_delta || kind == RecurrenceKind::channel_delta; }
  bool constant() const { return kind == RecurrenceKind::constant_decay; }
  bool scanned() const { return kind != RecurrenceKind::short_convolution; }  // has a state
  bool selective() const { return kind == RecurrenceKind::selective_scan; }
  // Columns next to queries, keys and values: decay and strength, the strength, or the time step.
  std::int64_t head_gates() const {
    if (constant() || selective() || !scanned()) return 0;
    return kind == RecurrenceKind::gated_delta ? 2 : 1;
  }
  // Columns of the decays that are projected apart.
  std::int64_t channel_gates() const { return kind == RecurrenceKind::channel_delta ? key_dim : 0; }
  // Decay, biases of its gates, the way past the state.
  std::int64_t head_parameters() const {
    if (kind == RecurrenceKind::channel_delta) return 1 + key_dim;
    if (selective()) return key_dim + 2;
    return constant() ? 0 : delta() ? 2 : 3;
  }
  bool operator==(const Recurrence&) const = default;
};

// What a model has and no operator here computes: it takes no time, and the executor refuses the model.
struct Omissions {
  std::vector<std::string> what;  // "attention sinks", ...
  double parameters = 0;          // of the whole model; they are counted, but are in no rank's memory
  bool operator==(const Omissions&) const = default;
};

// What the file states of the numbers in a checkpoint of the model. Empty: it does not.
struct CheckpointFormats {
  std::string weights;     // as inference.weights has them: "fp8" with scales of blocks, "fp8_tensor"; or "int4"
  std::string key_values;  // that their scales are made for, as inference.kv_cache has them
  bool operator==(const CheckpointFormats&) const = default;
};

struct Architecture {
  std::string name;        // file stem, for display
  std::string model_type;  // Hugging Face's model_type, e.g. deepseek_v3
  CheckpointFormats checkpoint;
  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;
  // Copies of the residual stream. Each half of a layer reads a weighted sum of them, adds its weighted result to each
  // and mixes them, by weights that are projected of all copies (hyper-connections, arXiv 2409.19606; 2512.24880).
  std::int64_t residual_streams = 1;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dim = 0;   // grouped-query attention only
  std::int64_t value_dim = 0;  // of a head's values there; 0: head_dim
  std::int64_t intermediate_size = 0;
  std::int64_t vocabulary = 0;
  bool tied_embedding = false;
  NormKind norm = NormKind::root_mean_square;
  bool norm_bias = false;  // layer norm only
  bool norm_gains = true;  // of the norms of the stream (nanochat has none)
  double norm_epsilon = 1e-6;
  bool query_key_norm = false;  // every head's query and key are normalised (qwen3)
  bool query_key_gains = true;  // by norms with a gain
  HeadValues values;
  BorrowedKeyValues borrowed;
  LayerInputs layer_inputs;
  SharedBlocks shared_blocks;
  bool output_gate = false;  // attention's result times the sigmoid of a projection as wide (qwen3_next)
  bool head_gate = false;    // that of each head times the sigmoid of one column of a projection (laguna)
  MlpKind mlp = MlpKind::swiglu;
  double swiglu_limit = 0;         // of gate and up before experts' SwiGLU (gpt_oss); 0: none
  bool post_norms = false;         // what attention and MLP add to the stream is normalised, too (gemma)
  bool parallel_residual = false;  // attention and MLP read the same input (gpt_neox)
  bool shared_norm = false;        // normalised once for both (cohere)
  PositionKind positions = PositionKind::rotary;
  std::int64_t position_table = 0;    // rows of the table of learned positions
  std::int64_t longest_sequence = 0;  // tokens, for which the model was made; 0: its file states none
  double rope_theta = 10000.0;
  bool rope_scaled = false;     // sine and cosine are multiplied by a factor (YaRN)
  std::int64_t rotary_dim = 0;  // rotated columns of a head; 0: all of them (grouped-query attention)
  Biases biases;
  Dropout dropout;
  SlidingWindow window;
  std::int64_t multi_token_prediction_layers = 0;
  AttentionKind attention = AttentionKind::grouped_query;
  LatentAttention latent;
  SparseAttention sparse;
  SharedKeyValue shared;
  Recurrence recurrence;
  MixtureOfExperts experts;
  std::vector<LayerKind> pattern;  // of each layer; empty: attention and an MLP in each, by window and experts
  Omissions omitted;

  // Columns of the tokens that are sent to routed experts. To a latent all tokens of a layer are projected, and from it
  // the sums of their experts (LatentMoE, arXiv 2601.18089).
  std::int64_t expert_hidden() const { return experts.latent_size > 0 ? experts.latent_size : hidden_size; }
  // Columns of a token between layers.
  std::int64_t stream_columns() const { return residual_streams * hidden_size; }
  LayerKind layer(std::int64_t number) const;  // counted from 0
  std::int64_t mlp_columns(LayerKind kind) const;
  // Columns of the inputs of all layers of a token.
  std::int64_t layer_input_columns() const { return layers * layer_inputs.columns; }
  HeadShape head_shape(bool windowed) const;
  bool is_moe_layer(std::int64_t number) const { return layer(number).feed_forward == FeedForward::experts; }
  bool has_dense_mlp() const;  // in any layer, in place of experts or next to them
  bool operator==(const Architecture&) const = default;
};

}  // namespace plumbline::model
