// MPT (MosaicML). Without ALiBi its positions are learned.
#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_mpt(ConfigReader& config, Architecture& model) {
  make_gpt_like(model, !config.flag("no_bias", true));
  read_equal_heads(config, model, {"n_layers", "d_model", "n_heads"});
  model.intermediate_size = config.dimension("expansion_ratio", 4) * model.hidden_size;
  model.vocabulary = config.dimension("vocab_size");
  model.position_table = config.dimension("max_seq_len", 2048);
  model.positions = config.flag("attn_config.alibi", true) ? PositionKind::alibi : PositionKind::learned;
  model.tied_embedding = config.flag("tie_word_embeddings", true);
  model.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  model.dropout = {.embedding = config.probability("emb_pdrop", 0),
                   .attention = config.probability("attn_config.attn_pdrop", 0),
                   .residual = config.probability("resid_pdrop", 0)};
  omit_clamp(config, model, "attn_config.clip_qkv");
}

}  // namespace plumbline::model
