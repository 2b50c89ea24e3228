// Cuts a text of commands into words, signs and redirections.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/megatron/shell/detail/letters.h"

namespace plumbline::model::megatron {

enum class TokenKind { end, word, sign, redirection, arithmetic, unclosed };

struct Token {
  TokenKind kind = TokenKind::end;
  Letters text;     // of a word without line ends behind a backslash; of (( )) what is in it; what is not closed
  std::string raw;  // the same; none of what is not closed
  std::size_t first = 0, end = 0;
  bool silent = false;    // sends what a command prints to a file
  bool document = false;  // is a here-document
};

// A text of commands: a script, a file that it sources, or a string.
struct Source {
  explicit Source(Letters letters);

  // Returns whether NAME= is in the text.
  bool assigns(const std::string& name);

  Letters text;
  std::vector<Token> tokens;
  std::map<std::size_t, std::size_t> skipped;  // the ends of commands that were read without being run, by their begin
  std::optional<std::set<std::string>> assigned;  // names before a =, once they are asked for
};

}  // namespace plumbline::model::megatron
