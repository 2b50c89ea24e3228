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
  bool kept = false;    // from an expansion that only a running shell can evaluate: never split
  bool quoted = false;  // stands for itself in a pattern
};
using Letters = std::vector<Letter>;
using Fields = std::vector<Letters>;

// Returns the letters with their lines, counted from `first_line`; 0: not in the script.
Letters letters_of(std::string_view text, int first_line);
std::string text_of(const Letters& letters);
Letters slice(const Letters& text, std::size_t first, std::size_t end);

// Returns the fields from `first` on as one text, with a blank between them.
Letters joined(const Fields& fields, std::size_t first);

// Whether no letter is kept, so that the text is what a shell would have.
bool is_known(const Letters& letters);

// Whether both have the same letters, and the same of them are known.
bool same_fields(const Fields& left, const Fields& right);

// Returns the text as letters that are not known.
Letters kept_letters(std::string_view text, int line);

bool is_blank(char symbol);  // space, tab, carriage return
bool in_name(char symbol);
bool begins_name(char symbol);

}  // namespace plumbline::model::megatron
