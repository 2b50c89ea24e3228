#include "model/megatron/shell/detail/scan.h"

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_nesting = 100;  // a limit on quotes in brackets in quotes

}  // namespace

bool ends_command(char symbol) {
  return symbol == '\n' || symbol == ';' || symbol == '&' || symbol == '|' || symbol == '(' || symbol == ')';
}

std::size_t Scan::word(std::size_t at) {
  const std::size_t first = at;
  while (at < text_.size()) {
    const char symbol = text_[at].symbol;
    const bool list = symbol == '(' && at > first && text_[at - 1].symbol == '=';
    const bool process =
        (symbol == '<' || symbol == '>') && at == first && at + 1 < text_.size() && text_[at + 1].symbol == '(';
    if (list) {
      at = brackets(at, '(', ')');
    } else if (process) {
      at = brackets(at + 1, '(', ')');
    } else if (is_blank(symbol) || ends_command(symbol) || symbol == '<' || symbol == '>') {
      return at;
    } else {
      at = piece(at);
    }
  }
  return at;
}

// Skips one letter, or what a quote or dollar sign begins.
std::size_t Scan::piece(std::size_t at) {
  switch (text_[at].symbol) {
    case '\\':
      return at + 1 < text_.size() ? at + 2 : at + 1;
    case '\'':
      return single_quotes(at);
    case '"':
      return double_quotes(at);
    case '`':
      return back_quotes(at);
    case '$':
      return dollar(at);
    default:
      return at + 1;
  }
}

std::size_t Scan::not_closed(std::size_t at) {
  if (!unclosed_) unclosed_ = at;
  return text_.size();
}

std::size_t Scan::single_quotes(std::size_t at) {
  for (std::size_t end = at + 1; end < text_.size(); ++end)
    if (text_[end].symbol == '\'') return end + 1;
  return not_closed(at);
}

std::size_t Scan::back_quotes(std::size_t at) {
  for (std::size_t end = at + 1; end < text_.size(); ++end) {
    if (text_[end].symbol == '\\')
      ++end;
    else if (text_[end].symbol == '`')
      return end + 1;
  }
  return not_closed(at);
}

std::size_t Scan::double_quotes(std::size_t at) {
  if (depth_ > deepest_nesting) return not_closed(at);
  ++depth_;
  std::size_t end = at + 1;
  while (end < text_.size() && text_[end].symbol != '"') {
    // An apostrophe stands for itself.
    const bool apostrophe = end + 1 < text_.size() && text_[end].symbol == '$' && text_[end + 1].symbol == '\'';
    end = apostrophe || text_[end].symbol == '\'' ? end + 1 : piece(end);
  }
  --depth_;
  return end < text_.size() ? end + 1 : not_closed(at);
}

std::size_t Scan::dollar(std::size_t at) {
  const char next = at + 1 < text_.size() ? text_[at + 1].symbol : ' ';
  if (next == '(') return brackets(at + 1, '(', ')');
  if (next == '{') return brackets(at + 1, '{', '}');
  if (next == '\'') return single_quotes(at + 1);
  if (!begins_name(next)) return ends_command(next) || is_blank(next) || next == '"' ? at + 1 : at + 2;
  for (++at; at < text_.size() && in_name(text_[at].symbol);) ++at;
  return at;
}

std::size_t Scan::brackets(std::size_t at, char open, char close) {
  if (depth_ > deepest_nesting) return not_closed(at);
  ++depth_;
  int levels = 1;
  std::size_t end = at + 1;
  HereMark document;
  while (end < text_.size() && levels > 0) {
    const char symbol = text_[end].symbol;
    if (symbol == '\n' && !document.text.empty()) {
      here_lines(text_, ++end, document.text);
      document.text.clear();
      continue;
    }
    if (symbol == '<' && open == '(' && document.text.empty()) document = here_mark(text_, end);
    const bool comment =
        symbol == '#' && open == '(' && (is_blank(text_[end - 1].symbol) || text_[end - 1].symbol == '\n');
    if (comment) {
      while (end < text_.size() && text_[end].symbol != '\n') ++end;
      continue;
    }
    levels += symbol == open ? 1 : symbol == close ? -1 : 0;
    end = symbol == open || symbol == close ? end + 1 : piece(end);
  }
  --depth_;
  return levels == 0 ? end : not_closed(at);
}

HereMark here_mark(const Letters& text, std::size_t at) {
  const auto symbol = [&text](std::size_t place) { return place < text.size() ? text[place].symbol : '\n'; };
  HereMark mark;
  if (symbol(at) != '<' || symbol(at + 1) != '<' || symbol(at + 2) == '<') return mark;
  std::size_t place = at + 2;
  if (symbol(place) == '-') ++place;
  while (is_blank(symbol(place))) ++place;
  mark.quoted = symbol(place) == '\'' || symbol(place) == '"' || symbol(place) == '\\';
  if (mark.quoted) ++place;
  if (!begins_name(symbol(place))) return mark;
  for (; in_name(symbol(place)); ++place) mark.text += symbol(place);
  if (mark.quoted && (symbol(place) == '\'' || symbol(place) == '"')) ++place;
  mark.end = place;
  return mark;
}

Letters here_lines(const Letters& text, std::size_t& at, const std::string& mark) {
  Letters lines;
  while (at < text.size()) {
    const std::size_t first = at;
    while (at < text.size() && text[at].symbol != '\n') ++at;
    if (at < text.size()) ++at;
    std::string line = text_of(slice(text, first, at));
    line.erase(0, line.find_first_not_of('\t') == std::string::npos ? 0 : line.find_first_not_of('\t'));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (line == mark) break;
    lines.insert(lines.end(), text.begin() + static_cast<std::ptrdiff_t>(first),
                 text.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return lines;
}

}  // namespace plumbline::model::megatron
