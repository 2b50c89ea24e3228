// GPT-NeoX-20B (arXiv 2204.06745) and Pythia (arXiv 2304.01373).
#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_gpt_neox(ConfigReader& config, Architecture& model) {
  make_gpt_like(model, true);
  read_equal_heads(config, model, {"num_hidden_layers", "hidden_size", "num_attention_heads"});
  model.intermediate_size = config.dimension("intermediate_size");
  model.vocabulary = config.dimension("vocab_size");
  read_biases(config, model, {"attention_bias", "attention_bias", "", true});
  model.parallel_residual = config.flag("use_parallel_residual", true);
  model.tied_embedding = config.flag("tie_word_embeddings", false);
  model.norm_epsilon = config.number("layer_norm_eps", 1e-5);
  model.rope_theta = config.number("rotary_emb_base", 10000.0);
  read_rotary_share(config, model, "rotary_pct", 0.25);
  const double hidden = config.probability("hidden_dropout", 0);
  model.dropout = {.embedding = hidden, .attention = config.probability("attention_dropout", 0), .residual = hidden};
  read_activation(config, model, "hidden_act", "gelu");
}

}  // namespace plumbline::model
