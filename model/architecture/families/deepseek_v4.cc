// DeepSeek-V4 (arXiv 2606.19348). Keys and their values where missing: huggingface/transformers @015c078
// src/transformers/models/deepseek_v4/configuration_deepseek_v4.py; compress_ratios are the hub's files'.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

// What a layer with compressed entries of so many tokens does, as the hub's files state it: an indexer chooses among
// those of few.
constexpr std::int64_t chosen_compression = 4;

Mixer mixer_of(std::int64_t compression) {
  if (compression == 0) return Mixer::windowed_attention;
  return compression == chosen_compression ? Mixer::sparse_compressed_attention : Mixer::compressed_attention;
}

// Returns the mixer of each layer by name; without names the first two see all compressed entries, then layers
// alternate.
std::vector<Mixer> named_mixers(ConfigReader& config, std::int64_t layers) {
  const std::vector<std::string> names = config.texts("layer_types");
  std::vector<Mixer> mixers;
  for (std::int64_t layer = 0; layer < layers && names.empty(); ++layer)
    mixers.push_back(layer >= 2 && layer % 2 == 1 ? Mixer::sparse_compressed_attention : Mixer::compressed_attention);
  for (const std::string& name : names) {
    if (name == "sliding_attention")
      mixers.push_back(Mixer::windowed_attention);
    else if (name == "compressed_sparse_attention")
      mixers.push_back(Mixer::sparse_compressed_attention);
    else if (name == "heavily_compressed_attention")
      mixers.push_back(Mixer::compressed_attention);
    else
      config.fail("layer_types", fmt::format("unknown type of layer '{}'", name),
                  "one of sliding_attention, compressed_sparse_attention, heavily_compressed_attention");
  }
  return mixers;
}

std::vector<Mixer> stated_mixers(ConfigReader& config, Architecture& model, const std::vector<std::int64_t>& ratios) {
  std::vector<Mixer> mixers;
  for (const std::int64_t ratio : ratios) {
    mixers.push_back(mixer_of(ratio));
    if (mixers.back() != Mixer::compressed_attention) continue;
    if (model.shared.compression > 0 && model.shared.compression != ratio)
      config.fail(
          "compress_ratios",
          fmt::format("compressed entries of {} and of {} tokens that are all seen", model.shared.compression, ratio),
          fmt::format("0, {} and one other number", chosen_compression));
    model.shared.compression = ratio;
  }
  model.shared.sparse_compression = chosen_compression;
  return mixers;
}

void read_v4_layers(ConfigReader& config, Architecture& model) {
  const std::vector<std::int64_t> ratios = config.counts("compress_ratios");
  std::vector<Mixer> mixers;
  if (ratios.empty()) {
    model.shared.sparse_compression =
        config.dimension("compress_rates.compressed_sparse_attention", chosen_compression);
    model.shared.compression = config.dimension("compress_rates.heavily_compressed_attention", 128);
    mixers = named_mixers(config, model.layers);
  } else {
    mixers = stated_mixers(config, model, ratios);
  }
  if (std::ssize(mixers) < model.layers) {
    const char* key = ratios.empty() ? "layer_types" : "compress_ratios";
    config.conflict(key, fmt::format("{} entries for {} layers", mixers.size(), model.layers),
                    "state one for each of num_hidden_layers");
    return;
  }
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    model.pattern.push_back({mixers[static_cast<std::size_t>(layer)], FeedForward::experts});
}

void read_shared_key_value(ConfigReader& config, Architecture& model) {
  model.attention = AttentionKind::shared_key_value;
  model.head_dim = config.dimension("head_dim", 512);
  model.rotary_dim = model.latent.qk_rope_head_dim = config.dimension("qk_rope_head_dim", 64);
  model.latent.q_lora_rank = config.dimension("q_lora_rank", 1024);
  model.shared.output_groups = config.dimension("o_groups", 8);
  model.shared.output_rank = config.dimension("o_lora_rank", 1024);
  model.sparse = {.tokens = config.dimension("index_topk", 512),
                  .heads = config.dimension("index_n_heads", 64),
                  .head_dim = config.dimension("index_head_dim", 128)};
  model.window.tokens = config.dimension("sliding_window", 128);
  if (model.key_value_heads != 1)
    config.conflict("num_key_value_heads", fmt::format("{} keys of a token", model.key_value_heads),
                    "1: all heads share it");
  if (model.heads % model.shared.output_groups != 0)
    config.conflict("o_groups",
                    fmt::format("{} heads do not form {} equal groups", model.heads, model.shared.output_groups),
                    "it must divide num_attention_heads");
  if (model.rotary_dim > std::min(model.head_dim, model.sparse.head_dim) || model.rotary_dim % 2 != 0)
    config.conflict("qk_rope_head_dim", fmt::format("{} columns of a head do not turn in pairs", model.rotary_dim),
                    "an even number, at most head_dim and index_head_dim");
}

}  // namespace

void read_deepseek_v4(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.key_value_heads = 1, .dense_mlp = false});
  read_shared_key_value(config, model);
  read_routed_experts(config, model, {.scaling_factor = 1.5, .score = "sqrtsoftplus"});
  model.residual_streams = config.dimension("hc_mult", 4);
  model.swiglu_limit = config.number("swiglu_limit", 10);
  read_prediction(config, model, 1);
  read_v4_layers(config, model);
  model.omitted.what.insert(model.omitted.what.end(),
                            {"attention sinks", "experts by tables of token ids in the first layers",
                             "the base of positions in layers with compressed entries"});
  model.omitted.parameters = static_cast<double>(model.layers * model.heads);  // sinks
}

}  // namespace plumbline::model
