#include "model/megatron/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
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

}  // namespace plumbline::model::megatron
