// Finds where words and brackets of a script end, without expanding anything.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "model/megatron/shell/detail/letters.h"

namespace plumbline::model::megatron {

class Scan {
 public:
  explicit Scan(const Letters& text) : text_(text) {}

  // Each returns the position after what begins at `at`: a word with its quotes and expansions, "...", '...', `...`,
  // $..., or ( ... ) and { ... } with what is nested in them.
  std::size_t word(std::size_t at);
  std::size_t double_quotes(std::size_t at);
  std::size_t single_quotes(std::size_t at);
  std::size_t back_quotes(std::size_t at);
  std::size_t dollar(std::size_t at);
  std::size_t brackets(std::size_t at, char open, char close);
  std::size_t piece(std::size_t at);  // any of these, or a letter

  // The first quote or bracket that is not closed.
  std::optional<std::size_t> unclosed() const { return unclosed_; }

 private:
  std::size_t not_closed(std::size_t at);

  const Letters& text_;
  std::optional<std::size_t> unclosed_;
  int depth_ = 0;
};

bool ends_command(char symbol);  // newline ; & | ( )

// A here-document: its mark behind << and its lines up to that mark.
struct HereMark {
  std::string text;
  bool quoted = false;  // its lines are taken as they are
  std::size_t end = 0;  // after the mark
};
// Reads the mark behind the << at `at`; its text is empty where there is none.
HereMark here_mark(const Letters& text, std::size_t at);
// Returns the lines that begin at `at` and moves `at` behind the line with the mark.
Letters here_lines(const Letters& text, std::size_t& at, const std::string& mark);

}  // namespace plumbline::model::megatron
