// MiniMax-M2 (model card of MiniMaxAI/MiniMax-M2). MiniMax-Text-01 (arXiv 2501.08313) is refused.
#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_minimax(ConfigReader& config, Architecture&) {
  config.fail("model_type", "seven of eight layers have lightning attention, which no operator computes",
              "models of type minimax_m2 have softmax attention alone");
}

void read_minimax_m2(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.key_value_heads = 8, .rope_theta = 5e6});
  read_head_dim(config, model, 128);
  model.rotary_dim = config.count("rotary_dim", 64);
  model.query_key_norm = config.flag("use_qk_norm", true);
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("num_local_experts", 256);
  experts.experts_per_token = config.dimension("num_experts_per_tok", 8);
  experts.intermediate_size = model.intermediate_size;
  experts.score = ScoreFunction::sigmoid;
  experts.normalize_weights = true;
  check_experts_per_token(config, model, "num_local_experts");
  if (config.flag("use_mtp", true)) model.multi_token_prediction_layers = config.layers("num_mtp_modules", 3);
  if (!model.query_key_norm) return;
  // One weight for each column of all heads, where a norm of single heads has one for each column of a head.
  model.omitted.parameters =
      static_cast<double>(model.layers * (model.heads + model.key_value_heads - 2) * model.head_dim);
  model.omitted.what = {"norms over the queries and keys of all heads at once"};
}

}  // namespace plumbline::model
