// The text of a Python file and a place in it: names, words and what lies outside of strings, comments and brackets.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model::configurations {

inline bool is_name(char one) {
  return one == '_' || (one >= '0' && one <= '9') || ((one | 32) >= 'a' && (one | 32) <= 'z');
}

class PythonText {
 protected:
  explicit PythonText(std::string_view text) : text_(text) {}

  char letter() const { return pos_ < end_ ? text_[pos_] : '\0'; }
  bool is_quote(std::size_t at) const { return at < text_.size() && (text_[at] == '"' || text_[at] == '\''); }
  std::string_view marks(std::size_t at) const {
    return text_.substr(at, text_.substr(at, 3) == std::string(3, text_[at]) ? 3 : 1);
  }

  // Returns the place behind the string that begins at a quote.
  std::size_t after_string(std::size_t at) const {
    const std::string_view quote = marks(at);
    for (at += quote.size(); at < text_.size(); ++at) {
      if (text_.substr(at).starts_with(quote)) return at + quote.size();
      if (text_[at] == '\\') ++at;
    }
    return text_.size();
  }

  // Returns the first place from `at` where one of `ends` is outside of strings, comments and brackets.
  std::size_t find_outside(std::size_t at, std::size_t end, std::string_view ends) const {
    for (int depth = 0; at < end;) {
      const char one = text_[at];
      if (depth <= 0 && ends.find(one) != std::string_view::npos) return at;
      if (std::string_view("([{").find(one) != std::string_view::npos) ++depth;
      if (std::string_view(")]}").find(one) != std::string_view::npos) --depth;
      at = is_quote(at) ? after_string(at) : one == '#' ? text_.find('\n', at) : one == '\\' ? at + 2 : at + 1;
    }
    return end;
  }

  void skip_space() {
    while (pos_ < end_ && std::string_view(" \t\r\n\\#").find(text_[pos_]) != std::string_view::npos)
      pos_ = text_[pos_] == '#' ? std::min(text_.find('\n', pos_), end_) : pos_ + 1;
  }

  // Returns the names between dots, the last of which may be empty.
  std::vector<std::string> take_path() {
    std::vector<std::string> path;
    do {
      if (!path.empty()) ++pos_;
      const std::size_t begin = pos_;
      while (is_name(letter())) ++pos_;
      path.emplace_back(text_.substr(begin, pos_ - begin));
    } while (letter() == '.');
    skip_space();
    return path;
  }

  bool takes_assignment() {
    const bool takes = letter() == '=' && !text_.substr(pos_).starts_with("==");
    if (takes) ++pos_;
    return takes;
  }

  bool stands_at(std::size_t at, std::string_view word) const {
    const std::size_t behind = at + word.size();
    return at <= end_ && text_.substr(0, end_).substr(at).starts_with(word) &&
           (behind >= end_ || !is_name(text_[behind]));
  }
  // Returns the place of a word of an expression outside of brackets; nothing where it has none.
  std::optional<std::size_t> find_word(std::size_t at, std::string_view word) const {
    for (at = find_outside(at, end_, " \n,)]}"); at < end_ && std::isspace(text_[at]) != 0;
         at = find_outside(at + 1, end_, " \n,)]}"))
      if (stands_at(at + 1, word)) return at + 1;
    return std::nullopt;
  }
  bool takes_word(std::string_view word) {
    skip_space();
    const bool takes = stands_at(pos_, word) ||
                       (word.back() == '=' && text_.substr(0, end_).substr(std::min(pos_, end_)).starts_with(word));
    if (takes) pos_ += word.size();
    skip_space();
    return takes;
  }

  std::string_view text_;
  std::size_t pos_ = 0, end_ = 0;
};

}  // namespace plumbline::model::configurations
