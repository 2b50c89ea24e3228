// Mistral 7B (arXiv 2310.06825), Mixtral (arXiv 2401.04088) and Ministral 3 (huggingface/transformers @008e574
// src/transformers/models/ministral3/configuration_ministral3.py).
#include <string>

#include "model/architecture/families/families.h"

namespace plumbline::model {

// A config.json of model_type mistral3 has the text model inside text_config, Mistral Small 4's too; vision is not
// read.
void read_mistral3(ConfigReader& config, Architecture& model) {
  const std::string inner = config.text("text_config.model_type", "mistral");
  config.read_inside("text_config");
  if (inner == "mistral4") return read_mistral4(config, model);
  read_mistral(config, model);
}

void read_mistral(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.key_value_heads = 8});
  read_head_dim(config, model);
  // An explicit null means that there is no window; a missing key means the window of the first version.
  model.window.tokens = config.is_null("sliding_window") ? 0 : config.dimension("sliding_window", 4096);
}

void read_ministral3(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.key_value_heads = 8, .norm_epsilon = 1e-5, .rope_theta = 1e6});
  read_head_dim(config, model, 128);
  model.window.tokens = config.count("sliding_window", 0);
}

void read_mixtral(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.key_value_heads = 8, .norm_epsilon = 1e-5, .rope_theta = 1e6});
  read_head_dim(config, model);
  model.window.tokens = config.count("sliding_window", 0);
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("num_local_experts", 8);
  experts.experts_per_token = config.dimension("num_experts_per_tok", 2);
  experts.intermediate_size = model.intermediate_size;
  read_expert_latent(config, model);
  // A softmax over the selected experts' logits equals a softmax over all, normalised among the selected ones.
  experts.normalize_weights = true;
  check_experts_per_token(config, model, "num_local_experts");
}

}  // namespace plumbline::model
