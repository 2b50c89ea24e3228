// The table of Megatron's arguments and their meaning for a plan or a model, in both directions.
//
// The arguments of a command line.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {

struct GivenArgument {
  std::vector<std::string> values;  // empty for a flag
  int line = 0;
  bool unknown = false;  // a value is not known
  int condition = 0;     // on which it depends, as in Word
};

class Given {
 public:
  void put(const std::string& name, GivenArgument argument) { arguments_[name] = std::move(argument); }
  void put(const std::string& name, const std::string& value) { arguments_[name] = {{value}, 0}; }
  // Keeps a word that may hold any arguments; the first one counts.
  void put_open(const Word& word) {
    if (!open_) open_ = word;
  }
  const std::optional<Word>& open() const { return open_; }
  void put_flag(const std::string& name) { arguments_[name] = {}; }
  void erase(const std::string& name) { arguments_.erase(name); }

  bool has(std::string_view name) const { return arguments_.contains(name); }
  // Returns the first value; nothing when the argument is not given, "" for a flag.
  std::optional<std::string> value(std::string_view name) const {
    const auto found = arguments_.find(name);
    if (found == arguments_.end()) return std::nullopt;
    return found->second.values.empty() ? "" : found->second.values.front();
  }
  std::vector<std::string> values(std::string_view name) const {
    const auto found = arguments_.find(name);
    return found == arguments_.end() ? std::vector<std::string>() : found->second.values;
  }
  int line(std::string_view name) const {
    const auto found = arguments_.find(name);
    return found == arguments_.end() ? 0 : found->second.line;
  }
  const std::map<std::string, GivenArgument, std::less<>>& all() const { return arguments_; }

 private:
  std::map<std::string, GivenArgument, std::less<>> arguments_;  // the last one of a name counts
  std::optional<Word> open_;
};

enum class NoteKind {
  assumed,      // what the script leaves open, and what is read instead
  not_modeled,  // can change the cost, and the prediction does without it
  no_cost,
  refused,  // Megatron does not start with it
};

struct Note {
  int line = 0;  // line of the script; 0: none
  std::string text;
  NoteKind kind = NoteKind::assumed;
};

enum class Meaning {
  value,        // its value is the key's value
  flag,         // the key is true when it is given
  rule,         // takes part in a rule that reads and writes the key (rules.h)
  not_modeled,  // can change the cost, but no key exists for it
  no_cost,      // changes no cost: logging, checkpoints, learning rates, data paths
};

struct Argument {
  std::string_view name;
  Meaning meaning;
  std::string_view key;   // plan key ("parallelism.tensor") or ModelShape field ("shape.layers"); may be empty
  std::string_view note;  // a summary of the rule, or what is left out
};

// Returns a table with a row for each of the names that a row has, divided by blanks and lines.
std::vector<Argument> table_of(std::span<const Argument> rows);

// Returns whether an argument decides how a step is done, not what it computes: neither the model nor its batch.
bool decides_step(const Argument& argument);

// Returns whether these values of an argument that no plan has ask for what is priced.
bool is_priced(std::string_view name, std::span<const std::string> values);

// Returns the arguments in the order in which they are written.
std::span<const Argument> arguments();

// Returns the name under which the table has an argument: another one where it is an older or another project's name,
// or where it is written with _ for -; itself where it is unknown.
std::string known_name(std::string_view name);

// Returns nullptr when the name is unknown.
const Argument* find_argument(std::string_view name);

// Returns the nearest known name, or "" when none is near.
std::string nearest_argument(std::string_view name);

}  // namespace plumbline::model::megatron
