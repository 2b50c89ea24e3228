// Holds the text of a script letter by letter, so that every word keeps the line on which it was written even when it
// passes through variables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model::megatron {

struct Letter {
  char symbol = 0;
  int line = 0;
  bool kept = false;  // from an expansion that only a running shell can evaluate: never split
};
using Letters = std::vector<Letter>;

Letters letters_of(std::string_view text, int first_line);
std::string text_of(const Letters& letters);

// Returns the position after the `close` that ends what begins at `first` (just after its `open`), with nesting; the
// size of the text when it is not closed.
std::size_t behind_closing(const Letters& text, std::size_t first, char open, char close);

}  // namespace plumbline::model::megatron
