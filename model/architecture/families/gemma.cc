// Gemma 2 (arXiv 2408.00118) and the text model of Gemma 3 (arXiv 2503.19786).
#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

void read_gemma(ConfigReader& config, Architecture& model, const DecoderDefaults& missing) {
  read_decoder(config, model, missing);
  read_head_dim(config, model, 256);
  model.post_norms = true;
  model.biases.query_key_value = model.biases.attention_output = config.flag("attention_bias", false);
  model.window.tokens = config.is_null("sliding_window") ? 0 : config.dimension("sliding_window", 4096);
  model.omitted.what = {"GELU as the gate (it costs what SiLU does)", "the scale of the embedding"};
}

}  // namespace

void read_gemma2(ConfigReader& config, Architecture& model) {
  read_gemma(config, model, {.key_value_heads = 4, .tied_embedding = true, .gelu_gate = true});
  model.window.full_every = 2;
  if (config.number("attn_logit_softcapping", 50) > 0) model.omitted.what.emplace_back("soft-capping of scores");
  if (config.number("final_logit_softcapping", 30) > 0) model.omitted.what.emplace_back("soft-capping of logits");
}

// A config.json of model_type gemma3 has the text model inside text_config; vision is not read.
void read_gemma3(ConfigReader& config, Architecture& model) {
  config.read_inside("text_config");
  read_gemma(config, model, {.key_value_heads = 4, .rope_theta = 1e6, .tied_embedding = true, .gelu_gate = true});
  model.query_key_norm = true;
  model.window.full_every = config.dimension("sliding_window_pattern", 6);
  model.omitted.what.emplace_back("the base of positions in layers with a window");
}

}  // namespace plumbline::model
