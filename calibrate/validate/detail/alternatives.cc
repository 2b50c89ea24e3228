#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "calibrate/validate/detail/case_rows.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

constexpr std::size_t most = 10'000;

tl::unexpected<model::Error> wrong(std::string message) {
  return model::wrong_input("", std::move(message), "alternatives are written {one,two}, not nested");
}

}  // namespace

model::Result<std::vector<Alternative>> alternatives(std::string_view text) {
  std::vector<Alternative> result(1);
  const std::string_view whole = text;
  while (!text.empty()) {
    const std::size_t open = text.find_first_of("{}");
    for (Alternative& alternative : result) alternative.text += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find_first_of("{}", open + 1);
    if (text[open] == '}' || close == std::string_view::npos || text[close] == '{' || close == open + 1)
      return wrong(fmt::format("the braces of '{}' do not match", whole));
    std::vector<Alternative> extended;
    for (const Alternative& begun : result) {
      for (const std::string_view choice : model::split(text.substr(open + 1, close - open - 1), ',')) {
        Alternative next = begun;
        next.text += choice;
        next.choices.emplace_back(choice);
        extended.push_back(std::move(next));
      }
    }
    result = std::move(extended);
    if (result.size() > most) return wrong(fmt::format("'{}' stands for more than {} texts", whole, most));
    text.remove_prefix(close + 1);
  }
  return result;
}

std::string with_choices(std::string text, const std::vector<std::string>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string place = fmt::format("{{{}}}", i + 1);
    for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + choices[i].size()))
      text.replace(at, place.size(), choices[i]);
  }
  return text;
}

}  // namespace plumbline::calibrate
