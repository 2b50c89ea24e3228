#include "model/megatron/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>

#include "model/architecture/config_reader.h"
#include "model/architecture/families/families.h"
#include "model/base/text.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::int64_t kMostLayers = 1'000'000;

// Parses a Python list: [0]*3+[1]*58, in brackets or not, [0,1,1], and ([1]*3+[0])*12.
class ListParser {
 public:
  explicit ListParser(std::string_view text) : rest_(text) {}

  std::optional<std::vector<int>> parse() {
    auto list = sum(0);
    return list && rest_.empty() ? list : std::nullopt;
  }

 private:
  std::optional<std::vector<int>> sum(int depth) {
    std::vector<int> all;
    do {
      auto term = product(depth);
      if (!term) return std::nullopt;
      all.insert(all.end(), term->begin(), term->end());
    } while (take('+'));
    return all;
  }

  std::optional<std::vector<int>> product(int depth) {
    constexpr int deepest = 8;
    std::optional<std::vector<int>> list;
    if (!take('(')) {
      list = items();
    } else {
      if (depth < deepest) list = sum(depth + 1);
      if (!take(')')) return std::nullopt;
    }
    while (list && take('*')) {
      const std::size_t end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      const auto times = integer(rest_.substr(0, end));
      rest_.remove_prefix(end);
      if (!times || *times > kMostLayers || *times * static_cast<std::int64_t>(list->size()) > kMostLayers)
        return std::nullopt;
      const std::vector<int> once = *list;
      list->clear();
      for (std::int64_t i = 0; i < *times; ++i) list->insert(list->end(), once.begin(), once.end());
    }
    return list;
  }

  std::optional<std::vector<int>> items() {
    std::vector<int> list;
    if (!take('[')) return std::nullopt;
    while (!take(']')) {
      if (take('0'))
        list.push_back(0);
      else if (take('1'))
        list.push_back(1);
      else if (!take(','))
        return std::nullopt;
    }
    return list;
  }

  bool take(char letter) {
    if (!rest_.starts_with(letter)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view rest_;
};

std::optional<std::vector<int>> parse_list(std::string text) {
  std::erase_if(text, [](unsigned char letter) { return std::isspace(letter) != 0; });
  return ListParser(text).parse();
}

std::optional<std::vector<bool>> parse_layers(const std::string& text, std::int64_t layers,
                                              bool (*named)(std::int64_t layer, std::int64_t every)) {
  std::vector<bool> of_each;
  if (const auto every = integer(text)) {
    for (std::int64_t layer = 0; *every > 0 && layer < std::min(layers, kMostLayers); ++layer)
      of_each.push_back(named(layer, *every));
  } else if (const auto list = parse_list(text)) {
    for (const int one : *list) of_each.push_back(one != 0);
  }
  if (std::ssize(of_each) != layers) return std::nullopt;
  return of_each;
}

// Returns the number, if it names these layers, otherwise a list.
std::string layers_text(const std::vector<bool>& of_each, std::int64_t every,
                        std::optional<std::vector<bool>> (*parse)(const std::string& text, std::int64_t layers)) {
  std::string text = std::to_string(every);
  if (parse(text, std::ssize(of_each)) == of_each) return text;
  const auto first = std::ranges::find(of_each, true);
  if (std::find(first, of_each.end(), false) == of_each.end())
    return fmt::format("([0]*{}+[1]*{})", first - of_each.begin(), of_each.end() - first);
  text.clear();
  for (const bool one : of_each) text += fmt::format("{}{}", text.empty() ? "" : ",", one ? 1 : 0);
  return "[" + text + "]";
}

}  // namespace

std::int64_t ModelShape::ffn() const {
  if (ffn_hidden_size) return *ffn_hidden_size;
  // Megatron keeps the parameters of a gated MLP equal to those of a plain one, in steps of 64.
  return gated ? hidden_size * 4 * 2 / 3 / 64 * 64 : hidden_size * 4;
}

std::int64_t ModelShape::mamba_head_count() const {
  return mamba_heads.value_or(2 * hidden_size / std::max<std::int64_t>(1, mamba_head_dim));
}

std::optional<std::vector<bool>> parse_expert_layers(const std::string& text, std::int64_t layers) {
  return parse_layers(text, layers, [](std::int64_t layer, std::int64_t every) { return layer % every == 0; });
}

std::optional<std::vector<bool>> parse_linear_layers(const std::string& text, std::int64_t layers) {
  return parse_layers(text, layers, [](std::int64_t layer, std::int64_t every) { return (layer + 1) % every != 0; });
}

std::string expert_layers_text(const std::vector<bool>& sparse) {
  const auto second = std::find(sparse.begin() + std::min<std::ptrdiff_t>(1, std::ssize(sparse)), sparse.end(), true);
  return layers_text(sparse, second - sparse.begin(), parse_expert_layers);
}

std::string linear_layers_text(const std::vector<bool>& linear) {
  return layers_text(linear, std::ranges::find(linear, false) - linear.begin() + 1, parse_linear_layers);
}

namespace {

constexpr std::string_view kHybridSymbols = "MGK*D+CHW-E";
constexpr std::size_t kLongestPattern = 100'000;

bool holds(std::string_view text, std::string_view symbols) {
  return text.find_first_of(symbols) != std::string_view::npos;
}

// Rounds half to even, as Python does.
std::int64_t rounded(double value) { return std::llrint(value); }

std::vector<bool> are(std::string_view symbols, char kind) {
  std::vector<bool> of_kind;
  for (const char symbol : symbols) of_kind.push_back(symbol == kind);
  return of_kind;
}

Result<void> no_type(std::string_view layers, std::string_view what) {
  return infeasible("--hybrid-layer-pattern", fmt::format("no known model type has {} ('{}')", what, layers),
                    "name a model with --model");
}

// Sets the layers of which each has attention and an MLP or experts.
Result<void> take_pairs(std::string_view layers, ModelShape& shape) {
  std::string mixers, others;
  for (std::size_t i = 0; i + 1 < layers.size(); i += 2) {
    mixers += layers[i];
    others += layers[i + 1];
  }
  const bool latent = holds(mixers, "D+");
  if (holds(mixers, "CHW")) return no_type(layers, "compressed attention");
  if (holds(mixers, "K")) return no_type(layers, "Kimi Delta Attention by Megatron's arguments");
  if (latent && holds(mixers, "G*")) return no_type(layers, "latent attention and other layers");
  if (holds(mixers, "D") && holds(mixers, "+")) return no_type(layers, "sparse attention in some layers");
  shape.layers = static_cast<std::int64_t>(mixers.size());
  shape.latent = shape.latent || latent;
  if (holds(mixers, "D")) shape.attention_variant = "dsa";
  if (holds(mixers, "G")) {
    shape.attention_variant = "gated_delta_net";
    shape.linear_layers = linear_layers_text(are(mixers, 'G'));
  }
  if (!holds(others, "E")) shape.experts.reset();
  shape.expert_layers = ModelShape().expert_layers;
  if (holds(others, "E") && holds(others, "-")) {
    shape.expert_layers.clear();
    for (const char symbol : others) shape.expert_layers += symbol == 'E' ? "[1]+" : "[0]+";
    shape.expert_layers.pop_back();
  }
  return {};
}

}  // namespace

std::optional<HybridPattern> parse_hybrid_pattern(std::string_view text) {
  if (text.size() > kLongestPattern) return std::nullopt;
  HybridPattern pattern{.layers = {}, .counts = {0}, .prediction = {}};
  const std::vector<std::string_view> parts = split_at(text, '/');
  for (const char symbol : parts.front()) {
    if (symbol == '[' || symbol == ']') continue;
    if (symbol == '|') {
      pattern.counts.push_back(0);
    } else if (holds(kHybridSymbols, {&symbol, 1})) {
      pattern.layers += symbol;
      ++pattern.counts.back();
    } else {
      return std::nullopt;
    }
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].find_first_not_of(kHybridSymbols) != std::string_view::npos) return std::nullopt;
    if (i > 1 && parts[i] != parts[1]) return std::nullopt;
  }
  if (parts.size() > 1 && !parts[1].empty()) {
    pattern.prediction = parts[1];
    pattern.predictions = static_cast<std::int64_t>(parts.size()) - 1;
  }
  if (pattern.layers.empty()) return std::nullopt;
  return pattern;
}

std::string hybrid_pattern_text(std::string_view layers, const std::vector<std::int64_t>& counts,
                                std::int64_t predictions) {
  std::string text;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    const auto count = std::min(layers.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, counts[stage])));
    text += (stage > 0 ? "|" : "") + std::string(layers.substr(0, count));
    layers.remove_prefix(count);
  }
  for (std::int64_t i = 0; i < predictions; ++i) text += "/*E";
  return text;
}

std::string hybrid_layers_of_shares(std::int64_t layers, double attention, double mlp) {
  const bool shares = attention >= 0 && mlp >= 0 && attention + mlp <= 1;
  if (!shares || layers < 1 || layers > static_cast<std::int64_t>(kLongestPattern)) return "";
  std::string symbols(static_cast<std::size_t>(layers), 'M');
  // A layer of the kind stands where the layers between two of them are used up.
  const auto spread = [&symbols](char kind, double between) {
    double left = between;
    for (char& symbol : symbols) {
      if (symbol != 'M') continue;
      if (left < 0.5) {
        symbol = kind;
        left += between;
      } else {
        left -= 1;
      }
    }
  };
  const double all = static_cast<double>(layers);
  const std::int64_t attending = rounded(all * attention), multiplying = rounded(all * mlp);
  spread('*', (all - static_cast<double>(attending)) / static_cast<double>(attending + 1));
  if (multiplying > 0)
    spread('-', (all - static_cast<double>(attending + multiplying)) / static_cast<double>(multiplying));
  return symbols;
}

bool is_paired(std::string_view layers) {
  if (layers.empty() || layers.size() % 2 != 0 || holds(layers, "M")) return false;
  for (std::size_t i = 0; i < layers.size(); i += 2)
    if (!holds("GK*D+CHW", layers.substr(i, 1)) || !holds("-E", layers.substr(i + 1, 1))) return false;
  return true;
}

Result<void> take_hybrid_layers(const HybridPattern& pattern, ModelShape& shape) {
  const std::string& layers = pattern.layers;
  if (pattern.predictions > 0) {
    shape.prediction_layers.reset();
    const bool known = is_paired(layers) ? is_paired(pattern.prediction) && pattern.prediction.size() == 2
                                         : pattern.prediction == "*E";
    if (known) shape.prediction_layers = pattern.predictions;
  }
  if (is_paired(layers)) return take_pairs(layers, shape);
  if (holds(layers, "CHW")) return no_type(layers, "compressed attention");
  if (holds(layers, "GK")) return no_type(layers, "linear attention in layers of their own");
  if (holds(layers, "D")) return no_type(layers, "sparse attention in layers of their own");
  if (holds(layers, "+")) return no_type(layers, "latent attention in layers of their own");
  if (shape.gated || shape.quick_geglu) return no_type(layers, "gated MLPs in layers of their own");
  if (shape.latent) return no_type(layers, "latent attention in layers of their own");
  shape.layers = static_cast<std::int64_t>(layers.size());
  shape.pattern = layers;
  if (!holds(layers, "E")) shape.experts.reset();
  return {};
}

namespace {

// Model types that Megatron's arguments describe.
constexpr std::string_view described_types[] = {
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe",     "gpt2",      "gpt_neox",   "gpt_oss",
    "internlm2",   "kimi_k2",     "llama",        "mistral",      "mixtral",   "nemotron_h", "phi3",
    "qwen2",       "qwen2_moe",   "qwen3",        "qwen3_5_text", "qwen3_moe", "qwen3_next"};

std::vector<bool> layers_with(const Architecture& model, bool (*has)(const LayerKind& kind)) {
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) layers.push_back(has(model.layer(layer)));
  return layers;
}

void take_window(const Architecture& model, ModelShape& shape) {
  const auto windowed =
      layers_with(model, [](const LayerKind& kind) { return kind.mixer == Mixer::windowed_attention; });
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  shape.window = model.window.tokens;
  if (std::ranges::find(windowed, false) != windowed.end()) shape.window_layers = linear_layers_text(windowed);
}

void take_attention(const Architecture& model, ModelShape& shape) {
  const LatentAttention& latent = model.latent;
  shape.latent = model.attention == AttentionKind::multi_head_latent;
  shape.heads = model.heads;
  shape.grouped_query = !shape.latent && model.key_value_heads != model.heads;
  if (shape.grouped_query) shape.query_groups = model.key_value_heads;
  shape.qk_norm = model.query_key_norm || shape.latent;  // with latents Megatron's flag for the norms after them
  shape.no_linear_bias =
      shape.latent || !(model.mlp == MlpKind::gelu ? model.biases.mlp : model.biases.attention_output);
  shape.qkv_bias = !shape.latent && shape.no_linear_bias && model.biases.query_key_value;
  if (!shape.latent) return;
  if (latent.q_lora_rank > 0) shape.q_lora_rank = latent.q_lora_rank;
  shape.kv_lora_rank = latent.kv_lora_rank;
  shape.qk_head_dim = latent.qk_nope_head_dim;
  shape.qk_position_dim = latent.qk_rope_head_dim;
  shape.v_head_dim = latent.v_head_dim;
}

// Returns the symbol of a layer that does one thing.
char symbol_of(const LayerKind& kind) {
  if (kind.mixer != Mixer::none) return kind.mixer == Mixer::recurrence ? 'M' : '*';
  return kind.feed_forward == FeedForward::experts ? 'E' : '-';
}

void take_mixers(const Architecture& model, ModelShape& shape) {
  shape.output_gate = model.output_gate;
  if (model.sparse.tokens > 0) {
    shape.attention_variant = "dsa";
    shape.indexer_heads = model.sparse.heads;
    shape.indexer_dim = model.sparse.head_dim;
    shape.indexer_tokens = model.sparse.tokens;
  }
  const Recurrence& recurrence = model.recurrence;
  if (model.model_type == "nemotron_h") {
    for (const LayerKind& kind : model.pattern) shape.pattern += symbol_of(kind);
    shape.squared_relu = true;
    shape.mamba_heads = recurrence.value_heads;
    shape.mamba_head_dim = recurrence.value_dim;
    shape.mamba_groups = recurrence.key_heads;
    shape.mamba_state = recurrence.key_dim;
  } else if (recurrence.value_heads > 0 && recurrence.kind == RecurrenceKind::gated_delta) {
    shape.attention_variant = "gated_delta_net";
    shape.linear_layers =
        linear_layers_text(layers_with(model, [](const LayerKind& kind) { return kind.mixer == Mixer::recurrence; }));
    shape.linear_convolution = recurrence.convolution;
    shape.linear_key_dim = recurrence.key_dim;
    shape.linear_value_dim = recurrence.value_dim;
    shape.linear_key_heads = recurrence.key_heads;
    shape.linear_value_heads = recurrence.value_heads;
  }
}

void take_experts(const Architecture& model, ModelShape& shape) {
  const MixtureOfExperts& experts = model.experts;
  if (experts.routed_experts == 0) return;
  shape.experts = experts.routed_experts;
  shape.experts_per_token = experts.experts_per_token;
  if (experts.intermediate_size != model.intermediate_size || shape.latent)
    shape.expert_ffn = experts.intermediate_size;
  if (experts.latent_size > 0) shape.expert_latent = experts.latent_size;
  if (experts.shared_experts > 0) shape.shared_expert_ffn = experts.shared_width();
  shape.shared_gate = experts.shared_gate;
  const auto sparse =
      layers_with(model, [](const LayerKind& kind) { return kind.feed_forward == FeedForward::experts; });
  if (shape.pattern.empty()) shape.expert_layers = expert_layers_text(sparse);
  shape.router_score = experts.score == ScoreFunction::sigmoid ? "sigmoid" : "softmax";
  if (!shape.latent && shape.pattern.empty() && model.model_type != "glm4_moe") return;
  shape.router_scaling = experts.scaling_factor;
  shape.router_bias = model.model_type != "deepseek_v2";
  if (experts.groups == 1) return;
  shape.expert_groups = experts.groups;
  shape.groups_per_token = experts.groups_per_token;
}

ModelShape shape_from(const Architecture& model) {
  ModelShape shape;
  shape.layers = model.layers;
  shape.hidden_size = model.hidden_size;
  shape.ffn_hidden_size = model.intermediate_size;
  shape.vocabulary = model.vocabulary;
  shape.max_positions = model.position_table;
  shape.position = model.positions == PositionKind::learned ? "learned_absolute"
                   : model.positions == PositionKind::none  ? "none"
                                                            : "rope";
  shape.rotary_base = static_cast<std::int64_t>(model.rope_theta);
  if (model.rotary_dim > 0)
    shape.rotary_percent = static_cast<double>(model.rotary_dim) / static_cast<double>(model.head_dim);
  shape.normalization = model.norm == NormKind::layer ? "LayerNorm" : "RMSNorm";
  shape.norm_epsilon = model.norm_epsilon;
  shape.quick_geglu = model.model_type == "gpt_oss";
  if (shape.quick_geglu) shape.softmax = "learnable";
  if (model.swiglu_limit > 0) shape.clamp = model.swiglu_limit;
  shape.gated = model.mlp == MlpKind::swiglu && !shape.quick_geglu;
  shape.untied = !model.tied_embedding;
  if (model.multi_token_prediction_layers > 0) shape.prediction_layers = model.multi_token_prediction_layers;
  take_window(model, shape);
  take_attention(model, shape);
  take_mixers(model, shape);
  take_experts(model, shape);
  return shape;
}

// Sets what only Megatron needs from a config.json: the number of positions of the model, and a head's size that is
// stated even where it is the default share of the hidden size.
void take_stated(ConfigReader& config, const Architecture& model, ModelShape& shape) {
  if (model.positions != PositionKind::learned)
    shape.max_positions = static_cast<std::int64_t>(config.number("max_position_embeddings", 0));
  const std::int64_t stated = config.count("head_dim", 0);
  const bool own = !shape.latent && model.head_dim != model.hidden_size / model.heads;
  if (stated > 0 || own) shape.kv_channels = stated > 0 ? stated : model.head_dim;
}

Error refusal(const std::string& path, const std::string& type) {
  return {ErrorKind::input,
          fmt::format("Megatron's arguments cannot describe a model of type '{}'", type),
          path,
          0,
          "model_type",
          fmt::format("{}", fmt::join(described_types, ", "))};
}

}  // namespace

Result<ModelShape> nearest_shape_of(std::string_view json, const std::string& path, const ConfigOverrides& overrides) {
  auto config = TRY(ConfigReader::parse(std::string(json), path, overrides));
  Architecture model;
  model.model_type = config.text("model_type", "");
  if (!read_model(config, model).empty()) return tl::unexpected(refusal(path, model.model_type));
  if (config.error()) return tl::unexpected(*config.error());
  ModelShape shape = shape_from(model);
  take_stated(config, model, shape);
  if (config.error()) return tl::unexpected(*config.error());
  return shape;
}

Result<ModelShape> shape_of(std::string_view json, const std::string& path, const ConfigOverrides& overrides) {
  auto config = TRY(ConfigReader::parse(std::string(json), path, overrides));
  const std::string type = config.text("model_type", "");
  if (std::ranges::find(described_types, type) == std::end(described_types)) return tl::unexpected(refusal(path, type));
  return nearest_shape_of(json, path, overrides);
}

}  // namespace plumbline::model::megatron
