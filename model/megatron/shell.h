// A launch script as text: which commands it would give, without running any. Variables, arrays, quotes,
// continued lines and integer arithmetic are followed in the order in which they stand; whatever only a running
// shell could know stays as it is written ("$RANK", "$(hostname)").
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

// Values of variables that the script takes from outside, by name ("NNODES", "1").
using Definitions = std::map<std::string, std::string, std::less<>>;

struct Script {
  std::vector<Command> commands;  // those of a string behind -c or eval begin with the words before it
  std::vector<Word> comments;     // whole comment lines, without the #
  std::map<std::string, std::string, std::less<>> variables;  // at the end of the script
  int first_branch = 0;  // line of the first if, for, while or case: all branches are read, the last one holds
};

// Errors (input, with path and line): a quote or bracket that is not closed.
Result<Script> read_script(std::string_view text, const std::string& path, const Definitions& definitions);

}  // namespace plumbline::model::megatron
