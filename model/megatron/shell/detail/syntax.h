// A script as a tree of commands. Words are kept as they are written: they are expanded when their command runs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/shell/detail/letters.h"

namespace plumbline::model::megatron {

enum class NodeKind {
  command,     // words, with assignments before them
  condition,   // [[ words ]]
  arithmetic,  // (( words[0] ))
  chain,       // parts joined by && and ||
  pipeline,    // parts joined by |
  branch,      // if: a clause each with its condition; the last without one is else
  selection,   // case words[0]: a clause each with its patterns
  loop,        // while, until: one clause
  each,        // for words[0] in words[1..]: one clause
  group,       // { ... }: one clause
  subshell,    // ( ... ): one clause
  function,    // words[0] () ...: one clause
};

struct Node;
struct Clause {
  std::vector<Letters> patterns;
  std::vector<Node> condition, body;
  std::string text;  // the condition as it is written
};

struct Document {
  Letters text;
  bool quoted = false;  // nothing in it is expanded
};

struct Node {
  NodeKind kind = NodeKind::command;
  int line = 0;
  std::string text;  // as it is written, without what a loop or a branch holds
  std::vector<Letters> words;
  std::vector<Clause> clauses;
  std::vector<Node> parts;
  std::vector<bool> on_success;         // of a chain: whether part i + 1 follows &&
  bool inverted = false;                // ! before a pipeline; until
  bool all_parameters = false;          // for without in
  bool silent = false;                  // its output goes to a file
  std::optional<std::size_t> document;  // of the script: what the command reads
};

struct Syntax {
  std::vector<Node> commands;
  std::vector<Document> documents;
  std::vector<Letters> comments;  // whole lines, without the #
};

// Fails with an input error (path and line) for a quote, bracket or command that is not closed, a word that closes
// none, and commands nested too deep.
Result<Syntax> parse_script(const Letters& text, const std::string& path);

}  // namespace plumbline::model::megatron
