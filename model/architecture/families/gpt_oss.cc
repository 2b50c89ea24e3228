// gpt-oss-20b and gpt-oss-120b (arXiv 2508.10925).
#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_gpt_oss(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 8,
                   .head_dim = 64,
                   .norm_epsilon = 1e-5,
                   .rope_theta = 150000,
                   .biases = {"attention_bias", "attention_bias", "", true}});
  model.biases.router = model.biases.experts = true;
  model.swiglu_limit = config.number("swiglu_limit", 7);
  model.rope_scaled = config.text("rope_scaling.rope_type", "yarn") == "yarn";
  model.window.tokens = window_tokens(config, 128);
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("num_local_experts", 128);
  experts.experts_per_token = config.dimension("num_experts_per_tok", config.dimension("experts_per_token", 4));
  experts.intermediate_size = model.intermediate_size;
  // A softmax over the selected experts' logits equals a softmax over all, normalised among the selected ones.
  experts.normalize_weights = true;
  check_experts_per_token(config, model, "num_local_experts");
  read_windows(config, model, 2);
  const std::int64_t each = 2 * experts.intermediate_size;  // of an expert: gate and up
  model.omitted.parameters = static_cast<double>(model.layers * (model.heads + experts.routed_experts * each));
  model.omitted.what = {"attention sinks", "biases of gate and up"};
}

}  // namespace plumbline::model
