// MiniMax-Text-01 (arXiv 2501.08313) and MiniMax-M1 (arXiv 2506.13585): lightning attention, with softmax attention in
// each eighth layer. Keys: config.json of MiniMaxAI/MiniMax-M1-80k, and of its port, which has names of layers,
// huggingface/transformers @008e574 src/transformers/models/minimax/modular_minimax.py; chunks: vllm-project/vllm
// @030ea52 vllm/model_executor/layers/lightning_attn.py. The stream is normalised before it is added to, and scaled, in
// kernels that are there. MiniMax-M2 (model card of MiniMaxAI/MiniMax-M2) has softmax attention alone, MiniMax-M3 that
// to blocks of tokens which an indexer chooses (arXiv 2606.13392; huggingface/transformers @0117d5f
// src/transformers/models/minimax_m3_vl/modular_minimax_m3_vl.py).
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

// Each layer's number is 1 for softmax attention, 0 for lightning attention.
void read_attention_types(ConfigReader& config, Architecture& model) {
  const std::vector<std::int64_t> types = config.counts("attn_type_list");
  if (types.empty()) return read_mixers(config, model, 8);
  if (types.size() < static_cast<std::size_t>(model.layers)) {
    config.conflict("attn_type_list", fmt::format("{} types for {} layers", types.size(), model.layers),
                    "state one type for each of num_hidden_layers");
    return;
  }
  std::vector<LayerKind> pattern;
  for (std::int64_t number = 0; number < model.layers; ++number) {
    LayerKind kind = model.layer(number);
    const std::int64_t type = types[static_cast<std::size_t>(number)];
    if (type > 1)
      config.fail("attn_type_list", fmt::format("unknown type of attention {}", type), "0: lightning, 1: softmax");
    if (type == 0) kind.mixer = Mixer::recurrence;
    pattern.push_back(kind);
  }
  model.pattern = pattern;
}

// Names of layers, or each layer's number, 1 for attention to chosen blocks. The hub's file has the keys of blocks
// inside an object of their own, and that the query's block is among the chosen ones.
void read_blocks(ConfigReader& config, Architecture& model) {
  const auto named = [](std::string_view key) { return fmt::format("sparse_attention_config.{}", key); };
  const auto stated = [&](std::string_view hub, std::string_view flat, std::int64_t missing) {
    return config.dimension(named(hub), config.dimension(flat, missing));
  };
  const std::int64_t blocks = config.count(named("sparse_topk_blocks"), config.count("index_topk_blocks", 16));
  if (blocks == 0 || !config.flag(named("use_sparse_attention"), true)) return;
  const std::vector<std::int64_t> numbers = config.counts(named("sparse_attention_freq"));
  const std::vector<std::int64_t> without_values = config.counts(named("sparse_disable_index_value"));
  const std::vector<std::string> names = config.texts("layer_types");
  const std::int64_t listed = model.layers + (model.multi_token_prediction_layers > 0 ? 1 : 0);
  std::vector<LayerKind> pattern;
  for (std::int64_t layer = 0; layer < listed; ++layer) {
    const auto number = static_cast<std::size_t>(std::min(layer, model.layers - 1));  // predictions are as the last one
    LayerKind kind = model.layer(layer);
    const bool chooses = names.empty() ? number < numbers.size() && numbers[number] != 0
                                       : number < names.size() && names[number] == "minimax_m3_sparse";
    if (chooses) kind.mixer = Mixer::sparse_attention;
    if (chooses && number < without_values.size() && without_values[number] == 0)
      config.fail(named("sparse_disable_index_value"), "an indexer with values of its own",
                  "MiniMax-M3 has 1 for each layer that chooses blocks");
    pattern.push_back(kind);
  }
  const auto chooses = [](const LayerKind& kind) { return kind.mixer == Mixer::sparse_attention; };
  if (std::ranges::none_of(pattern, chooses)) return;
  model.pattern = pattern;
  model.sparse = {.heads = stated("sparse_num_index_heads", "index_n_heads", 4),
                  .head_dim = stated("sparse_index_dim", "index_head_dim", 128),
                  .block = stated("sparse_block_size", "index_block_size", 128)};
  model.sparse.tokens = blocks * model.sparse.block;
  if (model.sparse.heads != model.key_value_heads)
    config.conflict(
        named("sparse_num_index_heads"),
        fmt::format("{} heads of the indexer for {} groups of queries", model.sparse.heads, model.key_value_heads),
        "each group has one: num_key_value_heads");
}

}  // namespace

void read_minimax(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8, .norm_epsilon = 1e-5, .rope_theta = 1e6});
  model.rotary_dim = config.count("rotary_dim", 0);
  read_local_experts(config, model, 8, 2);
  if (config.count("shared_intermediate_size", 0) > 0)
    config.fail("shared_intermediate_size", "no operator weighs shared experts as this model does",
                "MiniMax-Text-01 and MiniMax-M1 have none: 0");
  model.recurrence = lightning_attention(model, config.dimension("block_size", 256));
  read_attention_types(config, model);
}

void read_minimax_m2(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8, .head_dim = 128, .rope_theta = 5e6});
  model.rotary_dim = config.count("rotary_dim", 64);
  read_local_experts(config, model, 256, 8);
  model.experts.score = ScoreFunction::sigmoid;
  if (config.flag("use_mtp", true)) read_prediction(config, model, 3, "num_mtp_modules");
  if (config.flag("use_qk_norm", true)) omit_wide_norms(model);
}

// The text model inside, which its hub calls minimax_m2. Of its modules of multi-token prediction one is trained
// (num_nextn_predict_layers).
void read_minimax_m3(ConfigReader& config, Architecture& model) {
  read_llama_like(
      config, model,
      {.key_value_heads = 4, .head_dim = 128, .rope_theta = 5e6, .activation = "", .head_norm = HeadNorm::each});
  if (!config.is_text("hidden_act", "swigluoai")) read_activation(config, model, "hidden_act", "silu", true);
  model.rotary_dim = config.count("rotary_dim", 64);
  model.swiglu_limit = config.number("swiglu_limit", 7);
  read_local_experts(config, model, 128, 4);
  MixtureOfExperts& experts = model.experts;
  experts.score = ScoreFunction::sigmoid;
  experts.scaling_factor = config.number("routed_scaling_factor", 2);
  experts.shared_experts = config.count("n_shared_experts", 1);
  experts.shared_intermediate_size = experts.shared_experts * config.dimension("shared_intermediate_size", 3072);
  const std::vector<std::int64_t> sparse = config.counts("moe_layer_freq");
  const std::vector<std::string> kinds = config.texts("mlp_layer_types");
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const auto number = static_cast<std::size_t>(layer);
    if ((number < sparse.size() && sparse[number] == 0) || (number < kinds.size() && kinds[number] == "dense"))
      experts.dense_layers.push_back(layer);
  }
  model.intermediate_size = config.dimension("dense_intermediate_size", 12288);
  read_prediction(config, model, config.layers("num_mtp_modules", 0));
  read_blocks(config, model);
}

}  // namespace plumbline::model
