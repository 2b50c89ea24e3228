// GPT-2, and GPT-3 (arXiv 2005.14165) with the keys of GPT-2; all GPT-3 layers are taken as dense attention.
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
  require_gelu(config, "activation_function", "gelu_new");
}

}  // namespace plumbline::model
