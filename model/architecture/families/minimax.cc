// MiniMax-Text-01 (arXiv 2501.08313) and MiniMax-M1 (arXiv 2506.13585): lightning attention, with softmax attention in
// each eighth layer. Keys: config.json of MiniMaxAI/MiniMax-M1-80k, and of its port, which has names of layers,
// huggingface/transformers @008e574 src/transformers/models/minimax/modular_minimax.py; chunks: vllm-project/vllm
// @030ea52 vllm/model_executor/layers/lightning_attn.py. The stream is normalised before it is added to, and scaled, in
// kernels that are there. MiniMax-M2 (model card of MiniMaxAI/MiniMax-M2) has softmax attention alone, MiniMax-M3 that
// to blocks of tokens which an indexer chooses (huggingface/transformers @01a05aa
// src/transformers/models/minimax_m3_vl/configuration_minimax_m3_vl.py).
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
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
  if (config.flag("use_mtp", true)) model.multi_token_prediction_layers = config.layers("num_mtp_modules", 3);
  if (config.flag("use_qk_norm", true)) omit_wide_norms(model, "norms over the queries and keys of all heads at once");
}

// A config.json of model_type minimax_m3_vl has the text model inside text_config, which its hub calls minimax_m2;
// vision is not read. Its keys of blocks are inside an object of their own on the hub.
void read_minimax_m3(ConfigReader& config, Architecture& model) {
  config.read_inside("text_config");
  read_llama_like(config, model, {.key_value_heads = 4, .head_dim = 128, .rope_theta = 5e6});
  model.rotary_dim = config.count("rotary_dim", 64);
  model.query_key_norm = true;
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
  model.multi_token_prediction_layers = config.layers("num_mtp_modules", 0);
  for (const char* key : {"sparse_attention_config.sparse_topk_blocks", "index_topk_blocks"})
    if (config.count(key, 0) > 0)
      config.fail(key, "attention of grouped queries to blocks of tokens that an indexer chooses",
                  "0 predicts attention to all tokens, as Megatron-Bridge trains it");
}

}  // namespace plumbline::model
