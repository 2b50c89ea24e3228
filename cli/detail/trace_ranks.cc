#include "cli/detail/trace_ranks.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <set>
#include <sstream>

namespace plumbline::cli {
namespace {

std::optional<std::int32_t> rank_number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

void add_trace_ranks(CLI::App& verb, std::string& text, const std::string& what) {
  verb.add_option("--trace-ranks", text, "With --trace: these " + what)->type_name("0,3,8-11");
}

model::Result<std::vector<std::int32_t>> parse_trace_ranks(const std::string& text, std::int64_t ranks) {
  std::set<std::int32_t> found;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const auto first = rank_number(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : rank_number(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first)
      return model::wrong_input("--trace-ranks", fmt::format("'{}' is no rank and no range of ranks", part),
                                "for example 0,3,8-11");
    if (*last >= ranks)
      return model::wrong_input("--trace-ranks", fmt::format("there is no rank {}", *last),
                                fmt::format("ranks are 0 to {}", ranks - 1));
    for (std::int32_t rank = *first; rank <= *last; ++rank) found.insert(rank);
  }
  return std::vector<std::int32_t>(found.begin(), found.end());
}

}  // namespace plumbline::cli
