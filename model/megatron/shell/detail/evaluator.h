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
#include <vector>

#include "model/base/error.h"
#include "model/megatron/shell/detail/conditions.h"
#include "model/megatron/shell/detail/syntax.h"
#include "model/megatron/shell/detail/words.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {

// What a script changes, and an outcome of a condition that is not decided takes back.
struct State {
  std::map<std::string, Fields, std::less<>> variables;
  Fields parameters;  // $1 ...
  std::map<std::string, const Node*, std::less<>> functions;
  std::vector<std::map<std::string, std::optional<Fields>>> locals;  // of each function: what its variables hid
  std::vector<Command> commands;
  std::string folder;  // after cd; empty: where the script is started
  int maybe_line = 0;  // of a condition that may have started a training
};

enum class Flow { none, next, leave, give_back, end };  // continue, break, return, exit

class Evaluator final : private Scope {
 public:
  explicit Evaluator(const ShellInputs& inputs);

  Result<Script> run(std::string_view text);

 private:
  using Outcome = std::function<void()>;
  struct Reached {  // after an outcome
    State state;
    Flow flow = Flow::none;
    Truth status = Truth::yes;
    bool trains = false;  // it starts a training
  };
  struct Question {
    int line = 0;
    std::string condition;
  };

  // Scope
  const Fields* find(std::string_view name) const override;
  void assign(const std::string& name, Fields value) override;
  bool is_map(const std::string& name) const override { return maps_.contains(name); }
  std::optional<Letters> output_of(const Letters& command) override;
  void miss(std::string_view name) override;
  void take_default(std::string_view name, const std::string& value, int line) override;
  bool charge(std::size_t letters) override;
  void note(const std::string& text) override;

  const Fields* find_parameter(std::int64_t index) const;
  bool stopped() const { return flow_ != Flow::none || error_.has_value(); }
  void fail(int line, std::string message, std::string hint);
  void refuse(int line, const std::string& what);  // names a construct that is not read
  void open(OpenValue value);
  void forget(const std::string& name, int line, const std::string& reason);
  bool spend(int line);  // a command of the budget
  bool enter(int line);  // counts nested calls
  const Syntax* parse(const Letters& text);

  // Control flow (evaluator.cc)
  void run_list(const std::vector<Node>& nodes);
  void run_node(const Node& node);
  void run_kind(const Node& node);
  void run_chain(const Node& node, std::size_t from);
  void run_link(const Node& node, std::size_t from, Truth status);
  void run_pipeline(const Node& node);
  void run_branch(const Node& node, std::size_t from);
  void run_selection(const Node& node);
  void run_loop(const Node& node);
  void run_each(const Node& node);
  bool run_body(const Clause& clause);                                // whether the loop goes on
  void run_any_times(const Question& question, const Outcome& once);  // as often as only a machine decides
  void run_apart(const std::function<void()>& commands);              // in a shell of its own
  void run_test(const Node& node);
  void run_arithmetic(const Letters& formula);

  // Conditions that are not decided (choice.cc)
  Truth condition(const std::vector<Node>& nodes);
  void choose(const Question& question, const std::vector<Outcome>& outcomes);
  void join(const Question& question, std::vector<Reached> reached);
  Fields join_values(const std::string& name, const Question& question, const std::vector<const Fields*>& values);
  bool trains(const Command& command) const;
  std::string deciding(const Question& question) const;

  // Variables and control (commands.cc)
  void run_command(const Node& node);
  void run_words(const Fields& fields, const Node& node);
  bool run_variables(const std::string& name, const Fields& fields, const Node& node);
  bool run_control(const std::string& name, const Fields& fields, const Node& node);
  void declare(const Node& node, std::size_t first, const std::string& kind);
  void assign_word(const ReadWord& word);
  void assign_element(const std::string& name, const Letters& value);
  void hide(const std::string& name);

  // Functions, other scripts, programs and output (programs.cc)
  void run_function(const Node& function, const Fields& fields, int line);
  void run_script(const Letters& text, int line);
  std::optional<Letters> letters_of_file(const std::string& path, const FoundFile& found, int line);
  void run_source(const Fields& fields, int line);
  void run_within(Command words, const Letters& text, int line);
  void record(const Fields& fields, const Node& node);
  bool run_output(const std::string& name, const Fields& fields, const Node& node);
  std::optional<Letters> document_of(const Node& node);

  const ShellInputs& inputs_;
  std::int64_t commands_left_ = 500'000, letters_left_ = 50'000'000;  // so that no script is read without end
  State state_;
  Script out_;
  std::deque<Syntax> parsed_;
  const Syntax* syntax_ = nullptr;  // whose here-documents are read
  mutable Fields found_;            // the parameter that was looked up last
  Flow flow_ = Flow::none;
  int levels_ = 0;
  Truth status_ = Truth::yes;
  std::set<std::string> missing_;  // names that the condition at hand lacks
  std::set<std::string> readonly_, maps_;
  int line_ = 0;  // of the command at hand
  int calls_ = 0;
  std::optional<Letters>* output_ = nullptr;  // of the command in $( ): nothing once it is not known
  Command prefix_;                            // words before the string of commands at hand
  std::optional<Error> error_;
};

}  // namespace plumbline::model::megatron
