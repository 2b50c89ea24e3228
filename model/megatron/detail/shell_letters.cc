#include "model/megatron/detail/shell_letters.h"

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

std::size_t behind_closing(const Letters& text, std::size_t first, char open, char close) {
  int depth = 1;
  for (std::size_t at = first; at < text.size(); ++at) {
    if (text[at].symbol == open) ++depth;
    if (text[at].symbol == close && --depth == 0) return at + 1;
  }
  return text.size();
}

}  // namespace plumbline::model::megatron
