// LFM2, dense and with experts (arXiv 2511.23404): gated short convolutions, with attention in some layers. Keys and
// their values where missing: huggingface/transformers @05cd1ec src/transformers/models/lfm2 and @06053b8 lfm2_moe,
// configuration_*.py; layers: @02f4177 lfm2/modular_lfm2.py, Lfm2ShortConv and Lfm2MLP.
#include <cstdint>

#include "model/architecture/families/families.h"
#include "model/base/integers.h"

namespace plumbline::model {
namespace {

void read_decoder_and_convolution(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 8,
                   .epsilon_key = "norm_eps",
                   .norm_epsilon = 1e-5,
                   .rope_theta = 1e6,
                   .dense_mlp = false,
                   .head_norm = HeadNorm::each});
  model.tied_embedding = config.flag("tie_embedding", config.flag("tie_word_embeddings", true));
  model.recurrence = {.kind = RecurrenceKind::short_convolution,
                      .key_heads = model.heads,
                      .value_heads = model.heads,
                      .value_dim = model.hidden_size / model.heads,
                      .convolution = config.dimension("conv_L_cache", 3)};
  if (model.recurrence.value_dim * model.heads != model.hidden_size)
    config.conflict("num_attention_heads", "heads do not divide the columns", "it must divide hidden_size");
  if (config.flag("conv_bias", false))
    config.fail("conv_bias", "no operator adds biases to the projections of a convolution", "use false");
  model.omitted.what = {"gates without a sigmoid, and a convolution without SiLU (they cost what those with it do)"};
}

}  // namespace

// Without names of layers a list has those with attention. Of the MLP's columns two thirds are used, rounded up.
void read_lfm2(ConfigReader& config, Architecture& model) {
  read_decoder_and_convolution(config, model);
  model.intermediate_size = config.dimension("block_ff_dim", config.dimension("intermediate_size", 12288));
  if (config.flag("block_auto_adjust_ff_dim", true)) {
    const double factor = config.number("block_ffn_dim_multiplier", 1);
    const auto columns = static_cast<std::int64_t>(factor * static_cast<double>(2 * model.intermediate_size / 3));
    const std::int64_t multiple = config.dimension("block_multiple_of", 256);
    model.intermediate_size = ceil_div(columns, multiple) * multiple;
  }
  read_mixers(config, model, 1);
  if (!config.is_list("full_attn_idxs") || config.is_list("layer_types")) return;
  model.pattern.assign(static_cast<std::size_t>(model.layers), {Mixer::recurrence, FeedForward::dense});
  for (const std::int64_t number : config.counts("full_attn_idxs"))
    if (number < model.layers) model.pattern[static_cast<std::size_t>(number)].mixer = Mixer::attention;
}

void read_lfm2_moe(ConfigReader& config, Architecture& model) {
  read_decoder_and_convolution(config, model);
  model.intermediate_size = config.dimension("intermediate_size", 7168);
  read_routed_experts(
      config, model,
      {.shared_experts = 0, .dense_layers_first = 2, .experts_key = "num_experts", .dense_key = "num_dense_layers"});
  read_mixers(config, model, 1);
}

}  // namespace plumbline::model
