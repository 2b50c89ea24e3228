// The architecture of a transformer, as a Hugging Face config.json states it. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/error.h"

namespace plumbline::model {

struct Plan;

enum class AttentionKind { multi_head_latent, grouped_query };
enum class ScoreFunction { sigmoid, softmax };

// Multi-head latent attention (DeepSeek-V2 report, arXiv 2405.04434, section 2.1). q_lora_rank 0: no query compression.
struct LatentAttention {
  std::int64_t q_lora_rank = 0;
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
};

// Mixture of experts. routed_experts 0: the model is dense.
struct MixtureOfExperts {
  std::int64_t routed_experts = 0;
  std::int64_t shared_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t intermediate_size = 0;   // of one routed expert
  std::int64_t groups = 1;              // expert groups of group-limited routing (n_group)
  std::int64_t groups_per_token = 1;    // topk_group
  std::int64_t dense_layers_first = 0;  // layers before the first MoE layer (first_k_dense_replace)
  std::int64_t layer_frequency = 1;     // every n-th layer after those is MoE (moe_layer_freq)
  ScoreFunction score = ScoreFunction::softmax;
  // Group score: sum of the two best experts (DeepSeek-V3) or the best one (DeepSeek-V2).
  int group_score_experts = 1;
  bool normalise_weights = false;  // norm_topk_prob
  double scaling_factor = 1.0;     // routed_scaling_factor
};

struct Architecture {
  std::string name;        // file stem, for display
  std::string model_type;  // Hugging Face's word, e.g. deepseek_v3
  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dim = 0;  // grouped-query attention only
  std::int64_t intermediate_size = 0;
  std::int64_t vocabulary = 0;
  bool tied_embedding = false;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
  std::int64_t multi_token_prediction_layers = 0;
  AttentionKind attention = AttentionKind::grouped_query;
  LatentAttention latent;
  MixtureOfExperts experts;

  bool is_moe_layer(std::int64_t layer) const;
  std::int64_t query_key_head_dim() const;  // 192 for DeepSeek-V3
  std::int64_t value_head_dim() const;      // 128 for DeepSeek-V3
};

// Reads deepseek_v3, deepseek_v2 and llama. Unknown keys are ignored, missing ones take Hugging Face's
// defaults where it has one; only dimensions without a default are required.
Result<Architecture> load_architecture(const std::string& path);

// The same with the keys that the plan gives under [model] put over those of the file. A key that this type of
// model does not read is an error; errors about the plan's keys name their place in the plan.
Result<Architecture> load_architecture_of(const Plan& plan, const std::string& path);

// Every key that any type of model reads.
std::vector<std::string> config_keys();

}  // namespace plumbline::model
