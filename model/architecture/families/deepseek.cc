// DeepSeek-V2 (arXiv 2405.04434), DeepSeek-V3 (arXiv 2412.19437) and V3.2 (deepseek-ai/DeepSeek-V3.2-Exp @6d8cb70
// inference/model.py), GLM-5 (huggingface/transformers @008e574
// src/transformers/models/glm_moe_dsa/configuration_glm_moe_dsa.py), which has V3.2's attention, and Kimi K2 (arXiv
// 2507.20534), whose config.json states DeepSeek-V3's architecture under its own model_type; GLM-4.5 (arXiv
// 2508.06471), which has its experts.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_latent_attention(ConfigReader& config, Architecture& model, std::int64_t missing_q_rank) {
  model.attention = AttentionKind::multi_head_latent;
  // An explicit null means that queries are not compressed; a missing key means the default rank.
  model.latent.q_lora_rank = config.is_null("q_lora_rank") ? 0 : config.count("q_lora_rank", missing_q_rank);
  model.latent.kv_lora_rank = config.dimension("kv_lora_rank");
  model.latent.qk_nope_head_dim = config.dimension("qk_nope_head_dim");
  model.latent.qk_rope_head_dim = config.dimension("qk_rope_head_dim");
  model.latent.v_head_dim = config.dimension("v_head_dim");
  model.biases.query_key_value = model.biases.attention_output = config.flag("attention_bias", false);
}

namespace {

// The values of missing keys, which differ between the generations of the same router.
struct ExpertDefaults {
  std::int64_t shared_experts;
  std::int64_t groups;
  std::int64_t groups_per_token;
  std::int64_t dense_layers_first;
  bool normalize_weights;
  double scaling_factor;
  std::string_view score;
};

void check_experts(ConfigReader& config, const Architecture& model) {
  const MixtureOfExperts& experts = model.experts;
  if (experts.routed_experts % experts.groups != 0)
    config.conflict("n_group",
                    fmt::format("{} experts do not form {} equal groups", experts.routed_experts, experts.groups),
                    "it must divide n_routed_experts");
  if (experts.groups_per_token > experts.groups) {
    config.conflict("topk_group",
                    fmt::format("a token cannot use {} of {} groups", experts.groups_per_token, experts.groups),
                    "at most n_group");
    return;
  }
  const std::int64_t reachable = experts.groups_per_token * (experts.routed_experts / experts.groups);
  if (experts.experts_per_token > reachable)
    config.conflict("num_experts_per_tok",
                    fmt::format("a token cannot use {} of {} reachable experts", experts.experts_per_token, reachable),
                    "at most n_routed_experts / n_group * topk_group");
}

void read_experts(ConfigReader& config, Architecture& model, const ExpertDefaults& missing) {
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("n_routed_experts");
  experts.shared_experts = config.count("n_shared_experts", missing.shared_experts);
  experts.experts_per_token = config.dimension("num_experts_per_tok");
  experts.intermediate_size = config.dimension("moe_intermediate_size");
  read_expert_latent(config, model);
  experts.groups = config.dimension("n_group", missing.groups);
  experts.groups_per_token = config.dimension("topk_group", missing.groups_per_token);
  experts.dense_layers_first = config.count("first_k_dense_replace", missing.dense_layers_first);
  experts.layer_frequency = config.dimension("moe_layer_freq", 1);
  experts.normalize_weights = config.flag("norm_topk_prob", missing.normalize_weights);
  experts.scaling_factor = config.number("routed_scaling_factor", missing.scaling_factor);
  const std::string score = config.text("scoring_func", missing.score);
  if (score != "sigmoid" && score != "softmax")
    config.fail("scoring_func", fmt::format("unknown scoring function '{}'", score), "one of sigmoid, softmax");
  experts.score = score == "sigmoid" ? ScoreFunction::sigmoid : ScoreFunction::softmax;
}

// V3's experts and module of prediction; a token's experts are in `groups_per_token` of `groups` groups.
void read_scored_experts(ConfigReader& config, Architecture& model, std::int64_t groups,
                         std::int64_t groups_per_token) {
  read_experts(config, model,
               {.shared_experts = 1,
                .groups = groups,
                .groups_per_token = groups_per_token,
                .dense_layers_first = 3,
                .normalize_weights = true,
                .scaling_factor = 2.5,
                .score = "sigmoid"});
  model.experts.group_score_experts = 2;
  model.multi_token_prediction_layers = config.layers("num_nextn_predict_layers", 1);
  check_experts(config, model);
}

void read_indexer(ConfigReader& config, Architecture& model, std::int64_t heads) {
  model.sparse = {.tokens = config.dimension("index_topk", 2048),
                  .heads = config.dimension("index_n_heads", heads),
                  .head_dim = config.dimension("index_head_dim", 128)};
  if (model.latent.q_lora_rank == 0)
    config.conflict("q_lora_rank", "the indexer reads compressed queries, and the model has none",
                    "state the rank of queries");
  const std::vector<std::string> types = config.texts("indexer_types");
  const bool shares = std::ranges::find(types, "shared") != types.end();
  if (shares || config.dimension("index_topk_freq", 1) > 1 || !config.text("index_topk_pattern", "").empty())
    config.fail(shares ? "indexer_types" : "index_topk_freq", "layers that share the choice of another's indexer",
                "only models with an indexer in each layer are predicted");
}

}  // namespace

void read_deepseek_v3(ConfigReader& config, Architecture& model) {
  read_decoder(config, model);
  read_latent_attention(config, model);
  read_scored_experts(config, model, 8, 4);
}

void read_deepseek_v32(ConfigReader& config, Architecture& model) {
  read_deepseek_v3(config, model);
  read_indexer(config, model, 64);
}

void read_glm_moe_dsa(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.norm_epsilon = 1e-5});
  read_latent_attention(config, model);
  read_scored_experts(config, model, 1, 1);
  read_indexer(config, model, 32);
}

// A config.json of model_type kimi_k25 has DeepSeek-V3's architecture inside text_config; vision is not read.
void read_kimi_k25(ConfigReader& config, Architecture& model) {
  config.read_inside("text_config");
  read_deepseek_v3(config, model);
}

void read_deepseek_v2(ConfigReader& config, Architecture& model) {
  read_decoder(config, model);
  read_latent_attention(config, model);
  read_experts(config, model,
               {.shared_experts = 2,
                .groups = 1,
                .groups_per_token = 1,
                .dense_layers_first = 0,
                .normalize_weights = false,
                .scaling_factor = 1.0,
                .score = "softmax"});
  model.experts.group_score_experts = 1;
  // Under greedy routing the groups of the file are not used.
  if (config.text("topk_method", "greedy") == "greedy") model.experts.groups = model.experts.groups_per_token = 1;
  check_experts(config, model);
}

void read_glm4_moe(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.key_value_heads = 8, .norm_epsilon = 1e-5});
  read_head_dim(config, model, 128);
  model.biases.query_key_value = config.flag("attention_bias", false);
  model.query_key_norm = config.flag("use_qk_norm", false);
  read_rotary_share(config, model, "partial_rotary_factor", 0.5);
  read_experts(config, model,
               {.shared_experts = 1,
                .groups = 1,
                .groups_per_token = 1,
                .dense_layers_first = 1,
                .normalize_weights = true,
                .scaling_factor = 1.0,
                .score = "sigmoid"});
  model.experts.group_score_experts = 2;
  model.multi_token_prediction_layers = config.layers("num_nextn_predict_layers", 0);
  check_experts(config, model);
}

}  // namespace plumbline::model
