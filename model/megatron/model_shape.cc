#include "model/megatron/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/shell/arithmetic.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::int64_t kMostLayers = 1'000'000;

// Parses a Python list: [0]*3+[1]*58, in brackets or not, and [0,1,1].
std::optional<std::vector<int>> parse_list(std::string text) {
  std::erase_if(text, [](unsigned char letter) { return std::isspace(letter) != 0 || letter == '(' || letter == ')'; });
  std::vector<int> list;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = rest.find(']');
    if (rest.front() != '[' || end == std::string_view::npos) return std::nullopt;
    std::vector<int> items;
    for (const char letter : rest.substr(1, end - 1)) {
      if (letter == '0' || letter == '1')
        items.push_back(letter - '0');
      else if (letter != ',')
        return std::nullopt;
    }
    rest.remove_prefix(end + 1);
    const std::size_t plus = std::min(rest.find('+'), rest.size());
    std::int64_t times = 1;
    if (rest.starts_with('*')) {
      const auto number = integer(rest.substr(1, plus - 1));
      if (!number || *number < 0 || *number > kMostLayers) return std::nullopt;
      times = *number;
    } else if (plus > 0) {
      return std::nullopt;
    }
    for (std::int64_t i = 0; i < times; ++i) list.insert(list.end(), items.begin(), items.end());
    rest.remove_prefix(std::min(plus + 1, rest.size()));
  }
  return list;
}

}  // namespace

std::int64_t ModelShape::ffn() const {
  if (ffn_hidden_size) return *ffn_hidden_size;
  // Megatron keeps the parameters of a gated MLP equal to those of a plain one, in steps of 64.
  return gated ? hidden_size * 4 * 2 / 3 / 64 * 64 : hidden_size * 4;
}

std::optional<ExpertLayers> parse_expert_layers(const std::string& text, std::int64_t layers) {
  if (const auto every = integer(text)) {
    if (*every < 1) return std::nullopt;
    return ExpertLayers{0, *every};
  }
  const auto list = parse_list(text);
  if (!list || static_cast<std::int64_t>(list->size()) != layers) return std::nullopt;
  const auto first = std::ranges::find(*list, 1);
  if (std::find(first, list->end(), 0) != list->end()) return std::nullopt;
  return ExpertLayers{first - list->begin(), 1};
}

std::string expert_layers_text(const ExpertLayers& which, std::int64_t layers) {
  if (which.dense_first == 0) return std::to_string(which.frequency);
  if (which.frequency == 1) return fmt::format("([0]*{}+[1]*{})", which.dense_first, layers - which.dense_first);
  std::string list;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool sparse = layer >= which.dense_first && layer % which.frequency == 0;
    list += fmt::format("{}{}", list.empty() ? "" : ",", sparse ? 1 : 0);
  }
  return "[" + list + "]";
}

}  // namespace plumbline::model::megatron
