// MiniMax-Text-01 (arXiv 2501.08313) and MiniMax-M1 (arXiv 2506.13585): lightning attention, with softmax attention in
// each eighth layer. Keys: config.json of MiniMaxAI/MiniMax-M1-80k, and of its port, which has names of layers,
// huggingface/transformers @008e574 src/transformers/models/minimax/modular_minimax.py; chunks: vllm-project/vllm
// @030ea52 vllm/model_executor/layers/lightning_attn.py. The stream is normalised before it is added to, and scaled, in
// kernels that are there. MiniMax-M2 (model card of MiniMaxAI/MiniMax-M2) has softmax attention alone.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
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

}  // namespace plumbline::model
