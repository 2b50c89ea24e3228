#include "model/megatron/hybrid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/text.h"

namespace plumbline::model::megatron {
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

}  // namespace plumbline::model::megatron
