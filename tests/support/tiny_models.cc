#include "tests/support/tiny_models.h"

namespace plumbline::tests {

namespace {

using enum model::BlockKind;

model::Architecture common(std::string model_type) {
  return {.model_type = std::move(model_type),
          .layers = 2,
          .hidden_size = 12,
          .heads = 2,
          .key_value_heads = 2,
          .intermediate_size = 10,
          .vocabulary = 11};
}

model::Architecture deepseek_v3() {
  model::Architecture a = common("deepseek_v3");
  a.multi_token_prediction_layers = 1;
  a.attention = model::AttentionKind::multi_head_latent;
  a.latent = {.q_lora_rank = 7, .kv_lora_rank = 5, .qk_nope_head_dim = 3, .qk_rope_head_dim = 4, .v_head_dim = 6};
  a.experts = {.routed_experts = 8,
               .shared_experts = 1,
               .experts_per_token = 3,
               .intermediate_size = 4,
               .groups = 4,
               .groups_per_token = 2,
               .dense_layers_first = 1,
               .score = model::ScoreFunction::sigmoid,
               .group_score_experts = 2,
               .normalise_weights = true,
               .scaling_factor = 2.5};
  return a;
}

model::Architecture deepseek_v2(std::int64_t q_lora_rank) {
  model::Architecture a = deepseek_v3();
  a.model_type = "deepseek_v2";
  a.multi_token_prediction_layers = 0;
  a.latent.q_lora_rank = q_lora_rank;
  a.experts.shared_experts = 2;
  a.experts.score = model::ScoreFunction::softmax;
  a.experts.group_score_experts = 1;
  a.experts.normalise_weights = false;
  return a;
}

model::Architecture llama(bool tied_embedding) {
  model::Architecture a = common("llama");
  a.heads = 4;
  a.head_dim = 6;
  a.tied_embedding = tied_embedding;
  a.multi_token_prediction_layers = tied_embedding ? 1 : 0;
  return a;
}

}  // namespace

std::vector<TinyModel> tiny_models() {
  return {
      {"deepseek_v3", deepseek_v3(), {embedding, dense_layer, moe_layer, multi_token_prediction, head}},
      {"deepseek_v2", deepseek_v2(7), {embedding, dense_layer, moe_layer, head}},
      {"deepseek_v2_lite", deepseek_v2(0), {embedding, moe_layer, head}},
      {"llama", llama(false), {embedding, dense_layer, dense_layer, head}},
      {"llama_tied", llama(true), {embedding, dense_layer, multi_token_prediction, head}},
  };
}

model::LayerContext tiny_context(const TinyModel& model, const TinyLayout& layout) {
  return {.architecture = model.architecture,
          .gemm = layout.precision,
          .dispatch = layout.precision,
          .recompute = layout.recompute,
          .tokens = layout.sequences / layout.ranks * tiny_sequence_length,
          .sequence_length = tiny_sequence_length,
          .expert_parallel = layout.ranks,
          .groups_per_token = model.architecture.experts.groups_per_token,
          .distinct_ranks_per_token = static_cast<double>(layout.ranks)};
}

}  // namespace plumbline::tests
