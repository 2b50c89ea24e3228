// Holds the text of a script letter by letter, so that every word keeps the line on which it was written even when it
// passes through variables, and cuts it into words, operators and redirections.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model::megatron {

struct Letter {
  char symbol = 0;
  int line = 0;
  bool kept = false;    // from an expansion that only a running shell can evaluate: never split
  bool quoted = false;  // stands for itself in a pattern
  int condition = 0;    // on which it depends whether it is there, by its place from 1; 0: on none

  bool is_known() const { return !kept && condition == 0; }
};
using Letters = std::vector<Letter>;
using Fields = std::vector<Letters>;

// Returns the letters with their lines, counted from `first_line`; 0: not in the script.
Letters letters_of(std::string_view text, int first_line = 0);
std::string text_of(const Letters& letters);

// Returns "$NAME" as the value of a variable that is not known.
Letters open_value(const std::string& name, int line, int condition);
Letters slice(const Letters& text, std::size_t first, std::size_t end);

// Returns the fields from `first` on as one text, with a blank between them.
Letters joined(const Fields& fields, std::size_t first = 0);

// Whether the text is what a shell would have.
bool is_known(const Letters& letters);
bool are_known(const Fields& fields);
// Returns the first condition on which a letter depends; 0: there is none.
int condition_of(const Letters& letters);

template <class List>
bool is_one_of(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::end(list);
}

bool is_blank(char symbol);  // space, tab, carriage return
bool in_name(char symbol);
bool begins_name(char symbol);
bool ends_command(char symbol);

// Whether the whole text matches the pattern: * ? [...] match, quoted letters stand for themselves.
bool matches(const Letters& pattern, const Letters& text);

// Returns the value without the shortest or longest (`op` doubled) part that matches: # from its beginning, % from
// its end.
Letters trimmed(const Letters& value, std::string_view op, const Letters& pattern);

// Finds where words and brackets of a script end, without expanding anything.
class Scan {
 public:
  explicit Scan(const Letters& text) : text_(text) {}

  // Each returns the position after what begins at `at`: a word with its quotes and expansions, one letter or what a
  // quote or dollar sign begins, or ( ... ) and { ... } with what is nested in them.
  std::size_t word(std::size_t at);
  std::size_t piece(std::size_t at);
  std::size_t brackets(std::size_t at, char open, char close);

  // Returns the position of the first quote or bracket that is not closed.
  std::optional<std::size_t> unclosed() const { return unclosed_; }

 private:
  char symbol(std::size_t at) const { return at < text_.size() ? text_[at].symbol : '\0'; }
  std::size_t quotes(std::size_t at);
  std::size_t not_closed(std::size_t at);

  const Letters& text_;
  std::optional<std::size_t> unclosed_;
  int depth_ = 0;
};

enum class TokenKind { end, word, control, redirection, arithmetic, unclosed };

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

  Letters text;
  std::vector<Token> tokens;
  std::map<std::size_t, std::size_t> skipped;  // the ends of commands that were read without being run, by their begin
};

}  // namespace plumbline::model::megatron
