// DeepSeek-V2 (arXiv 2405.04434) and V3.2 (deepseek-ai/DeepSeek-V3.2-Exp @6d8cb70 inference/model.py), GLM-5
// (huggingface/transformers @008e574 src/transformers/models/glm_moe_dsa/configuration_glm_moe_dsa.py), which has
// V3.2's attention, in GLM-5.2 with an indexer for four layers (arXiv 2603.12201), and others with V3's layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_latent_attention(ConfigReader& config, Architecture& model, std::int64_t missing_q_rank,
                           std::int64_t missing_value_dim) {
  model.attention = AttentionKind::multi_head_latent;
  // An explicit null means that queries are not compressed; a missing key means the default rank.
  model.latent.q_lora_rank = config.is_null("q_lora_rank") ? 0 : config.count("q_lora_rank", missing_q_rank);
  model.latent.kv_lora_rank = config.dimension("kv_lora_rank");
  model.latent.qk_nope_head_dim = config.dimension("qk_nope_head_dim");
  model.latent.qk_rope_head_dim = config.dimension("qk_rope_head_dim");
  model.latent.v_head_dim =
      missing_value_dim > 0 ? config.dimension("v_head_dim", missing_value_dim) : config.dimension("v_head_dim");
  read_biases(config, model, attention_biases);
}

namespace {

void check_experts(ConfigReader& config, const Architecture& model, const ExpertDefaults& keys) {
  const MixtureOfExperts& experts = model.experts;
  if (experts.routed_experts % experts.groups != 0)
    config.conflict("n_group",
                    fmt::format("{} experts do not form {} equal groups", experts.routed_experts, experts.groups),
                    fmt::format("it must divide {}", keys.experts_key));
  if (experts.groups_per_token > experts.groups) {
    config.conflict("topk_group",
                    fmt::format("a token cannot use {} of {} groups", experts.groups_per_token, experts.groups),
                    "at most n_group");
    return;
  }
  const std::int64_t reachable = experts.groups_per_token * (experts.routed_experts / experts.groups);
  if (experts.experts_per_token > reachable)
    config.conflict(keys.per_token_key,
                    fmt::format("a token cannot use {} of {} reachable experts", experts.experts_per_token, reachable),
                    fmt::format("at most {} / n_group * topk_group", keys.experts_key));
}

void read_sparse_list(ConfigReader& config, MixtureOfExperts& experts) {
  const std::vector<std::int64_t> sparse = config.counts("moe_layer_freq");
  for (std::int64_t layer = 0; layer < std::ssize(sparse); ++layer)
    if (sparse[static_cast<std::size_t>(layer)] == 0) experts.dense_layers.push_back(layer);
}

}  // namespace

void read_sparse_layers(ConfigReader& config, MixtureOfExperts& experts) {
  const std::vector<std::string> kinds = config.texts("mlp_layer_types");
  if (kinds.empty()) return;
  experts.dense_layers_first = std::ranges::find(kinds, "sparse") - kinds.begin();
  for (std::int64_t layer = 0; layer < std::ssize(kinds); ++layer) {
    const std::string& kind = kinds[static_cast<std::size_t>(layer)];
    if (kind == "dense" && layer > experts.dense_layers_first) experts.dense_layers.push_back(layer);
    if (kind != "dense" && kind != "sparse")
      config.fail("mlp_layer_types", fmt::format("unknown type of layer '{}'", kind), "dense or sparse");
  }
}

void read_routed_experts(ConfigReader& config, Architecture& model, const ExpertDefaults& missing) {
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension(missing.experts_key);
  experts.shared_experts = config.count(missing.shared_key, missing.shared_experts);
  experts.experts_per_token = config.dimension(missing.per_token_key);
  experts.intermediate_size = config.dimension(missing.width_key);
  read_expert_latent(config, model);
  experts.groups = config.dimension("n_group", missing.groups);
  experts.groups_per_token = config.dimension("topk_group", missing.groups_per_token);
  experts.dense_layers_first = config.count(missing.dense_key, missing.dense_layers_first);
  if (config.is_list("moe_layer_freq"))  // of each layer
    read_sparse_list(config, experts);
  else
    experts.layer_frequency = config.dimension("moe_layer_freq", 1);
  experts.normalize_weights = config.flag("norm_topk_prob", missing.normalize_weights);
  experts.scaling_factor = config.number(missing.scaling_key, missing.scaling_factor);
  std::string score = config.text("scoring_func", missing.score);
  if (score == "noaux_tc") score = "sigmoid";  // DeepSeek-V3's choice of experts, by which dots.llm1 names its score
  if (score != "sigmoid" && score != "softmax" && score != "sqrtsoftplus")
    config.fail("scoring_func", fmt::format("unknown scoring function '{}'", score),
                "one of sigmoid, softmax, sqrtsoftplus");
  experts.score = score == "softmax" ? ScoreFunction::softmax : ScoreFunction::sigmoid;
  if (score == "sqrtsoftplus")
    model.omitted.what.emplace_back("the root of softplus as the score of experts (it costs what a sigmoid does)");
  experts.group_score_experts = missing.group_score_experts;
  if (missing.greedy && config.text("topk_method", "greedy") == "greedy") experts.groups = experts.groups_per_token = 1;
  read_sparse_layers(config, experts);
  check_experts(config, model, missing);
}

namespace {

// Layers without an indexer of their own see what the last one before them chose (GLM-5.2).
void read_shared_choices(ConfigReader& config, Architecture& model, const std::vector<std::string>& types) {
  if (std::ranges::find(types, "shared") == types.end()) return;
  if (types.size() < static_cast<std::size_t>(model.layers) || types.front() == "shared")
    return config.conflict("indexer_types", "layers share a choice that no layer before them makes",
                           "full or shared for each of num_hidden_layers, of which the first is full");
  std::vector<LayerKind> pattern;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    pattern.push_back(model.layer(layer));
    if (types[static_cast<std::size_t>(layer)] == "shared") pattern.back().mixer = Mixer::sparse_attention;
  }
  model.pattern = pattern;
  model.omitted.what.emplace_back("choices of tokens that are sent between stages");
}

void read_indexer(ConfigReader& config, Architecture& model, std::int64_t heads) {
  model.sparse = {.tokens = config.dimension("index_topk", 2048),
                  .heads = config.dimension("index_n_heads", heads),
                  .head_dim = config.dimension("index_head_dim", 128)};
  if (model.latent.q_lora_rank == 0)
    config.conflict("q_lora_rank", "the indexer reads compressed queries, and the model has none",
                    "state the rank of queries");
  const bool frequent = config.dimension("index_topk_freq", 1) == 1 && config.text("index_topk_pattern", "").empty();
  const std::vector<std::string> types = config.texts("indexer_types");
  if (!types.empty()) return read_shared_choices(config, model, types);
  if (!frequent)
    config.fail("index_topk_freq", "layers that share the choice of another's indexer",
                "name what each layer has in indexer_types, full or shared");
}

}  // namespace

void read_deepseek_v32(ConfigReader& config, Architecture& model) {
  find_model_type("deepseek_v3")->read(config, model);
  read_indexer(config, model, 64);
}

void read_glm_moe_dsa(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.norm_epsilon = 1e-5,
                   .query_rank = 1536,
                   .experts = ExpertDefaults{.dense_layers_first = 3, .scaling_factor = 2.5},
                   .prediction = 1});
  read_indexer(config, model, 32);
}

// A.X K1 (the same @0f5550f axk1/modular_axk1.py): V3 with a norm of what the experts of a layer add.
void read_axk1(ConfigReader& config, Architecture& model) {
  read_llama_like(
      config, model,
      {.query_rank = 1536,
       .experts = ExpertDefaults{.groups = 8, .groups_per_token = 4, .dense_layers_first = 1, .scaling_factor = 2.5},
       .prediction = 0});
  model.omitted.what.emplace_back("norms behind the experts");
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (model.is_moe_layer(layer)) model.omitted.parameters += static_cast<double>(model.hidden_size);
}

// The language models of the smaller DeepSeek-VL2 (arXiv 2412.10302) have plain attention.
void read_deepseek_v2(ConfigReader& config, Architecture& model) {
  read_decoder(config, model);
  if (config.flag("use_mla", true))
    read_latent_attention(config, model);
  else
    read_head_dim(config, model);
  read_routed_experts(
      config, model,
      {.shared_experts = 2, .normalize_weights = false, .score = "softmax", .group_score_experts = 1, .greedy = true});
}

// LongCat-Flash (arXiv 2509.01322): a layer is twice attention and an MLP; experts read what the first MLP reads, and
// their sums join the stream behind the second (huggingface/transformers @008e574
// src/transformers/models/longcat_flash/configuration_longcat_flash.py, @0469a35 modular_longcat_flash.py). Here each
// half is a layer, and the first MLP the shared expert. Of a token's experts those with work are as many as the
// controller of its report keeps them on average, which is their share of all.
void read_longcat_flash(ConfigReader& config, Architecture& model) {
  read_decoder(
      config, model,
      {.norm_epsilon = 1e-5, .rope_theta = 1e7, .dense_mlp = false, .layers = 2 * config.layers("num_layers")});
  model.intermediate_size = config.dimension("ffn_hidden_size");
  read_latent_attention(config, model);
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("n_routed_experts");
  experts.idle_experts = config.count("zero_expert_num", 256);
  const auto chosen = static_cast<double>(config.dimension("moe_topk"));
  const auto all = static_cast<double>(experts.routed_experts + experts.idle_experts);
  experts.experts_per_token =
      std::max<std::int64_t>(1, std::llround(chosen * static_cast<double>(experts.routed_experts) / all));
  experts.intermediate_size = config.dimension("expert_ffn_hidden_size");
  experts.shared_experts = 1;
  experts.shared_intermediate_size = model.intermediate_size;
  experts.layer_frequency = 2;
  experts.scaling_factor = config.number("routed_scaling_factor", 6);
  model.biases.router = config.flag("router_bias", false);
  check_experts_per_token(config, model, "n_routed_experts", "moe_topk");
  model.omitted.what = {"the overlap of experts with the second half of a layer",
                        "what experts without work add, and that their number varies by token"};
}

// MiniCPM3 (the same @16c2042 minicpm3/modular_minicpm3.py): V3's attention and an MLP, with values as wide as a head's
// equal share.
void read_minicpm3(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.norm_epsilon = 1e-5, .tied_embedding = true});
  read_latent_attention(config, model, 768, std::max<std::int64_t>(1, model.hidden_size / model.heads));
}

}  // namespace plumbline::model
