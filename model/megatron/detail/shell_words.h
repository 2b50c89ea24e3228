// Reads the words of a script and expands them: quotes, variables, arrays, arithmetic.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/detail/shell_letters.h"

namespace plumbline::model::megatron {

using Fields = std::vector<Letters>;
using Variables = std::map<std::string, Fields, std::less<>>;  // a scalar has one field, an array any number

// The fields that one word of the script expands to: none, one or several.
struct ReadWord {
  Fields fields;
  std::size_t end = 0;      // just after the word
  bool assignment = false;  // NAME=... or NAME+=... before a command; then name, append and fields are set
  bool append = false;
  bool list = false;  // NAME=( ... )
  std::string name;
  std::optional<std::size_t> unclosed;  // position of a quote or bracket that is not closed
};

// Reads the word that begins at `first`. `may_assign`: it is at a position where an assignment may be.
ReadWord read_word(const Letters& text, std::size_t first, bool may_assign, const Variables& variables);

bool is_blank(char symbol);      // space, tab, carriage return
bool ends_command(char symbol);  // newline ; & | ( )

}  // namespace plumbline::model::megatron
