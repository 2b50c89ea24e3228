// Text of a script letter by letter, so that every word knows the line on which it was written even when it passed
// through variables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model::megatron {

struct Letter {
  char symbol = 0;
  int line = 0;
  bool kept = false;  // of an expansion that only a running shell could make: never split
};
using Letters = std::vector<Letter>;

Letters letters_of(std::string_view text, int first_line);
std::string text_of(const Letters& letters);

// The position behind the `close` that ends what begins at `first` (just behind its `open`), nested ones counted;
// the size of the text when it is not closed.
std::size_t behind_closing(const Letters& text, std::size_t first, char open, char close);

}  // namespace plumbline::model::megatron
