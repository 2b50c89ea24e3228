#include "model/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/config_reader.h"
#include "model/plan.h"

namespace plumbline::model {
namespace {

void read_common(ConfigReader& config, Architecture& model) {
  model.layers = config.dimension("num_hidden_layers");
  model.hidden_size = config.dimension("hidden_size");
  model.heads = config.dimension("num_attention_heads");
  model.key_value_heads = config.dimension("num_key_value_heads", model.heads);
  model.intermediate_size = config.dimension("intermediate_size");
  model.vocabulary = config.dimension("vocab_size");
  model.tied_embedding = config.flag("tie_word_embeddings", false);
  model.norm_epsilon = config.number("rms_norm_eps", 1e-6);
  model.rope_theta = config.number("rope_theta", 10000.0);
  if (model.key_value_heads > 0 && model.heads % model.key_value_heads != 0) {
    config.conflict("num_key_value_heads",
                    fmt::format("{} heads cannot share {} key-value heads evenly", model.heads, model.key_value_heads),
                    "it must divide num_attention_heads");
  }
}

void read_latent_attention(ConfigReader& config, Architecture& model) {
  model.attention = AttentionKind::multi_head_latent;
  // An explicit null means that queries are not compressed; a missing key means the default rank.
  model.latent.q_lora_rank = config.is_null("q_lora_rank") ? 0 : config.count("q_lora_rank", 1536);
  model.latent.kv_lora_rank = config.dimension("kv_lora_rank");
  model.latent.qk_nope_head_dim = config.dimension("qk_nope_head_dim");
  model.latent.qk_rope_head_dim = config.dimension("qk_rope_head_dim");
  model.latent.v_head_dim = config.dimension("v_head_dim");
}

// What a missing key means differs between the generations of the same router.
struct ExpertDefaults {
  std::int64_t shared_experts;
  std::int64_t groups;
  std::int64_t groups_per_token;
  std::int64_t dense_layers_first;
  bool normalise_weights;
  double scaling_factor;
  std::string_view score;
};

void check_experts(ConfigReader& config, const Architecture& model) {
  const MixtureOfExperts& experts = model.experts;
  if (experts.routed_experts % experts.groups != 0) {
    config.conflict("n_group",
                    fmt::format("{} experts do not form {} equal groups", experts.routed_experts, experts.groups),
                    "it must divide n_routed_experts");
  }
  if (experts.groups_per_token > experts.groups) {
    config.conflict("topk_group",
                    fmt::format("a token cannot use {} of {} groups", experts.groups_per_token, experts.groups),
                    "at most n_group");
    return;
  }
  const std::int64_t reachable = experts.groups_per_token * (experts.routed_experts / experts.groups);
  if (experts.experts_per_token > reachable) {
    config.conflict("num_experts_per_tok",
                    fmt::format("a token cannot use {} of {} reachable experts", experts.experts_per_token, reachable),
                    "at most n_routed_experts / n_group * topk_group");
  }
}

void read_experts(ConfigReader& config, Architecture& model, const ExpertDefaults& missing) {
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("n_routed_experts");
  experts.shared_experts = config.count("n_shared_experts", missing.shared_experts);
  experts.experts_per_token = config.dimension("num_experts_per_tok");
  experts.intermediate_size = config.dimension("moe_intermediate_size");
  experts.groups = config.dimension("n_group", missing.groups);
  experts.groups_per_token = config.dimension("topk_group", missing.groups_per_token);
  experts.dense_layers_first = config.count("first_k_dense_replace", missing.dense_layers_first);
  experts.layer_frequency = config.dimension("moe_layer_freq", 1);
  experts.normalise_weights = config.flag("norm_topk_prob", missing.normalise_weights);
  experts.scaling_factor = config.number("routed_scaling_factor", missing.scaling_factor);
  const std::string score = config.text("scoring_func", missing.score);
  if (score != "sigmoid" && score != "softmax") {
    config.fail("scoring_func", fmt::format("unknown scoring function '{}'", score), "one of sigmoid, softmax");
  }
  experts.score = score == "sigmoid" ? ScoreFunction::sigmoid : ScoreFunction::softmax;
}

void read_deepseek_v3(ConfigReader& config, Architecture& model) {
  read_common(config, model);
  read_latent_attention(config, model);
  read_experts(config, model,
               {.shared_experts = 1,
                .groups = 8,
                .groups_per_token = 4,
                .dense_layers_first = 3,
                .normalise_weights = true,
                .scaling_factor = 2.5,
                .score = "sigmoid"});
  model.experts.group_score_experts = 2;
  model.multi_token_prediction_layers = config.count("num_nextn_predict_layers", 1);
  check_experts(config, model);
}

void read_deepseek_v2(ConfigReader& config, Architecture& model) {
  read_common(config, model);
  read_latent_attention(config, model);
  read_experts(config, model,
               {.shared_experts = 2,
                .groups = 1,
                .groups_per_token = 1,
                .dense_layers_first = 0,
                .normalise_weights = false,
                .scaling_factor = 1.0,
                .score = "softmax"});
  model.experts.group_score_experts = 1;
  // Under greedy routing the groups of the file are not used.
  if (config.text("topk_method", "greedy") == "greedy") model.experts.groups = model.experts.groups_per_token = 1;
  check_experts(config, model);
}

void read_llama(ConfigReader& config, Architecture& model) {
  read_common(config, model);
  model.attention = AttentionKind::grouped_query;
  model.head_dim = config.dimension("head_dim", std::max<std::int64_t>(1, model.hidden_size / model.heads));
}

// Add a model type: write its reader above and its line here.
struct ModelType {
  std::string_view name;
  void (*read)(ConfigReader&, Architecture&);
};
constexpr std::array model_types = {ModelType{"deepseek_v2", read_deepseek_v2},
                                    ModelType{"deepseek_v3", read_deepseek_v3}, ModelType{"llama", read_llama}};

void fail_unknown_type(ConfigReader& config, const std::string& found) {
  std::vector<std::string> names;
  for (const ModelType& type : model_types) names.emplace_back(type.name);
  const std::string nearest = nearest_name(found, names);
  config.fail("model_type", found.empty() ? "required key is missing" : fmt::format("unknown model type '{}'", found),
              fmt::format("{}known: {}", nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                          fmt::join(names, ", ")));
}

// An override that nothing asked for would change nothing.
void refuse_unread(ConfigReader& config, const ConfigOverrides& overrides, const std::string& model_type) {
  for (const auto& [key, value] : overrides) {
    if (std::ranges::find(config.asked(), key) != config.asked().end()) continue;
    const std::string nearest = nearest_name(key, config.asked());
    config.fail(key, fmt::format("a model of type {} has no such key", model_type),
                nearest.empty() ? fmt::format("one of {}", fmt::join(config.asked(), ", "))
                                : fmt::format("did you mean 'model.{}'?", nearest));
  }
}

Result<Architecture> read_architecture(const std::string& path, const ConfigOverrides& overrides) {
  auto config = ConfigReader::open(path, overrides);
  if (!config) return tl::unexpected(config.error());
  Architecture model;
  model.name = std::filesystem::path(path).stem().string();
  model.model_type = config->text("model_type", "");
  const auto* type = std::ranges::find(model_types, std::string_view(model.model_type), &ModelType::name);
  if (type != model_types.end()) {
    type->read(*config, model);
    refuse_unread(*config, overrides, model.model_type);
  } else {
    fail_unknown_type(*config, model.model_type);
  }
  if (config->error()) return tl::unexpected(*config->error());
  return model;
}

}  // namespace

bool Architecture::is_moe_layer(std::int64_t layer) const {
  return experts.routed_experts > 0 && layer >= experts.dense_layers_first &&
         layer % experts.layer_frequency == experts.layer_offset &&
         std::ranges::find(experts.dense_layers, layer) == experts.dense_layers.end();
}

bool Architecture::is_windowed_layer(std::int64_t layer) const {
  return window.tokens > 0 && layer >= window.first_layer;
}

std::int64_t Architecture::query_key_head_dim() const {
  return attention == AttentionKind::multi_head_latent ? latent.qk_nope_head_dim + latent.qk_rope_head_dim : head_dim;
}

std::int64_t Architecture::value_head_dim() const {
  return attention == AttentionKind::multi_head_latent ? latent.v_head_dim : head_dim;
}

Result<Architecture> load_architecture(const std::string& path) { return read_architecture(path, {}); }

Result<Architecture> load_architecture_of(const Plan& plan, const std::string& path) {
  return read_architecture(path, plan.model.overrides).map_error([&plan](const Error& error) {
    if (!plan.model.overrides.contains(error.key)) return error;
    return plan_error(plan, error.kind, "model." + error.key, error.message, error.hint);
  });
}

std::vector<std::string> config_keys() {
  std::vector<std::string> keys = {"model_type"};
  for (const ModelType& type : model_types) {
    ConfigReader config = ConfigReader::empty();
    Architecture model;
    type.read(config, model);
    for (const std::string& key : config.asked()) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace plumbline::model
