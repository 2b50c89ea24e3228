// Reads a launch script as text and returns its commands without running any. Variables, arrays, quotes, continued
// lines and integer arithmetic are followed in the order of the script. Expansions that only a running shell can
// evaluate stay as written ("$RANK", "$(hostname)").
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model::megatron {

struct Word {
  std::string text;
  int line = 0;  // where its text was written; 0: not in the script
};
using Command = std::vector<Word>;

// Values of variables that are set outside of the script, by name ("NNODES", "1").
using Definitions = std::map<std::string, std::string, std::less<>>;

struct Script {
  std::vector<Command> commands;  // those in a string after -c or eval begin with the words before it
  std::vector<Word> comments;     // whole comment lines, without the #
  std::map<std::string, std::string, std::less<>> variables;  // at the end of the script
  int first_branch = 0;  // line of the first if, for, while or case; all branches are read, the last one counts
};

// Fails with an input error (path and line) for a quote or bracket that is not closed.
Result<Script> read_script(std::string_view text, const std::string& path, const Definitions& definitions);

}  // namespace plumbline::model::megatron
