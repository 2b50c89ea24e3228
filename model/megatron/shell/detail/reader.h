// Goes one way through a script on paper: its text is read command by command, variables change and commands are
// recorded, and nothing is executed. What is not reached is read all the same, to find where it ends.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/shell/detail/letters.h"
#include "model/megatron/shell/detail/tokens.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {

enum class Truth { no, yes, unknown };
constexpr Truth truth_of(bool holds) { return holds ? Truth::yes : Truth::no; }
constexpr Truth operator!(Truth truth) {
  return truth == Truth::unknown ? truth : truth == Truth::yes ? Truth::no : Truth::yes;
}

enum class Flow { none, next, leave, give_back, end };  // continue, break, return, exit

// What a shell of its own does not change.
struct State {
  std::map<std::string, Fields, std::less<>> variables;  // one field: a scalar; none: it is unset
  Fields parameters;                                     // $1 ...
  std::map<std::string, std::pair<Source*, std::size_t>, std::less<>> functions;
  std::vector<std::set<std::string>> locals;  // of each function
  std::optional<std::string> folder{""};      // after cd; empty: where the script is started; nothing: not known

  bool operator==(const State&) const = default;
};

class Reader {
 public:
  // `decisions` are those of the way; further conditions do not hold. `files` are those of all ways.
  Reader(const ShellInputs& inputs, std::vector<Decision> decisions, std::vector<std::string>& files);

  Result<Script> run(Source& script);

  // Expansions (expand.cc). Words are split into fields, or stay one; texts are expanded as if they were in double
  // quotes; arithmetic is nothing where a value is not known.
  Fields expand(const Letters& word);
  Letters expand_one(const Letters& word);
  Letters expand_text(const Letters& text);
  std::optional<std::int64_t> number(const Letters& formula);

  // Returns the fields of a variable, a parameter or an element; nothing where only a running shell has them.
  std::optional<Fields> fields_of(const std::string& name) const;
  std::optional<Fields> element(const std::string& name, const Letters& key);
  void assign(const std::string& name, Fields value, bool appended = false);
  void forget(const std::string& name);  // its value is not known any more
  // Returns what a command prints; nothing where only a running shell has it.
  std::optional<Letters> output_of(const Letters& command);
  // Records a name whose value is not known, and one for which the script has a default.
  void miss(const std::string& name) { missing_.insert(name); }
  void take_default(const std::string& name, const Letters& value, int line);
  bool charge(std::size_t letters);                // whether so many letters more may be made
  void refuse(int line, const std::string& what);  // names a construct that is not read
  // Returns what lies at a path, which a relative one does not state behind cd to a folder that is not known.
  FoundFile find(const std::string& path) const;

 private:
  // Reading (reader.cc)
  bool live() const { return skipping_ == 0 && flow_ == Flow::none && !broken_; }
  const Token& token() const;
  int line() const;
  std::string written(std::size_t first) const;
  void fail(int line, std::string message, std::string hint);
  void damaged(int line, std::string message, std::string hint = "");
  void keep_variables();
  Truth settled(Truth truth, int line, const std::string& condition);
  void skip_lines();
  bool take(std::string_view word);
  void expect(std::string_view word, std::string_view of, int from);
  bool redirections();
  template <class Part>
  void skip_if(bool skips, const Part& part);
  template <class Part>
  void run_open(const Part& part);
  template <class Part>
  void run_undecided(const Part& part);
  template <class Part>
  bool is_inert(const Part& part);
  void list(std::string_view of = {});  // what must have commands; empty: there may be none
  void chain();
  void pipeline();
  void command();
  void compound();
  void branch(int from);
  void clauses(Truth truth, int from, bool taken);
  void selection(int from);
  void loop(int from);
  void rounds(int from);
  void each(int from);
  bool body(bool runs, std::string_view of, int from);
  template <class Part>
  void repeat(const Part& part);
  void condition(int from);
  void function();
  void simple(int from);

  // Running (commands.cc)
  void run_text(Source& source);
  void apart(const std::function<void()>& commands);  // in a shell of its own
  void run_simple(const std::vector<Letters>& words, int line);
  void run_words(const Fields& fields, int line);
  bool run_variables(const std::string& name, const Fields& fields, int line);
  bool run_inputs(const std::string& name, const Fields& fields, int line);
  bool run_control(const std::string& name, const Fields& fields, int line);
  bool run_output(const std::string& name, const Fields& fields);
  void run_function(const std::pair<Source*, std::size_t>& function, const Fields& fields);
  void run_source(const Fields& fields, int line);
  void record(const Fields& fields, int line);
  void assign_word(const Letters& word);
  Fields list_of(const Letters& list);
  void declare(const std::vector<Letters>& words, int line);
  void restore(const std::string& name, const std::map<std::string, Fields, std::less<>>& before);
  Truth test(const std::vector<Letters>& words, bool patterns);  // conditions.cc

  const ShellInputs& inputs_;
  std::vector<std::string>& files_;
  std::int64_t commands_left_ = 100'000, letters_left_ = 5'000'000;  // so that no script is read without end
  Script out_;
  std::deque<Source> sources_;
  Source* source_ = nullptr;  // that is read, and where
  std::size_t at_ = 0;
  int skipping_ = 0;                // above 0: nothing is run
  bool repeated_ = false;           // what is run here runs any number of times, none among them; then of that:
  bool left_ = false;               // a command would have left the script or its folder
  bool skips_ = false;              // a command would have skipped what follows
  std::size_t open_functions_ = 0;  // functions and loops around it
  int open_loops_ = 0, loops_ = 0;  // loops_: around what is run now
  bool silent_ = false;             // the command at hand prints to a file
  bool document_ = false;           // it reads a here-document
  int depth_ = 0, levels_ = 0;
  State state_;
  Flow flow_ = Flow::none;
  Truth status_ = Truth::yes;
  std::size_t decided_ = 0;        // decisions of the way that were taken
  std::set<std::string> missing_;  // names that the condition at hand lacks
  std::set<std::string> readonly_;
  std::optional<Letters>* output_ = nullptr;  // of the command in $( ): nothing once it is not known
  Command prefix_;                            // words before the string of commands at hand
  bool behind_ = false;                       // the line of the first training has ended, so that bash has started it
  bool open_end_ = false;  // it was refused because a condition that is not decided leaves what is around it
  bool broken_ = false;
  std::optional<Error> error_;
};

}  // namespace plumbline::model::megatron
