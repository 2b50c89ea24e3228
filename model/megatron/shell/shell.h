// Reads a launch script without running any program. Variables, arrays, quotes, functions, branches, loops and integer
// arithmetic are evaluated as a shell does. What only a running shell has stays as written ("$RANK", "$(hostname)").
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model::megatron {

// A line of a script, or of the n-th file that it sources: n times this many are added. 0: no line.
inline constexpr int lines_of_a_file = 1'000'000;

struct Word {
  std::string text;
  int line = 0;  // where its text was written
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
};

// A condition that depends on what is outside of the script, and the outcome under which a reading is made.
struct Decision {
  int line = 0;
  std::string condition;              // as it is written
  std::vector<std::string> names;     // of variables that would decide it
  std::vector<std::string> outcomes;  // "it holds", "it does not", "7b" ...
  std::size_t taken = 0;
};

struct Script {
  std::vector<Command> commands;  // those in a string after -c begin with the words before it
  std::vector<Word> comments;     // whole comment lines, without the #
  std::map<std::string, std::string, std::less<>> variables;  // at the end of the script
  std::vector<std::string> files;                             // the script, and those that it sources
  std::vector<Word> defaults;  // NAME=VALUE of the variables for which the script's own default holds
  std::vector<Word> skipped;   // sourced files that are not read
  std::vector<Decision> decisions;
  int exit_line = 0;  // where the script ends itself; 0: nowhere
};

// Returns "FILE:LINE" of a line of a script, FILE without one.
std::string place_of(const std::vector<std::string>& files, int line);

// Returns a reading of the script for every combination of outcomes of its undecided conditions: one where there are
// none, or where they change no variable and no command. Fails with an input error (path and line) for a quote, bracket
// or command that is not closed, a sourced file that is missing, and a script that does not end.
Result<std::vector<Script>> read_script(std::string_view text, const ShellInputs& inputs);

}  // namespace plumbline::model::megatron
