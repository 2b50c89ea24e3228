// What is made of the tree of verbs and options, and of the table of plan keys: completion in shells, man pages, and
// hints about words that are not in them.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

// A word that may stand at the cursor, with its description.
struct Candidate {
  std::string word, what;
};

// Returns what may complete the last of the words that follow the name of the program. Words that end in = or / go on.
std::vector<Candidate> completions(const CLI::App& root, const std::vector<std::string>& words);

// Returns the values that an option or argument has a list of: those of its check, else those that its help names as
// "a | b | c".
std::vector<std::string> listed_values(const CLI::Option& option);

// Returns the script that makes a shell ask for completions; an unknown shell is an input error.
model::Result<std::string> completion_script(const std::string& shell);

// Returns all man pages in roff by file name: plumbline.1, plumbline-VERB.1, and plumbline-plan.5 of the keys of plans.
std::map<std::string, std::string> man_pages(const CLI::App& root);

// Returns the names of the verbs that help lists.
std::vector<std::string> verb_names(const CLI::App& root);

// Returns the verb of that name; an unknown one is an input error with the nearest name.
model::Result<const CLI::App*> find_verb(const CLI::App& root, const std::string& name);

// Returns the error about words that do not parse as an unknown verb, option or value with the nearest name; `error` in
// its own words where it is about something else.
model::Error parse_problem(const CLI::App& root, const CLI::ParseError& error);

}  // namespace plumbline::cli
