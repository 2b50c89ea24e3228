// GPT-2, and GPT-3 (arXiv 2005.14165) with the keys of GPT-2; all GPT-3 layers are taken as dense attention. OPT (arXiv
// 2205.01068; huggingface/transformers @014674d src/transformers/models/opt/configuration_opt.py and modeling_opt.py).
#include <cstdint>

#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_gpt2(ConfigReader& config, Architecture& model) {
  make_gpt_like(model, true);
  read_equal_heads(config, model, {"n_layer", "n_embd", "n_head"});
  constexpr std::int64_t widening = 4;
  model.intermediate_size = config.dimension("n_inner", widening * model.hidden_size);
  model.vocabulary = config.dimension("vocab_size");
  model.positions = PositionKind::learned;
  model.position_table = config.dimension("n_positions", 1024);
  model.tied_embedding = config.flag("tie_word_embeddings", true);
  model.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  model.dropout = {.embedding = config.probability("embd_pdrop", 0.1),
                   .attention = config.probability("attn_pdrop", 0.1),
                   .residual = config.probability("resid_pdrop", 0.1)};
  read_activation(config, model, "activation_function", "gelu_new");
}

// Its table of positions begins with two rows that no token has.
void read_opt(ConfigReader& config, Architecture& model) {
  make_gpt_like(model, config.flag("enable_bias", true));
  model.norm_bias = true;
  read_equal_heads(config, model, {"num_hidden_layers", "hidden_size", "num_attention_heads"});
  read_activation(config, model, "activation_function", "relu");
  model.intermediate_size = config.dimension("ffn_dim");
  model.vocabulary = config.dimension("vocab_size");
  model.positions = PositionKind::learned;
  model.position_table = 2 + config.dimension("max_position_embeddings", 2048);
  model.tied_embedding = config.flag("tie_word_embeddings", true);
  model.norm_epsilon = 1e-5;
  const double dropout = config.probability("dropout", 0.1);
  model.dropout = {.attention = config.probability("attention_dropout", 0), .residual = dropout};
  if (config.dimension("word_embed_proj_dim", model.hidden_size) != model.hidden_size)
    config.fail("word_embed_proj_dim", "embeddings of another width than the stream (OPT-350M)", "that of hidden_size");
  if (!config.flag("do_layer_norm_before", true))
    config.fail("do_layer_norm_before", "norms behind what is added to the stream (OPT-350M)", "use true");
}

}  // namespace plumbline::model
