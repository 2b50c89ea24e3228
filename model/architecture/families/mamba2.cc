// Models with Mamba-2 (arXiv 2405.21060) in most layers: Nemotron-H and Nemotron 3, Granite 4, Bamba, Falcon-H1 (arXiv
// 2507.22448); and with Mamba-1 (arXiv 2312.00752): Jamba (arXiv 2403.19887). Both were published with nothing else.
// Keys and their values where missing: huggingface/transformers @13923c6 src/transformers/models/nemotron_h and
// granitemoehybrid, @001f85b bamba, @020a37d falcon_h1, @008f5c8 jamba, @00a11b6 falcon_mamba, mamba and mamba2,
// @02f5807 zamba2, configuration_*.py.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/architecture/families/families.h"
#include "model/base/integers.h"

namespace plumbline::model {
namespace {

void require_no_projection_bias(ConfigReader& config) {
  if (config.flag("mamba_proj_bias", false))
    config.fail("mamba_proj_bias", "no operator adds biases to the projections of a recurrence", "use false");
}

// Reads a recurrence by the keys of Granite and Falcon-H1; `inner`: columns of all its values.
void read_mamba(ConfigReader& config, Architecture& model, std::int64_t inner) {
  const std::int64_t heads = config.dimension("mamba_n_heads", 128);
  const std::int64_t columns = std::max<std::int64_t>(1, inner / heads);  // of a head, missing or "auto"
  const bool automatic = config.is_text("mamba_d_head", "auto");
  model.recurrence = {.kind = RecurrenceKind::state_space,
                      .key_heads = config.dimension("mamba_n_groups", 1),
                      .value_heads = heads,
                      .key_dim = config.dimension("mamba_d_state", 256),
                      .value_dim = automatic ? columns : config.dimension("mamba_d_head", columns),
                      .convolution = config.dimension("mamba_d_conv", 4),
                      .convolution_bias = config.flag("mamba_conv_bias", true),
                      .chunk = config.dimension("mamba_chunk_size", 256)};
  finish_recurrence(config, model, "mamba_ssm_dtype", "mamba_n_groups");
  require_no_projection_bias(config);
}

// Returns a recurrence of Mamba-1 with a chunk of its kernel's tokens, kNThreads * kNItems of
// selective_scan_fwd_kernel.cuh; `key`: its rank of time steps, missing or "auto" that of the hidden size.
Recurrence selective_scan(ConfigReader& config, const Architecture& model, std::string_view rank_key) {
  const std::int64_t rank = ceil_div(model.hidden_size, 16);
  return {.kind = RecurrenceKind::selective_scan,
          .key_heads = 1,
          .value_dim = 1,
          .gate_rank = config.is_text(rank_key, "auto") ? rank : config.dimension(rank_key, rank),
          .chunk = 2048};
}

// Reads a model whose layers have a recurrence alone; `tied`: where the file does not state it.
void read_recurrences_alone(ConfigReader& config, Architecture& model, bool tied) {
  model.layers = config.layers("num_hidden_layers");
  model.hidden_size = config.dimension("hidden_size");
  model.vocabulary = config.dimension("vocab_size");
  model.tied_embedding = config.flag("tie_word_embeddings", tied);
  model.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  model.positions = PositionKind::none;
  model.pattern.assign(static_cast<std::size_t>(model.layers), {Mixer::recurrence, FeedForward::none});
  read_activation(config, model, "hidden_act", "silu", true);
  if (config.flag("use_bias", false))
    config.fail("use_bias", "no operator adds biases to the projections of a recurrence", "use false");
}

// Returns a layer's symbol in the pattern of Nemotron-H: by its name in the newer key, else as the older one has it.
std::string layer_symbols(ConfigReader& config, std::string_view names, std::string_view pattern) {
  std::string symbols;
  for (const std::string& name : config.texts(names)) {
    const bool recurrent = name == "mamba" || name == "linear_attention";
    symbols += recurrent ? 'M' : name == "attention" || name == "full_attention" ? '*' : name == "moe" ? 'E' : '-';
  }
  return symbols.empty() ? config.text(pattern, "") : symbols;
}

void read_nemotron_pattern(ConfigReader& config, Architecture& model, const std::string& symbols) {
  if (symbols.size() < static_cast<std::size_t>(model.layers)) {
    config.conflict("hybrid_override_pattern", fmt::format("{} symbols for {} layers", symbols.size(), model.layers),
                    "state one of M, *, - and E for each of num_hidden_layers");
    return;
  }
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const char symbol = symbols[static_cast<std::size_t>(layer)];
    LayerKind kind{Mixer::none, FeedForward::none};
    if (symbol == 'M')
      kind.mixer = Mixer::recurrence;
    else if (symbol == '*')
      kind.mixer = Mixer::attention;
    else if (symbol == 'E')
      kind.feed_forward = FeedForward::experts;
    else if (symbol == '-')
      kind.feed_forward = FeedForward::dense;
    else
      config.fail("hybrid_override_pattern", fmt::format("unknown layer '{}'", symbol),
                  "M: Mamba-2, *: attention, -: MLP, E: experts");
    model.pattern.push_back(kind);
  }
}

void read_nemotron_experts(ConfigReader& config, Architecture& model) {
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("n_routed_experts", 8);
  experts.experts_per_token = config.dimension("num_experts_per_tok", 2);
  experts.intermediate_size = config.dimension("moe_intermediate_size", 7688);
  experts.shared_experts = config.count("n_shared_experts", 1);
  experts.shared_intermediate_size = config.dimension("moe_shared_expert_intermediate_size", 7688);
  experts.groups = config.dimension("n_group", 1);
  experts.groups_per_token = config.dimension("topk_group", 1);
  experts.score = ScoreFunction::sigmoid;
  experts.group_score_experts = 2;
  experts.normalize_weights = config.flag("norm_topk_prob", true);
  experts.scaling_factor = config.number("routed_scaling_factor", 1);
  read_expert_latent(config, model);
  if (experts.latent_size > 0 && model.biases.mlp)
    config.fail("mlp_bias", "no operator adds biases to the projections of a latent", "use false");
  check_experts_per_token(config, model, "n_routed_experts");
}

// A module of prediction has attention and experts, as one layer of other models does.
void read_nemotron_prediction(ConfigReader& config, Architecture& model) {
  read_prediction(config, model);
  const std::string symbols = layer_symbols(config, "mtp_layers_block_type", "mtp_hybrid_override_pattern");
  if (model.multi_token_prediction_layers > 0 && !symbols.empty() && symbols != "*E")
    config.fail("mtp_hybrid_override_pattern", fmt::format("a module of prediction with layers '{}'", symbols),
                "attention and experts, *E, are known");
}

}  // namespace

// Each layer does one thing, and positions are not encoded.
void read_nemotron_h(ConfigReader& config, Architecture& model) {
  const std::string symbols = layer_symbols(config, "layers_block_type", "hybrid_override_pattern");
  read_llama_like(config, model,
                  {.key_value_heads = 8,
                   .head_dim = 128,
                   .norm_epsilon = 1e-5,
                   .activation_key = "mlp_hidden_act",
                   .activation = "relu2",
                   .gated = false,
                   .dense_mlp = false,
                   .layers = std::ssize(symbols),
                   .biases = llama_biases});
  model.positions = PositionKind::none;
  model.recurrence = {.kind = RecurrenceKind::state_space,
                      .key_heads = config.dimension("n_groups", 8),
                      .value_heads = config.dimension("mamba_num_heads", 128),
                      .key_dim = config.dimension("ssm_state_size", 128),
                      .value_dim = config.dimension("mamba_head_dim", 64),
                      .convolution = config.dimension("conv_kernel", 4),
                      .convolution_bias = config.flag("use_conv_bias", true),
                      .chunk = config.dimension("chunk_size", 128)};
  finish_recurrence(config, model, "mamba_ssm_cache_dtype", "n_groups");
  require_no_projection_bias(config);
  read_nemotron_experts(config, model);
  read_nemotron_pattern(config, model, symbols);
  bool sparse = false;
  for (const LayerKind& kind : model.pattern) sparse = sparse || kind.feed_forward == FeedForward::experts;
  if (!sparse) model.experts = {};
  read_nemotron_prediction(config, model);
}

// Each layer has a recurrence or attention, then experts with a shared one, or without experts an MLP as wide as that.
void read_granite_hybrid(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.dense_mlp = false, .biases = attention_biases});
  if (config.text("position_embedding_type", "nope") != "rope") model.positions = PositionKind::none;
  const std::int64_t shared = config.dimension("shared_intermediate_size", 1024);
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.count("num_local_experts", 8);
  experts.experts_per_token = config.count("num_experts_per_tok", 2);
  if (experts.routed_experts > 0) {
    experts.intermediate_size = model.intermediate_size;
    experts.shared_experts = 1;
    experts.shared_intermediate_size = shared;
    // A softmax over the selected experts' logits equals a softmax over all, normalised among the selected ones.
    experts.normalize_weights = true;
    check_experts_per_token(config, model, "num_local_experts");
  } else {
    experts = {};
  }
  model.intermediate_size = shared;
  read_mamba(config, model, config.dimension("mamba_expand", 2) * model.hidden_size);
  read_mixers(config, model, model.layers + 1);
}

// Each layer has attention, if the list of them has its number, or a recurrence, then an MLP.
void read_bamba(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8, .norm_epsilon = 1e-5, .rotary_share = 0.5});
  read_mamba(config, model, config.dimension("mamba_expand", 2) * model.hidden_size);
  model.pattern.assign(static_cast<std::size_t>(model.layers), {Mixer::recurrence, FeedForward::dense});
  for (const std::int64_t number : config.counts("attn_layer_indices"))
    if (number < model.layers) model.pattern[static_cast<std::size_t>(number)].mixer = Mixer::attention;
}

// Each n-th layer from an offset on has attention, the others a recurrence; each m-th from another one experts, of
// which a token's keep their shares of all, the others an MLP as wide. Positions are not encoded.
void read_jamba(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8});
  model.positions = PositionKind::none;
  model.recurrence = selective_scan(config, model, "mamba_dt_rank");
  model.recurrence.value_heads = config.dimension("mamba_expand", 2) * model.hidden_size;
  model.recurrence.key_dim = config.dimension("mamba_d_state", 16);
  model.recurrence.convolution = config.dimension("mamba_d_conv", 4);
  model.recurrence.convolution_bias = config.flag("mamba_conv_bias", true);
  require_no_projection_bias(config);
  MixtureOfExperts& experts = model.experts;
  read_local_experts(config, model, 16, 2, "num_experts");
  experts.normalize_weights = false;
  const std::int64_t expert_period = config.dimension("expert_layer_period", 2);
  const std::int64_t expert_offset = config.count("expert_layer_offset", 1);
  const std::int64_t attention_period = config.dimension("attn_layer_period", 8);
  const std::int64_t attention_offset = config.count("attn_layer_offset", 4);
  for (const auto& [key, offset, period] : {std::tuple{"expert_layer_offset", expert_offset, expert_period},
                                            {"attn_layer_offset", attention_offset, attention_period}})
    if (offset >= period)
      config.conflict(key, fmt::format("{} is not below its period, {}", offset, period), "no layer would have it");
  if (experts.routed_experts == 1) experts = {};  // an MLP
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    model.pattern.push_back({layer % attention_period == attention_offset ? Mixer::attention : Mixer::recurrence,
                             experts.routed_experts > 0 && layer % expert_period == expert_offset
                                 ? FeedForward::experts
                                 : FeedForward::dense});
}

// Each layer has attention and a recurrence side by side. Multipliers of activations are parts of kernels that are
// there or, as constants, of weights.
void read_falcon_h1(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8, .norm_epsilon = 1e-5, .biases = llama_biases});
  const std::int64_t expanded = config.dimension("mamba_expand", 2) * model.hidden_size;
  const std::int64_t inner = config.is_null("mamba_d_ssm") ? expanded : config.dimension("mamba_d_ssm", 1024);
  read_mamba(config, model, inner);
  model.recurrence.normalized = config.flag("mamba_rms_norm", false);
  if (model.recurrence.value_heads * model.recurrence.value_dim != inner)
    config.conflict("mamba_d_ssm",
                    fmt::format("{} heads of {} are not {} columns", model.recurrence.value_heads,
                                model.recurrence.value_dim, inner),
                    "mamba_n_heads times mamba_d_head");
  if (config.flag("projectors_bias", false))
    config.fail("projectors_bias", "no operator adds biases to the projections of a recurrence", "use false");
  model.pattern.assign(static_cast<std::size_t>(model.layers), {Mixer::attention_and_recurrence, FeedForward::dense});
}

// Mamba of state-spaces, without norms of time steps, keys and queries. A stated width is meant, whatever `expand` is.
void read_mamba1(ConfigReader& config, Architecture& model) {
  read_recurrences_alone(config, model, true);
  model.recurrence = selective_scan(config, model, "time_step_rank");
  Recurrence& r = model.recurrence;
  r.value_heads = config.dimension("intermediate_size", config.dimension("expand", 2) * model.hidden_size);
  r.key_dim = config.dimension("state_size", 16);
  r.convolution = config.dimension("conv_kernel", 4);
  r.convolution_bias = config.flag("use_conv_bias", true);
  r.normalized = false;
}

// Falcon-Mamba's norms have no gain.
void read_falcon_mamba(ConfigReader& config, Architecture& model) {
  read_mamba1(config, model);
  model.recurrence.normalized = true;
  model.recurrence.norm_gains = false;
}

// Codestral Mamba.
void read_mamba2(ConfigReader& config, Architecture& model) {
  read_recurrences_alone(config, model, false);
  model.recurrence = {.kind = RecurrenceKind::state_space,
                      .key_heads = config.dimension("n_groups", 8),
                      .value_heads = config.dimension("num_heads", 128),
                      .key_dim = config.dimension("state_size", 128),
                      .value_dim = config.dimension("head_dim", 64),
                      .convolution = config.dimension("conv_kernel", 4),
                      .convolution_bias = config.flag("use_conv_bias", true),
                      .normalized = config.flag("rms_norm", true),
                      .chunk = config.dimension("chunk_size", 256)};
  finish_recurrence(config, model, "mamba_ssm_dtype", "n_groups");
}

// Zamba2 (arXiv 2411.15242): Mamba-2 in each layer. A hybrid one has one of a few blocks that hybrid layers share in
// turn, with adapters of its own; heads of the blocks divide the stream and the embedding. A name for each layer.
void read_zamba2(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.norm_epsilon = 1e-5, .tied_embedding = true, .activation = "gelu", .dense_mlp = false});
  model.head_dim = std::max<std::int64_t>(1, 2 * model.hidden_size / model.heads);
  if (model.intermediate_size == 0) model.intermediate_size = 4 * model.hidden_size;
  model.positions = config.flag("use_mem_rope", false) ? PositionKind::rotary : PositionKind::none;
  const std::int64_t inner = config.dimension("mamba_expand", 2) * model.hidden_size;
  const std::int64_t heads = config.dimension("n_mamba_heads", 8);
  model.recurrence = {.kind = RecurrenceKind::state_space,
                      .key_heads = config.dimension("mamba_ngroups", 1),
                      .value_heads = heads,
                      .key_dim = config.dimension("mamba_d_state", 64),
                      .value_dim = std::max<std::int64_t>(1, inner / heads),
                      .convolution = config.dimension("mamba_d_conv", 4),
                      .convolution_bias = true,
                      .chunk = config.dimension("chunk_size", 256)};
  finish_recurrence(config, model, "mamba_ssm_dtype", "mamba_ngroups");
  model.shared_blocks = {config.dimension("adapter_rank", 128), config.flag("use_shared_attention_adapter", false)};
  if (config.flag("add_bias_linear", false))
    config.fail("add_bias_linear", "no operator adds biases to the projections of a recurrence", "use false");
  const std::int64_t blocks = config.dimension("num_mem_blocks", 1);
  const std::vector<std::string> names = config.texts("layers_block_type");
  if (names.size() < static_cast<std::size_t>(model.layers))
    return config.conflict("layers_block_type", fmt::format("{} names for {} layers", names.size(), model.layers),
                           "state mamba or hybrid for each of num_hidden_layers");
  std::int64_t hybrids = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    LayerKind kind{Mixer::recurrence, FeedForward::none};
    if (names[static_cast<std::size_t>(layer)] == "hybrid")
      kind = {Mixer::attention_and_recurrence, FeedForward::none, false,
              hybrids++ < blocks ? SharedBlock::first : SharedBlock::again};
    model.pattern.push_back(kind);
  }
}

}  // namespace plumbline::model
