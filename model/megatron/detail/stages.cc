#include "model/megatron/detail/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/text.h"
#include "model/megatron/shell/arithmetic.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::size_t kLongest = 1'000'000;

// Removes "*N" at the front of the rest and returns N; 1 when there is none, nothing when N is no number.
std::optional<std::size_t> take_times(std::string_view& rest) {
  if (!rest.starts_with('*')) return 1;
  std::size_t end = 1;
  while (end < rest.size() && std::isdigit(static_cast<unsigned char>(rest[end])) != 0) ++end;
  const auto number = integer(rest.substr(1, end - 1));
  rest.remove_prefix(end);
  if (!number || *number < 0 || static_cast<std::size_t>(*number) > kLongest) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

// Returns the text with repetitions and brackets expanded.
std::optional<std::string> write_out(std::string_view text) {
  std::string flat;
  while (!text.empty()) {
    const char symbol = text.front();
    std::string item(1, symbol);
    if (symbol == '(') {
      const std::size_t end = text.find(')');
      if (end == std::string_view::npos || text.substr(1, end - 1).find('(') != std::string_view::npos)
        return std::nullopt;
      const auto inside = write_out(text.substr(1, end - 1));
      if (!inside) return std::nullopt;
      item = *inside;
      text.remove_prefix(end + 1);
    } else {
      text.remove_prefix(1);
      if (symbol == ',' || std::isspace(static_cast<unsigned char>(symbol)) != 0) continue;
      if (std::string_view("EtmL|").find(symbol) == std::string_view::npos) return std::nullopt;
    }
    const auto times = take_times(text);
    if (!times || flat.size() + item.size() * *times > kLongest) return std::nullopt;
    for (std::size_t i = 0; i < *times; ++i) flat += item;
  }
  return flat;
}

}  // namespace

std::optional<StageLayout> parse_layout(std::string_view text) {
  const auto flat = write_out(text);
  if (!flat) return std::nullopt;
  StageLayout layout{{0}};
  for (const char symbol : *flat) {
    if (symbol == '|') layout.counts.push_back(0);
    if (symbol == 't') ++layout.counts.back();
  }
  // "E", then layers, then "mL" or, on two stages, "m|L".
  std::string rest = *flat;
  const std::size_t first_m = std::min(rest.find('m'), rest.size()), bar = rest.rfind('|');
  const bool apart = first_m < bar && bar != std::string::npos;
  if (apart) {
    layout.elsewhere = first_m == 0 || rest[first_m - 1] != '|';
    rest.erase(bar, 1);
  }
  const bool ends = rest.size() > 1 && rest.front() == 'E' && rest.back() == 'L';
  layout.elsewhere = layout.elsewhere || !ends ||
                     rest.find_first_not_of("t|", 1) < std::min(first_m, rest.size() - 1) ||
                     rest.find_first_not_of('m', first_m) < rest.size() - 1;
  return layout;
}

std::string layout_text(const std::vector<std::int64_t>& counts, bool prediction) {
  const std::size_t last = counts.size() - 1;
  const std::size_t predicting = last > 1 && counts[last - 1] == 0 ? last - 1 : last;
  std::string text = "E";
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    if (stage > 0) text += '|';
    if (counts[stage] > 0) text += fmt::format("t*{}", counts[stage]);
    if (prediction && stage == predicting) text += 'm';
  }
  return text + "L";
}

std::optional<std::vector<std::int64_t>> accounted_ends(std::int64_t layers, std::int64_t stages, bool embedding,
                                                        bool loss) {
  const std::int64_t all = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (stages < 1 || all < stages || all % stages != 0) return std::nullopt;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), all / stages);
  if (embedding) --counts.front();
  if (loss) --counts.back();
  return counts;
}

std::optional<std::vector<std::int64_t>> uneven_ends(std::int64_t layers, std::int64_t pipeline,
                                                     std::int64_t virtual_stages, std::optional<std::int64_t> first,
                                                     std::optional<std::int64_t> last) {
  const std::int64_t others = pipeline - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t left = layers - first.value_or(0) - last.value_or(0);
  if (others < 0 || left < 0 || (others == 0 ? left != 0 : left % others != 0)) return std::nullopt;
  std::vector<std::int64_t> of_rank(static_cast<std::size_t>(pipeline), others > 0 ? left / others : 0);
  if (first) of_rank.front() = *first;
  if (last) of_rank.back() = *last;
  std::vector<std::int64_t> counts;
  for (std::int64_t chunk = 0; chunk < virtual_stages; ++chunk) {
    for (const std::int64_t held : of_rank) {
      if (held % virtual_stages != 0) return std::nullopt;
      counts.push_back(held / virtual_stages);
    }
  }
  return counts;
}

std::optional<std::vector<std::int64_t>> parse_noop_layers(std::string_view text) {
  std::vector<std::int64_t> layers;
  if (text.empty()) return layers;
  for (const std::string_view item : split_at(text, ',')) {
    const auto layer = integer(item);
    if (!layer || *layer < 0 || std::ranges::find(layers, *layer) != layers.end()) return std::nullopt;
    layers.push_back(*layer);
  }
  return layers;
}

}  // namespace plumbline::model::megatron
