// The text model of Llama 4 (model cards of meta-llama/Llama-4-Scout-17B-16E and Llama-4-Maverick-17B-128E).
#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_llama4(ConfigReader& config, Architecture& model) {
  read_llama_like(
      config, model,
      {.key_value_heads = 8, .head_dim = 128, .norm_epsilon = 1e-5, .rope_theta = 500000, .biases = attention_biases});
  model.window = {.tokens = config.is_null("attention_chunk_size") ? 0 : config.dimension("attention_chunk_size", 8192),
                  .full_every = config.dimension("no_rope_layer_interval", 4),
                  .chunks = true,
                  .rotary_only = true};
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("num_local_experts", 16);
  experts.experts_per_token = config.dimension("num_experts_per_tok", 1);
  experts.intermediate_size = model.intermediate_size;
  experts.shared_experts = 1;
  experts.layer_frequency = config.dimension("interleave_moe_layer_step", 1);
  experts.layer_offset = experts.layer_frequency - 1;
  experts.score = ScoreFunction::sigmoid;
  check_experts_per_token(config, model, "num_local_experts");
  model.intermediate_size = config.dimension("intermediate_size_mlp", 16384);
  model.omitted.what = {"scores of experts applied to their input", "temperatures of attention"};
  if (config.flag("use_qk_norm", true)) model.omitted.what.emplace_back("norms of queries and keys without weights");
}

}  // namespace plumbline::model
