#include "model/architecture/families/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace plumbline::model {
namespace {

// Activations that a kernel of another one stands for, and approximations, which cost the same.
struct Activation {
  std::string_view name, shown;
};
constexpr auto other_activations =
    std::to_array<Activation>({{"relu", "ReLU"}, {"relu2", "squared ReLU"}, {"xielu", "xIELU"}});
constexpr std::string_view gelus[] = {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu"};
constexpr std::string_view silus[] = {"silu", "swish"};

std::vector<std::string_view> same_activations(std::string_view name) {
  if (std::ranges::find(gelus, name) != std::end(gelus)) return {std::begin(gelus), std::end(gelus)};
  if (std::ranges::find(silus, name) != std::end(silus)) return {std::begin(silus), std::end(silus)};
  return {name};
}

// Sizes that files with a language model of the type inside leave out (huggingface/transformers @008e574
// src/transformers/models/llama, mistral, qwen2 and gemma3, configuration_*.py).
struct SizesOfClass {
  std::string_view type;
  ModelSizes missing;
};
constexpr auto sizes_of_classes = std::to_array<SizesOfClass>({
    {"gemma3", {.layers = 26, .hidden = 2304, .heads = 8, .intermediate = 9216, .vocabulary = 262208}},
    {"llama", {.layers = 32, .hidden = 4096, .heads = 32, .intermediate = 11008, .vocabulary = 32000}},
    {"mistral", {.layers = 32, .hidden = 4096, .heads = 32, .intermediate = 14336, .vocabulary = 32000}},
    {"qwen2", {.layers = 32, .hidden = 4096, .heads = 32, .intermediate = 22016, .vocabulary = 151936}},
});

}  // namespace

void read_decoder(ConfigReader& config, Architecture& model, const DecoderDefaults& missing) {
  model.layers =
      missing.layers > 0 ? config.layers(missing.layers_key, missing.layers) : config.layers(missing.layers_key);
  model.hidden_size = config.dimension("hidden_size");
  model.heads = config.dimension("num_attention_heads");
  // An explicit null means that no heads are shared.
  model.key_value_heads = config.is_null("num_key_value_heads")
                              ? model.heads
                              : config.dimension("num_key_value_heads", missing.key_value_heads.value_or(model.heads));
  model.intermediate_size =
      missing.dense_mlp ? config.dimension("intermediate_size") : config.count("intermediate_size", 0);
  model.vocabulary = config.dimension("vocab_size");
  model.tied_embedding = config.flag("tie_word_embeddings", missing.tied_embedding);
  model.norm = missing.norm;
  model.norm_bias = missing.norm_bias;
  model.norm_epsilon = config.number(missing.epsilon_key, missing.norm_epsilon);
  model.post_norms = missing.post_norms;
  if (config.is_list(missing.rope_theta_key))  // of each layer
    model.rope_theta = missing.rope_theta;
  else
    model.rope_theta =
        config.number(missing.rope_theta_key, config.number("rope_parameters.rope_theta", missing.rope_theta));
  model.dropout.attention = config.probability(missing.attention_dropout_key, missing.attention_dropout);
  if (missing.residual_dropout) {
    model.dropout.embedding = config.probability("embedding_dropout", 0);
    model.dropout.residual = config.probability("residual_dropout", *missing.residual_dropout);
  }
  if (!missing.activation.empty())
    read_activation(config, model, missing.activation_key, missing.activation, missing.gated);
  read_biases(config, model, missing.biases);
  check_shared_heads(config, model);
}

void read_head_dim(ConfigReader& config, Architecture& model, std::optional<std::int64_t> missing,
                   std::string_view key) {
  const std::int64_t share = std::max<std::int64_t>(1, model.hidden_size / model.heads);
  model.head_dim = config.dimension(key, missing.value_or(share));
}

void read_llama_like(ConfigReader& config, Architecture& model, const DecoderDefaults& missing) {
  read_decoder(config, model, missing);
  if (missing.query_rank)
    read_latent_attention(config, model, *missing.query_rank);
  else
    read_head_dim(config, model, missing.head_dim, missing.head_dim_key);
  if (missing.rotary_share > 0) read_rotary_share(config, model, "partial_rotary_factor", missing.rotary_share);
  if (missing.head_norm == HeadNorm::all) omit_wide_norms(model);
  model.query_key_norm = missing.head_norm != HeadNorm::none;
  if (missing.experts) read_routed_experts(config, model, *missing.experts);
  if (missing.window) {
    model.window = *missing.window;
    model.window.tokens = window_tokens(config, missing.window->tokens);
    model.window.rotary_only = missing.window->rotary_only && model.window.tokens > 0;
    read_windows(config, model, missing.window->full_every);
  }
  if (missing.prediction) read_prediction(config, model, *missing.prediction);
}

void read_biases(ConfigReader& config, Architecture& model, const BiasKeys& keys) {
  const auto read = [&](bool& bias, std::string_view key, bool missing) {
    if (!key.empty()) bias = config.flag(key, key == keys.query_key_value ? keys.missing : missing);
  };
  read(model.biases.query_key_value, keys.query_key_value, keys.missing);
  read(model.biases.attention_output, keys.attention_output, false);
  read(model.biases.mlp, keys.mlp, keys.missing_mlp);
}

std::int64_t window_tokens(ConfigReader& config, std::int64_t missing) {
  return config.is_null("sliding_window") ? 0 : config.count("sliding_window", missing);
}

void read_rotary_share(ConfigReader& config, Architecture& model, std::string_view key, double missing) {
  const double share = config.number(key, config.number(fmt::format("rope_parameters.{}", key), missing));
  model.rotary_dim = static_cast<std::int64_t>(share * static_cast<double>(model.head_dim));
  if (share > 0 && share <= 1 && model.rotary_dim % 2 == 0 && model.rotary_dim > 0) return;
  config.conflict(key, fmt::format("{} of {} columns do not form pairs that turn", share, model.head_dim),
                  "a share of the head's columns that is an even number of them");
}

void read_mixers(ConfigReader& config, Architecture& model, std::int64_t attention_every, std::string_view key) {
  const std::vector<std::string> names = config.texts(key);
  const auto layers = static_cast<std::size_t>(model.layers);
  if (!names.empty() && names.size() < layers) {
    config.conflict(key, fmt::format("{} names for {} layers", names.size(), layers), "state one name for each layer");
    return;
  }
  std::vector<LayerKind> pattern;
  for (std::int64_t number = 0; number < model.layers; ++number) {
    LayerKind kind = model.layer(number);
    const std::string name = !names.empty()                        ? names[static_cast<std::size_t>(number)]
                             : (number + 1) % attention_every == 0 ? "attention"
                                                                   : "linear_attention";
    if (name == "linear_attention" || name == "mamba" || name == "conv")
      kind.mixer = Mixer::recurrence;
    else if (name == "full_attention" || name == "attention" || name == "global")
      kind.mixer = Mixer::attention;
    else if (name == "sliding_attention" || name == "local")
      kind.mixer = model.window.tokens > 0 ? Mixer::windowed_attention : Mixer::attention;
    else
      config.fail(key, fmt::format("unknown type of layer '{}'", name),
                  "one of linear_attention, mamba, conv, sliding_attention, full_attention, attention, local, global");
    pattern.push_back(kind);
  }
  model.pattern = std::move(pattern);
}

void read_windows(ConfigReader& config, Architecture& model, std::int64_t full_every, std::string_view key) {
  model.window.full_every = full_every;
  if (!config.texts(key).empty()) read_mixers(config, model, 1, key);
}

void read_window_list(ConfigReader& config, Architecture& model, std::string_view key) {
  const std::vector<std::int64_t> list = config.counts(key);
  if (list.empty()) return;
  if (list.size() < static_cast<std::size_t>(model.layers))
    return config.conflict(key, fmt::format("{} entries for {} layers", list.size(), model.layers),
                           "state one for each of num_hidden_layers");
  std::vector<LayerKind> pattern;
  for (std::int64_t number = 0; number < model.layers; ++number) {
    const bool windowed = list[static_cast<std::size_t>(number)] > 0;
    pattern.push_back({windowed ? Mixer::windowed_attention : Mixer::attention, model.layer(number).feed_forward});
  }
  model.pattern = std::move(pattern);
}

Recurrence lightning_attention(const Architecture& model, std::int64_t chunk) {
  return {.kind = RecurrenceKind::constant_decay,
          .key_heads = model.heads,
          .value_heads = model.heads,
          .key_dim = model.head_dim,
          .value_dim = model.head_dim,
          .convolution = 0,
          .chunk = chunk};
}

void finish_recurrence(ConfigReader& config, Architecture& model, std::string_view format_key,
                       std::string_view key_heads_key) {
  Recurrence& r = model.recurrence;
  const std::string format = config.text(format_key, "");
  if (!format.empty()) r.state_bytes = format == "float32" ? 4 : 2;
  if (!format.empty() && format != "float32" && format != "bfloat16" && format != "float16")
    config.fail(format_key, fmt::format("unknown format of states '{}'", format), "float32, bfloat16 or float16");
  if (r.value_heads % r.key_heads != 0)
    config.conflict(key_heads_key, fmt::format("{} heads cannot share {} evenly", r.value_heads, r.key_heads),
                    "it must divide the heads of the recurrence");
}

void read_equal_heads(ConfigReader& config, Architecture& model, const SizeKeys& keys) {
  model.layers = config.layers(keys.layers);
  model.hidden_size = config.dimension(keys.hidden_size);
  model.heads = model.key_value_heads = config.dimension(keys.heads);
  model.head_dim = std::max<std::int64_t>(1, model.hidden_size / model.heads);
  if (model.hidden_size % model.heads == 0) return;
  config.conflict(keys.heads, fmt::format("{} heads do not divide {} columns", model.heads, model.hidden_size),
                  fmt::format("it must divide {}", keys.hidden_size));
}

void read_activation(ConfigReader& config, Architecture& model, std::string_view key, std::string_view missing,
                     bool gated) {
  if (!gated) model.mlp = MlpKind::gelu;
  const std::vector<std::string_view> known = same_activations(missing);
  const std::string found = config.text(key, missing);
  if (std::ranges::find(known, found) == known.end())
    config.fail(key, fmt::format("unknown activation '{}'", found), fmt::format("one of {}", fmt::join(known, ", ")));
  if (gated && missing.starts_with("gelu"))
    model.omitted.what.emplace_back("GELU as the gate (it costs what SiLU does)");
  if (const auto* other = std::ranges::find(other_activations, missing, &Activation::name);
      other != other_activations.end())
    model.omitted.what.push_back(fmt::format("{} as the {} (it costs what {} does)", other->shown,
                                             gated ? "gate" : "activation", gated ? "SiLU" : "GELU"));
}

void check_shared_heads(ConfigReader& config, const Architecture& model, std::string_view key) {
  if (model.heads % model.key_value_heads == 0) return;
  config.conflict(key,
                  fmt::format("{} heads cannot share {} key-value heads evenly", model.heads, model.key_value_heads),
                  "it must divide the number of heads");
}

void check_experts_per_token(ConfigReader& config, const Architecture& model, std::string_view experts_key,
                             std::string_view key) {
  const MixtureOfExperts& experts = model.experts;
  if (experts.experts_per_token <= experts.routed_experts) return;
  config.conflict(key,
                  fmt::format("a token cannot use {} of {} experts", experts.experts_per_token, experts.routed_experts),
                  fmt::format("at most {}", experts_key));
}

void read_expert_latent(ConfigReader& config, Architecture& model) {
  model.experts.latent_size = config.count("moe_latent_size", 0);
}

void read_prediction(ConfigReader& config, Architecture& model, std::int64_t missing, std::string_view key) {
  model.multi_token_prediction_layers = config.layers(key, missing);
}

void omit_wide_norms(Architecture& model, std::string what) {
  model.query_key_norm = true;
  model.omitted.what.push_back(std::move(what));
  model.omitted.parameters +=
      static_cast<double>(model.layers * (model.heads + model.key_value_heads - 2) * model.head_dim);
}

void read_local_experts(ConfigReader& config, Architecture& model, std::int64_t count, std::int64_t per_token,
                        std::string_view key, std::string_view per_token_key) {
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension(key, count);
  experts.experts_per_token = config.dimension(per_token_key, per_token);
  experts.intermediate_size = model.intermediate_size;
  // A softmax over the selected experts' logits equals a softmax over all, normalised among the selected ones.
  experts.normalize_weights = true;
  check_experts_per_token(config, model, key, per_token_key);
}

const ModelType* find_model_type(std::string_view name) {
  constexpr std::string_view text_model = "_text";
  const auto* type = std::ranges::find(model_types, name, &ModelType::name);
  if (type == model_types.end() && name.ends_with(text_model))
    type = std::ranges::find(model_types, name.substr(0, name.size() - text_model.size()), &ModelType::name);
  return type == model_types.end() ? nullptr : type;
}

std::string read_model(ConfigReader& config, Architecture& model) {
  const ModelType* type = find_model_type(model.model_type);
  for (const std::string_view object : {"text_config", "llm_config"}) {
    std::string key = fmt::format("{}.model_type", object);
    const std::string name = type == nullptr ? config.text(key, "") : "";
    if (name.empty()) continue;
    type = find_model_type(name);
    if (type == nullptr) return key;
  }
  if (type == nullptr) return "model_type";
  const auto* sizes = std::ranges::find(sizes_of_classes, type->name, &SizesOfClass::type);
  // Objects of a file that have a language model's keys, the outer ones first.
  for (const char* object : {"thinker_config", "text_config", "language_config", "llm_config"})
    config.read_inside(object, sizes == sizes_of_classes.end() ? ModelSizes{} : sizes->missing);
  type->read(config, model);
  return "";
}

void omit_clamp(ConfigReader& config, Architecture& model, std::string_view key) {
  if (config.number(key, 0) > 0) model.omitted.what.emplace_back("the clamp of queries, keys and values");
}

void omit_output_bias(Architecture& model) {
  model.omitted.what.emplace_back("the bias of the output");
  model.omitted.parameters += static_cast<double>(model.vocabulary);
}

void make_gpt_like(Architecture& model, bool biases) {
  model.norm = NormKind::layer;
  model.norm_bias = biases;
  model.mlp = MlpKind::gelu;
  model.biases = {.query_key_value = biases, .attention_output = biases, .mlp = biases};
}

const std::vector<std::string>& config_keys() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> keys = {"model_type"};
    for (const ModelType& type : model_types) {
      ConfigReader config = ConfigReader::empty();
      Architecture model;
      type.read(config, model);
      for (const std::string& key : config.asked())
        if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
    return keys;
  }();
  return all;
}

}  // namespace plumbline::model
