// Runs a script on paper: its commands change variables and are recorded, and nothing is executed.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/shell/detail/conditions.h"
#include "model/megatron/shell/detail/syntax.h"
#include "model/megatron/shell/detail/words.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {

// Work that is left to all readings of a script, so that none runs without end.
struct Budget {
  std::int64_t commands = 500'000;
  std::int64_t letters = 50'000'000;
};

// What a script changes.
struct State {
  std::map<std::string, Fields, std::less<>> variables;
  Fields parameters;  // $1 ...
  std::map<std::string, const Node*, std::less<>> functions;
  std::vector<std::map<std::string, std::optional<Fields>>> locals;  // of each function: what its variables hid
  std::set<std::string, std::less<>> exported;                       // names of variables that other programs see
  bool exports_all = false;                                          // set -a
  std::vector<Command> commands;
  std::vector<Word> defaults, skipped;                      // as of Script
  std::string folder;                                       // after cd; empty: where the script is started
  std::map<std::string, Fields, std::less<>> assumed;       // values that an outcome of an undecided condition implies
  std::map<std::string, std::size_t, std::less<>> decided;  // outcomes of undecided conditions
};

enum class Flow { none, next, leave, give_back, end };  // continue, break, return, exit

class Evaluator final : private Scope {
 public:
  // `forced`: the outcomes of the first undecided conditions; that of further ones is their first.
  Evaluator(const ShellInputs& inputs, Budget& budget, std::vector<std::size_t> forced);

  Result<Script> run(std::string_view text);

 private:
  struct Outcome {
    std::string label;
    std::function<void()> run;
  };
  struct Reached {  // after an outcome
    State state;
    Flow flow = Flow::none;
    int levels = 0;
    Truth status = Truth::yes;
    bool undecided = false;  // by itself it depends on further conditions
    std::optional<Error> error;
  };
  struct Question {
    int line = 0;
    std::string condition;
  };

  // Scope
  const Fields* find(std::string_view name) const override;
  void assign(const std::string& name, Fields value) override;
  std::optional<Letters> output_of(const Letters& command) override;
  void miss(std::string_view name) override;
  void take_default(std::string_view name, const std::string& value, int line) override;
  bool charge(std::size_t letters) override;

  const Fields* find_parameter(std::int64_t index) const;
  bool stopped() const { return flow_ != Flow::none || error_.has_value() || undecided_; }
  void fail(int line, std::string message, std::string hint);
  bool spend(int line);  // a command of the budget
  bool enter(int line);  // counts nested calls
  const Syntax* parse(const Letters& text);

  // Control flow (evaluator.cc)
  void run_list(const std::vector<Node>& nodes);
  void run_node(const Node& node);
  void run_chain(const Node& node, std::size_t from);
  void run_link(const Node& node, std::size_t from, Truth status);
  void run_pipeline(const Node& node);
  void run_branch(const Node& node, std::size_t from);
  void run_selection(const Node& node);
  void run_loop(const Node& node);
  void run_each(const Node& node);
  void run_count(const Node& node);
  void run_subshell(const Node& node);
  bool run_body(const Clause& clause);  // whether the loop goes on
  void run_test(const Node& node);
  void run_arithmetic(const Letters& formula);
  void bind(const Letters& subject, const Letters& value);
  void leave_shell(const State& before);  // takes back what a shell of its own has changed

  // Undecided conditions (choice.cc)
  Truth condition(const std::vector<Node>& nodes);
  void choose(const Question& question, const std::vector<Outcome>& outcomes);
  Reached try_outcome(const State& before, const std::string& key, std::size_t index, const Outcome& outcome);
  void adopt(Reached reached);
  void decide(const Question& question, const std::vector<Outcome>& outcomes, const std::vector<std::size_t>& possible,
              std::vector<Reached>& reached, const std::string& key, const State& before);

  // Variables and control (commands.cc)
  void run_command(const Node& node);
  void run_words(const Fields& fields, const Node& node);
  bool run_variables(const std::string& name, const Fields& fields, const Node& node);
  bool run_control(const std::string& name, const Fields& fields, const Node& node);
  void declare(const Node& node, std::size_t first, const std::string& kind);
  void assign_word(const ReadWord& word);
  void hide(const std::string& name);

  // Input (builtins.cc) and output (printing.cc)
  void run_options(const Fields& fields);
  void run_read(const Fields& fields, const Node& node);
  bool run_text(const std::string& name, const Fields& fields, const Node& node);
  void print(const Letters& text);
  std::optional<Letters> input_of(const Node& node);
  std::optional<Letters> known_output(const std::string& name, const Fields& fields, const Node& node);

  // Functions, other scripts and programs (programs.cc)
  void run_function(const Node& function, const Fields& fields, int line);
  void run_script(const Letters& text, int line);
  std::filesystem::path script_path(const std::string& path) const;
  std::optional<Letters> letters_of_file(const std::string& path, const FoundFile& found, int line);
  void run_source(const Fields& fields, int line);
  bool run_child(const Fields& fields, int line);
  void record(const Fields& fields, const Node& node);

  const ShellInputs& inputs_;
  Budget& budget_;
  std::vector<std::size_t> forced_;
  State state_;
  Script out_;
  std::deque<Syntax> parsed_;
  const Syntax* syntax_ = nullptr;  // whose here-documents are read
  mutable Fields found_;            // the parameter that was looked up last
  Flow flow_ = Flow::none;
  int levels_ = 0;
  Truth status_ = Truth::yes;
  std::set<std::string> missing_;  // names that the condition at hand lacks
  std::string unknown_;            // the words of the condition at hand that are not known
  bool undecided_ = false;         // the outcome that is tried depends on a further condition
  int trying_ = 0, calls_ = 0;
  std::optional<Letters>* output_ = nullptr;  // of the command in $( ): nothing once it is not known
  std::optional<Letters> input_;              // of the command behind a |
  bool piped_ = false;
  Command prefix_;  // words before the string of commands at hand
  std::optional<Error> error_;
  bool exhausted_ = false;
};

bool holds_program(const Command& command);

}  // namespace plumbline::model::megatron
