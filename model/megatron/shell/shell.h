// Reads a launch script without running any program. Variables, arrays, arithmetic, conditions, functions and sourced
// files have bash's meaning. What only a running shell has is not known: it stays as it is written ("$RANK",
// "$(hostname)"), and so does a variable that depends on it. Behind a source or eval that is not read so does a default
// ("${TP:-8}") of a variable that is not set before. Where a condition decides that is not known, what it would
// run is read as something that may not run: what that sets or adds is marked with the condition.
//
// Evaluates integer arithmetic of a shell, as in $((TP * PP)).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/text.h"

namespace plumbline::model::megatron {

// A line of a script, or of the n-th file that it sources: n times this many are added. 0: no line.
inline constexpr int lines_of_a_file = 1'000'000;

struct Word {
  std::string text;
  int line = 0;          // where its text was written
  bool unknown = false;  // a part of it is as it is written, without its value
  int condition = 0;     // on which it depends: a place in Script::conditions, counted from 1; 0: on none
};
using Command = std::vector<Word>;

// Values of variables that are set outside of the script, by name ("NNODES", "1").
using Definitions = std::map<std::string, std::string, std::less<>>;

// What lies at a path: unknown where only the machine that runs the script decides.
enum class FileKind { unknown, none, file, folder };
struct FoundFile {
  FileKind kind = FileKind::unknown;
  std::string text;  // of a file
};

struct ShellInputs {
  std::string path;    // of the script: $0
  std::string folder;  // that holds it, for $(dirname "$0")
  Definitions definitions;
  std::function<FoundFile(const std::string& path)> find_file;  // none: no file is known
  std::function<bool(const Command&)> trains;                   // none: every command that runs a .py file
};

// A condition that the script does not decide.
struct Condition {
  std::string text;             // as it is written
  std::set<std::string> names;  // variables that are not known in it
  int line = 0;
};

struct Script {
  std::vector<Command> commands;   // those in a string after -c begin with the words before it
  Definitions variables;           // at the first training, else at the end
  std::vector<std::string> files;  // the script, and those that it sources
  std::vector<Word> defaults;      // NAME=VALUE of the variables for which the script's own default holds
  std::vector<Word> notes;         // files that are not read, conditions that every training needs
  Word unread;                     // the last source or eval before that which is not read: it may set any variable
  std::vector<Condition> conditions;
  bool trains = false;
  int exit_line = 0;  // where the script ends itself; 0: nowhere
};

// Returns "FILE:LINE" of a line of a script, FILE without one.
std::string place_of(const std::vector<std::string>& files, int line);

// Returns "'[ -n "$X" ]' with X is not decided", and --define X=VALUE or --execute as what helps.
std::string undecided(const Condition& condition);
std::string remedy(const Condition& condition);

// Reads the script. A condition that is not known is taken not to let the script end, and to let the only training
// start, with a note. Fails with an input error (path and line) for a quote, bracket or command that is not closed, a
// construct that is not read, a sourced file that is missing, two trainings of which a condition decides that is not
// known, and a script that does not end. What follows the first training is read as far as it can be.
Result<Script> read_script(std::string_view text, const ShellInputs& inputs);

// Returns what a script takes on its command line, in order: the names of lines NAME=$1, NAME=${2}, and "$3" of a
// parameter that has none. Empty where no line takes any.
std::vector<std::string> script_parameters(std::string_view text);

// Evaluates + - * / % comparisons && || ! and brackets over decimal numbers, names and NAME[KEY], whose texts
// `value_of` returns: arithmetic too, 0 without text. Returns nothing when the text or that of a name has other
// content, or a result does not fit 64 bits.
std::optional<std::int64_t> arithmetic(std::string_view text,
                                       const std::function<std::optional<std::string>(std::string_view)>& value_of);

// Parses a text that is a decimal integer.
inline std::optional<std::int64_t> integer(std::string_view text) { return parse_number<std::int64_t>(text); }

}  // namespace plumbline::model::megatron
