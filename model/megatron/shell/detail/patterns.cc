#include <span>
#include <string_view>

#include "model/megatron/shell/detail/words.h"

namespace plumbline::model::megatron {
namespace {

using Part = std::span<const Letter>;

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

}  // namespace

bool matches(const Letters& pattern, const Letters& text) { return match(pattern, text); }

Letters trimmed(const Letters& value, std::string_view sign, const Letters& pattern) {
  const bool front = sign[0] == '#', longest = sign.size() > 1;
  const Part all = value;
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t length = longest ? value.size() - i : i;
    if (front && match(pattern, all.first(length))) return slice(value, length, value.size());
    if (!front && match(pattern, all.last(length))) return slice(value, 0, value.size() - length);
  }
  return value;
}

}  // namespace plumbline::model::megatron
