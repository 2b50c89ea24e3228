#include "model/megatron/shell/detail/letters.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace plumbline::model::megatron {

Letters letters_of(std::string_view text, int first_line) {
  Letters letters;
  letters.reserve(text.size());
  int line = first_line;
  for (const char symbol : text) {
    letters.push_back({symbol, line});
    if (symbol == '\n' && first_line > 0) ++line;
  }
  return letters;
}

std::string text_of(const Letters& letters) {
  std::string text;
  text.reserve(letters.size());
  for (const Letter& letter : letters) text += letter.symbol;
  return text;
}

Letters slice(const Letters& text, std::size_t first, std::size_t end) {
  return {text.begin() + static_cast<std::ptrdiff_t>(first), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

Letters joined(const Fields& fields, std::size_t first) {
  Letters text;
  for (std::size_t i = first; i < fields.size(); ++i) {
    if (i > first) text.push_back({' ', fields[i].empty() ? 0 : fields[i].front().line});
    text.insert(text.end(), fields[i].begin(), fields[i].end());
  }
  return text;
}

bool is_known(const Letters& letters) { return std::ranges::none_of(letters, &Letter::kept); }

bool same_fields(const Fields& left, const Fields& right) {
  return std::ranges::equal(left, right, [](const Letters& one, const Letters& two) {
    return std::ranges::equal(
        one, two, [](const Letter& a, const Letter& b) { return a.symbol == b.symbol && a.kept == b.kept; });
  });
}

Letters kept_letters(std::string_view text, int line) {
  Letters letters = letters_of(text, line);
  for (Letter& letter : letters) letter.kept = true;
  return letters;
}

bool is_blank(char symbol) { return symbol == ' ' || symbol == '\t' || symbol == '\r'; }
bool in_name(char symbol) { return std::isalnum(static_cast<unsigned char>(symbol)) != 0 || symbol == '_'; }
bool begins_name(char symbol) { return in_name(symbol) && std::isdigit(static_cast<unsigned char>(symbol)) == 0; }

}  // namespace plumbline::model::megatron
