// GPT-2, and GPT-3 (arXiv 2005.14165) with the keys of GPT-2; all GPT-3 layers are taken as dense attention. OPT (arXiv
// 2205.01068), GPT-Neo, GPT-J, CodeGen (arXiv 2203.13474) and StarCoder (arXiv 2305.06161): huggingface/transformers
// src/transformers/models, configuration_*.py @014674d opt, @04c7fd3 gpt_neo, @0bedd33 gptj, @0300cc1 codegen, @05ff2e9
// gpt_bigcode, and modeling_*.py there.
#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

// GPT-2's keys, and what differs where a file has none of them.
struct GptKeys {
  SizeKeys sizes = {"n_layer", "n_embd", "n_head"};
  std::string_view intermediate = "n_inner", positions = "n_positions";
  std::string_view embedding_dropout = "embd_pdrop", attention_dropout = "attn_pdrop", residual_dropout = "resid_pdrop";
  std::int64_t position_table = 1024;
  double dropout = 0;
  bool tied = true;
};

void read_gpt(ConfigReader& config, Architecture& model, const GptKeys& keys) {
  make_gpt_like(model, true);
  read_equal_heads(config, model, keys.sizes);
  constexpr std::int64_t widening = 4;
  model.intermediate_size = config.dimension(keys.intermediate, widening * model.hidden_size);
  model.vocabulary = config.dimension("vocab_size");
  model.positions = PositionKind::learned;
  model.position_table = config.dimension(keys.positions, keys.position_table);
  model.tied_embedding = config.flag("tie_word_embeddings", keys.tied);
  model.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  model.dropout = {.embedding = config.probability(keys.embedding_dropout, keys.dropout),
                   .attention = config.probability(keys.attention_dropout, keys.dropout),
                   .residual = config.probability(keys.residual_dropout, keys.dropout)};
  read_activation(config, model, "activation_function", "gelu_new");
}

}  // namespace

void read_gpt2(ConfigReader& config, Architecture& model) { read_gpt(config, model, {.dropout = 0.1}); }

void read_gpt_bigcode(ConfigReader& config, Architecture& model) {
  read_gpt2(config, model);
  if (config.flag("multi_query", true)) model.key_value_heads = 1;
}

// Attention and the MLP read one norm's result, and attention has no biases; the output has.
void read_gptj(ConfigReader& config, Architecture& model) {
  read_gpt(config, model, {.tied = false});
  model.positions = PositionKind::rotary;
  model.rotary_dim = config.dimension("rotary_dim", 64);
  if (model.rotary_dim % 2 != 0 || model.rotary_dim > model.head_dim)
    config.conflict("rotary_dim",
                    fmt::format("{} of {} columns do not form pairs that turn", model.rotary_dim, model.head_dim),
                    "an even number of the head's columns");
  model.parallel_residual = model.shared_norm = true;
  model.biases = {.mlp = true};
  omit_output_bias(model);
}

// Each second layer has a window; queries, keys and values have no biases.
void read_gpt_neo(ConfigReader& config, Architecture& model) {
  read_gpt(config, model,
           {.sizes = {"num_layers", "hidden_size", "num_heads"},
            .intermediate = "intermediate_size",
            .positions = "max_position_embeddings",
            .embedding_dropout = "embed_dropout",
            .attention_dropout = "attention_dropout",
            .residual_dropout = "resid_dropout",
            .position_table = 2048});
  model.biases.query_key_value = false;
  model.window = {.tokens = config.dimension("window_size", 256), .full_offset = 1};
  read_windows(config, model, 2, config.texts("attention_layers").empty() ? "attention_types" : "attention_layers");
  model.omitted.what.emplace_back("scores that are not divided (they cost what divided ones do)");
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
