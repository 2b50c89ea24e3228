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

}  // namespace

std::int64_t ModelShape::ffn() const {
  if (ffn_hidden_size) return *ffn_hidden_size;
  // Megatron keeps the parameters of a gated MLP equal to those of a plain one, in steps of 64.
  return gated ? hidden_size * 4 * 2 / 3 / 64 * 64 : hidden_size * 4;
}

std::int64_t ModelShape::mamba_head_count() const {
  return mamba_heads.value_or(2 * hidden_size / std::max<std::int64_t>(1, mamba_head_dim));
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

std::optional<std::vector<bool>> parse_linear_layers(const std::string& text, std::int64_t layers) {
  std::vector<bool> linear;
  if (const auto every = integer(text)) {
    for (std::int64_t layer = 0; *every > 0 && layer < layers; ++layer) linear.push_back((layer + 1) % *every != 0);
  } else if (const auto list = parse_list(text)) {
    for (const int one : *list) linear.push_back(one != 0);
  }
  if (static_cast<std::int64_t>(linear.size()) != layers) return std::nullopt;
  return linear;
}

std::string linear_layers_text(const std::vector<bool>& linear) {
  const auto first = std::ranges::find(linear, false) - linear.begin();
  const std::string every = std::to_string(first + 1);
  if (parse_linear_layers(every, static_cast<std::int64_t>(linear.size())) == linear) return every;
  std::string list;
  for (const bool one : linear) list += fmt::format("{}{}", list.empty() ? "" : ",", one ? 1 : 0);
  return "[" + list + "]";
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
