// Reads the words, comments and redirections of a script one after the other; the parser of commands is on top of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/shell/detail/scan.h"
#include "model/megatron/shell/detail/syntax.h"

namespace plumbline::model::megatron {

class ScriptReader {
 public:
  ScriptReader(const Letters& text, const std::string& path) : text_(text), path_(path), scan_(text) {}

 protected:
  char symbol(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead].symbol : '\0'; }
  int line() const { return text_.empty() ? 0 : text_[std::min(at_, text_.size() - 1)].line; }
  std::string written(std::size_t first) const;
  void fail(std::size_t at, std::string message, std::string hint);
  std::string found();
  // Skips blanks, continued lines and comments.
  void skip_blanks();
  void skip_comment();
  void new_line();
  void skip_lines();
  // Returns the word ahead where it has no quotes or expansions.
  std::string peek();
  bool take(std::string_view word);
  bool take_symbols(std::string_view symbols);
  void expect(std::string_view word, std::string_view of, int from);
  Letters raw_word();
  void redirections(Node& node);
  // Skips a redirection; a here-document or a here-string is kept.
  bool redirection(Node& node);

  const Letters& text_;
  std::string path_;
  Scan scan_;
  Syntax out_;
  std::size_t at_ = 0;
  std::vector<std::pair<std::size_t, std::string>> pending_;  // here-documents that begin after this line
  std::optional<Error> error_;
};

}  // namespace plumbline::model::megatron
