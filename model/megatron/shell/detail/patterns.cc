#include "model/megatron/shell/detail/patterns.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/shell/arithmetic.h"

namespace plumbline::model::megatron {
namespace {

using Part = std::span<const Letter>;

constexpr std::size_t most_matched = 4096;  // letters of a value that is trimmed or replaced: the work is their square
constexpr std::size_t most_words = 10'000;  // of one pair of braces

bool is_special(const Letter& letter, char symbol) { return letter.symbol == symbol && !letter.quoted; }

// Returns the length of the [...] that begins the pattern, 0 for none, and whether it has the symbol.
std::size_t bracket(Part pattern, char symbol, bool& has) {
  std::size_t at = 1;
  const bool inverted = at < pattern.size() && (is_special(pattern[at], '!') || is_special(pattern[at], '^'));
  if (inverted) ++at;
  has = false;
  for (const std::size_t first = at; at < pattern.size(); ++at) {
    if (at > first && is_special(pattern[at], ']')) {
      has = has != inverted;
      return at + 1;
    }
    const bool range = at + 2 < pattern.size() && is_special(pattern[at + 1], '-') && !is_special(pattern[at + 2], ']');
    has = has ||
          (range ? pattern[at].symbol <= symbol && symbol <= pattern[at + 2].symbol : pattern[at].symbol == symbol);
    if (range) at += 2;
  }
  return 0;
}

// Returns how many letters of the pattern match one letter of the text; 0: it does not match.
std::size_t match_one(Part pattern, const Letter& letter) {
  if (is_special(pattern[0], '?')) return 1;
  if (is_special(pattern[0], '[')) {
    bool has = false;
    if (const std::size_t length = bracket(pattern, letter.symbol, has)) return has ? length : 0;
  }
  return pattern[0].symbol == letter.symbol ? 1 : 0;
}

bool match(Part pattern, Part text) {
  std::size_t at = 0, of = 0, star = pattern.size(), retry = 0;
  while (at < text.size()) {
    if (of < pattern.size() && is_special(pattern[of], '*')) {
      star = of++;
      retry = at;
      continue;
    }
    const std::size_t taken = of < pattern.size() ? match_one(pattern.subspan(of), text[at]) : 0;
    if (taken > 0) {
      of += taken;
      ++at;
    } else if (star < pattern.size()) {
      of = star + 1;
      at = ++retry;
    } else {
      return false;
    }
  }
  while (of < pattern.size() && is_special(pattern[of], '*')) ++of;
  return of == pattern.size();
}

// Returns the words of {A..B} or {A..B..STEP}.
std::optional<std::vector<std::string>> numbers_of(const std::string& inside) {
  const std::size_t dots = inside.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const std::size_t more = inside.find("..", dots + 2);
  const auto first = integer(inside.substr(0, dots));
  const auto last = integer(inside.substr(dots + 2, more == std::string::npos ? more : more - dots - 2));
  const auto step = more == std::string::npos ? std::optional<std::int64_t>(1) : integer(inside.substr(more + 2));
  constexpr std::int64_t largest = 1'000'000'000;
  if (!first || !last || !step || *step == 0) return std::nullopt;
  for (const std::int64_t number : {*first, *last, *step})
    if (number > largest || number < -largest) return std::nullopt;
  const std::int64_t by = (*first <= *last ? 1 : -1) * std::abs(*step);
  std::vector<std::string> words;
  for (std::int64_t at = *first; by > 0 ? at <= *last : at >= *last; at += by) {
    if (words.size() == most_words) return std::nullopt;
    words.push_back(std::to_string(at));
  }
  return words;
}

// Returns the parts of a,b,c; nothing where there is no comma.
std::optional<std::vector<std::string>> parts_of(const std::string& inside) {
  if (inside.find(',') == std::string::npos || inside.find_first_of("{'\"$ ") != std::string::npos) return std::nullopt;
  std::vector<std::string> parts(1);
  for (const char symbol : inside) {
    if (symbol == ',')
      parts.emplace_back();
    else
      parts.back() += symbol;
  }
  return parts;
}

}  // namespace

bool matches(const Letters& pattern, const Letters& text) { return match(pattern, text); }

Letters trimmed(const Letters& value, std::string_view sign, const Letters& pattern) {
  if (value.size() > most_matched) return value;
  const bool front = sign[0] == '#', longest = sign.size() > 1;
  const Part all = value;
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t length = longest ? value.size() - i : i;
    if (front && match(pattern, all.first(length))) return slice(value, length, value.size());
    if (!front && match(pattern, all.last(length))) return slice(value, 0, value.size() - length);
  }
  return value;
}

Letters replaced(const Letters& value, const Letters& pattern, const Letters& with, bool all) {
  if (value.size() > most_matched || pattern.empty()) return value;
  Letters result;
  bool done = false;
  for (std::size_t at = 0; at < value.size();) {
    std::size_t length = done ? 0 : value.size() - at;
    while (length > 0 && !match(pattern, Part(value).subspan(at, length))) --length;
    if (length == 0) {
      result.push_back(value[at++]);
      continue;
    }
    result.insert(result.end(), with.begin(), with.end());
    at += length;
    done = !all;
  }
  return result;
}

std::vector<Letters> with_braces(const Letters& word) {
  const std::string text = text_of(word);
  const std::size_t open = text.find('{');
  const std::size_t close = text.find('}', open == std::string::npos ? 0 : open);
  const bool plain =
      open != std::string::npos && close != std::string::npos && text.find_first_of("'\"\\$`=(") == std::string::npos;
  if (!plain) return {word};
  const std::string inside = text.substr(open + 1, close - open - 1);
  auto parts = numbers_of(inside);
  if (!parts) parts = parts_of(inside);
  if (!parts) return {word};
  std::vector<Letters> words;
  for (const std::string& part : *parts) {
    Letters made = slice(word, 0, open);
    for (const char symbol : part) made.push_back({symbol, word[open].line});
    made.insert(made.end(), word.begin() + static_cast<std::ptrdiff_t>(close + 1), word.end());
    words.push_back(std::move(made));
  }
  return words;
}

}  // namespace plumbline::model::megatron
