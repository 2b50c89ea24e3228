// Llama (arXiv 2302.13971, 2307.09288, 2407.21783) and models that use its model_type.
#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_llama(ConfigReader& config, Architecture& model) {
  read_decoder(config, model);
  read_head_dim(config, model);
  model.biases.query_key_value = model.biases.attention_output = config.flag("attention_bias", false);
  model.biases.mlp = config.flag("mlp_bias", false);
}

}  // namespace plumbline::model
