// Expands the words of a script: quotes, variables, arrays, arithmetic, output of commands.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/detail/letters.h"

namespace plumbline::model::megatron {

// What expansions read and change.
class Scope {
 public:
  virtual ~Scope() = default;
  // Returns the value of a variable or parameter (1, @, #): a scalar has one field, an array any number; nullptr where
  // the script does not set it. An element that was assigned by itself is "NAME[KEY]".
  virtual const Fields* find(std::string_view name) const = 0;
  virtual void assign(const std::string& name, Fields value) = 0;
  virtual bool is_map(const std::string& name) const = 0;  // an associative array
  // Returns what a command prints; nothing where only a running shell has it.
  virtual std::optional<Letters> output_of(const Letters& command) = 0;
  // Records a name whose value is not known, and one for which the script has a default.
  virtual void miss(std::string_view name) = 0;
  virtual void take_default(std::string_view name, const std::string& value, int line) = 0;
  // Whether so many letters more may be made.
  virtual bool charge(std::size_t letters) = 0;
  // Records what is taken for granted at the command at hand.
  virtual void note(const std::string& text) = 0;
};

// The fields that one word of the script expands to: none, one or several.
struct ReadWord {
  Fields fields;
  bool assignment = false;  // NAME=... or NAME+=... before a command; then name, append and fields are set
  bool append = false;
  bool list = false;                                      // NAME=( ... )
  std::string name;                                       // with the key of an element: NAME[KEY]
  std::vector<std::pair<std::string, Letters>> elements;  // of a list: those with keys, by NAME[KEY]
};

// Expands a word as it is written. `may_assign`: an assignment may be here.
ReadWord read_word(const Letters& word, bool may_assign, Scope& scope);

// Expands text to one field, as if it were in double quotes.
Letters read_text(const Letters& text, Scope& scope);

// Expands a word to one field that is not split; its quoted letters are marked.
Letters read_field(const Letters& word, Scope& scope);

// Whether the whole text matches the pattern: * ? [...] match, quoted letters stand for themselves.
bool matches(const Letters& pattern, const Letters& text);

// Returns the value without the shortest or longest (`sign` doubled) part that matches: # from its beginning, % from
// its end.
Letters trimmed(const Letters& value, std::string_view sign, const Letters& pattern);

// Evaluates the text of $(( )), with the assignments in it; nothing where a value is not known.
std::optional<std::int64_t> read_number(const Letters& formula, Scope& scope);

}  // namespace plumbline::model::megatron
