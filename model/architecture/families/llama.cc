// Llama (arXiv 2302.13971, 2307.09288, 2407.21783) and models that use its model_type.
#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_llama(ConfigReader& config, Architecture& model) {
  read_decoder(config, model);
  read_head_dim(config, model);
  model.biases.query_key_value = model.biases.attention_output = config.flag("attention_bias", false);
  model.biases.mlp = config.flag("mlp_bias", false);
}

// Of Llama's shape are Granite (arXiv 2405.04324), InternLM2 (2403.17297), OLMo 2 (2501.00656) and Phi-3 (2404.14219).
// Granite's multipliers of embeddings, residuals and logits are parts of kernels that are there.
void read_granite(ConfigReader& config, Architecture& model) { read_llama(config, model); }

void read_internlm2(ConfigReader& config, Architecture& model) {
  read_decoder(config, model);
  read_head_dim(config, model);
  model.biases.query_key_value = model.biases.attention_output = config.flag("bias", true);
}

// OLMo 2's norms are behind attention and MLP, as many as others have before them; those of queries and keys span all
// heads.
void read_olmo2(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.norm_epsilon = 1e-5});
  read_head_dim(config, model);
  model.biases.query_key_value = model.biases.attention_output = config.flag("attention_bias", false);
  model.query_key_norm = true;
}

// Three of four layers of OLMo 3 have a window (huggingface/transformers @008e574
// src/transformers/models/olmo3/configuration_olmo3.py).
void read_olmo3(ConfigReader& config, Architecture& model) {
  read_olmo2(config, model);
  model.window = {.tokens = config.is_null("sliding_window") ? 0 : config.dimension("sliding_window", 4096),
                  .full_every = 4};
}

// Seed-OSS (huggingface/transformers @008e574 src/transformers/models/seed_oss/configuration_seed_oss.py).
void read_seed_oss(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.key_value_heads = 8});
  read_head_dim(config, model, 128);
  model.biases.query_key_value = config.flag("attention_bias", true);
  model.biases.attention_output = config.flag("attention_out_bias", false);
  model.biases.mlp = config.flag("mlp_bias", false);
  model.dropout.attention = config.probability("attention_dropout", 0.1);
  model.dropout.residual = config.probability("residual_dropout", 0.1);
}

void read_phi3(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.norm_epsilon = 1e-5});
  read_head_dim(config, model);
  read_rotary_share(config, model, "partial_rotary_factor", 1);
  model.window.tokens = config.count("sliding_window", 0);
}

}  // namespace plumbline::model
