#include "model/megatron/shell/detail/letters.h"

#include <fnmatch.h>  // POSIX

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_nesting = 100;  // a limit on quotes in brackets in quotes

}  // namespace

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

Letters open_value(const std::string& name, int line) {
  Letters letters = letters_of("$" + name, line);
  for (Letter& letter : letters) letter.kept = true;
  return letters;
}

std::string text_of(const Letters& letters) {
  std::string text;
  text.reserve(letters.size());
  for (const Letter& letter : letters) text += letter.symbol;
  return text;
}

Letters slice(const Letters& text, std::size_t first, std::size_t end) {
  end = std::min(end, text.size());
  if (first >= end) return {};
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
bool are_known(const Fields& fields) { return std::ranges::all_of(fields, is_known); }

bool is_blank(char symbol) { return symbol == ' ' || symbol == '\t' || symbol == '\r'; }
bool in_name(char symbol) { return std::isalnum(static_cast<unsigned char>(symbol)) != 0 || symbol == '_'; }
bool begins_name(char symbol) { return in_name(symbol) && std::isdigit(static_cast<unsigned char>(symbol)) == 0; }
bool ends_command(char symbol) {
  return symbol != '\0' && std::string_view("\n;&|()").find(symbol) != std::string_view::npos;
}

bool matches(const Letters& pattern, const Letters& text) {
  std::string glob;
  for (const Letter& letter : pattern) {
    if (letter.quoted) glob += '\\';
    glob += letter.symbol;
  }
  return ::fnmatch(glob.c_str(), text_of(text).c_str(), 0) == 0;
}

Letters trimmed(const Letters& value, std::string_view sign, const Letters& pattern) {
  const bool front = sign[0] == '#', longest = sign.size() > 1;
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t length = longest ? value.size() - i : i;
    if (front && matches(pattern, slice(value, 0, length))) return slice(value, length, value.size());
    if (!front && matches(pattern, slice(value, value.size() - length, value.size())))
      return slice(value, 0, value.size() - length);
  }
  return value;
}

std::size_t Scan::word(std::size_t at) {
  const std::size_t first = at;
  while (at < text_.size()) {
    const char here = symbol(at);
    const bool list = here == '(' && at > first && symbol(at - 1) == '=';
    const bool process = (here == '<' || here == '>') && at == first && symbol(at + 1) == '(';
    if (list || process) {
      at = brackets(list ? at : at + 1, '(', ')');
    } else if (is_blank(here) || ends_command(here) || here == '<' || here == '>') {
      return at;
    } else {
      at = piece(at);
    }
  }
  return at;
}

std::size_t Scan::piece(std::size_t at) {
  switch (symbol(at)) {
    case '\\':
      return std::min(at + 2, text_.size());
    case '\'':
    case '"':
    case '`':
      return quotes(at);
    case '$':
      if (symbol(at + 1) == '(') return brackets(at + 1, '(', ')');
      if (symbol(at + 1) == '{') return brackets(at + 1, '{', '}');
      return symbol(at + 1) == '\'' ? quotes(at + 1) : at + 1;
    default:
      return at + 1;
  }
}

std::size_t Scan::not_closed(std::size_t at) {
  if (!unclosed_) unclosed_ = at;
  return text_.size();
}

std::size_t Scan::quotes(std::size_t at) {
  if (++depth_ > deepest_nesting) return not_closed(at);
  const char quote = symbol(at);
  std::size_t end = at + 1;
  while (end < text_.size() && symbol(end) != quote) {
    const bool escape = quote == '`' && symbol(end) == '\\';
    // In double quotes an apostrophe stands for itself.
    const bool apostrophe = symbol(end) == '\'' || (symbol(end) == '$' && symbol(end + 1) == '\'');
    end = escape ? end + 2 : quote != '"' || apostrophe ? end + 1 : piece(end);
  }
  --depth_;
  return end < text_.size() ? end + 1 : not_closed(at);
}

std::size_t Scan::brackets(std::size_t at, char open, char close) {
  if (++depth_ > deepest_nesting) return not_closed(at);
  int levels = 1;
  std::size_t end = at + 1;
  while (end < text_.size() && levels > 0) {
    const char here = symbol(end);
    if (here == '#' && open == '(' && (is_blank(symbol(end - 1)) || symbol(end - 1) == '\n')) {
      while (end < text_.size() && symbol(end) != '\n') ++end;
      continue;
    }
    levels += here == open ? 1 : here == close ? -1 : 0;
    end = here == open || here == close ? end + 1 : piece(end);
  }
  --depth_;
  return levels == 0 ? end : not_closed(at);
}

}  // namespace plumbline::model::megatron
