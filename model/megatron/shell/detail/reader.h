// Goes through a script on paper: its text is read command by command, variables change and commands are recorded, and
// nothing is executed. What is not reached is read all the same, to find where it ends.
//
// Holds the text of a script letter by letter, so that every word keeps the line on which it was written even when it
// passes through variables, and cuts it into words, operators and redirections.
#pragma once

#include <algorithm>
#include <cstddef>
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
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {

struct Letter {
  char symbol = 0;
  int line = 0;
  bool kept = false;    // from an expansion that only a running shell can evaluate: never split
  bool quoted = false;  // stands for itself in a pattern
  int condition = 0;    // on which it depends whether it is there, by its place from 1; 0: on none

  bool is_known() const { return !kept && condition == 0; }
};
using Letters = std::vector<Letter>;
using Fields = std::vector<Letters>;

// Returns the letters with their lines, counted from `first_line`; 0: not in the script.
Letters letters_of(std::string_view text, int first_line = 0);
std::string text_of(const Letters& letters);

// Returns "$NAME" as the value of a variable that is not known.
Letters open_value(const std::string& name, int line, int condition);
Letters slice(const Letters& text, std::size_t first, std::size_t end);

// Returns the fields from `first` on as one text, with a blank between them.
Letters joined(const Fields& fields, std::size_t first = 0);

// Whether arithmetic sets a variable: X=8, X+=1, X++.
bool sets_variable(std::string_view formula);
// Whether an expansion in a word that is not expanded sets one: ${X:=8}, $((X = 8)).
bool sets_variable_within(std::string_view word);
// Returns what is in $(( )) and $[ ] of a word.
std::vector<std::string_view> formulas_within(std::string_view word);

// Whether the text is what a shell would have.
bool is_known(const Letters& letters);
bool are_known(const Fields& fields);
// Returns the first condition on which a letter depends; 0: there is none.
int condition_of(const Letters& letters);

template <class List>
bool is_one_of(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::end(list);
}

bool is_blank(char symbol);  // space, tab, carriage return
bool in_name(char symbol);
bool begins_name(char symbol);
bool ends_command(char symbol);

// Whether the whole text matches the pattern: * ? [...] match, quoted letters stand for themselves.
bool matches(const Letters& pattern, const Letters& text);

// Returns the value without the shortest or longest (`op` doubled) part that matches: # from its beginning, % from
// its end.
Letters trimmed(const Letters& value, std::string_view op, const Letters& pattern);

// Finds where words and brackets of a script end, without expanding anything.
class Scan {
 public:
  explicit Scan(const Letters& text) : text_(text) {}

  // Each returns the position after what begins at `at`: a word with its quotes and expansions, one letter or what a
  // quote or dollar sign begins, or ( ... ) and { ... } with what is nested in them.
  std::size_t word(std::size_t at);
  std::size_t piece(std::size_t at);
  std::size_t brackets(std::size_t at, char open, char close);

  // Returns the position of the first quote or bracket that is not closed.
  std::optional<std::size_t> unclosed() const { return unclosed_; }

 private:
  char symbol(std::size_t at) const { return at < text_.size() ? text_[at].symbol : '\0'; }
  std::size_t quotes(std::size_t at);
  std::size_t not_closed(std::size_t at);

  const Letters& text_;
  std::optional<std::size_t> unclosed_;
  int depth_ = 0;
};

enum class TokenKind { end, word, control, redirection, arithmetic, unclosed };

struct Token {
  TokenKind kind = TokenKind::end;
  Letters text;     // of a word without line ends behind a backslash; of (( )) what is in it; what is not closed
  std::string raw;  // the same; none of what is not closed
  std::size_t first = 0, end = 0;
  bool silent = false;    // sends what a command prints to a file
  bool document = false;  // is a here-document
  std::string body;       // of one that is expanded
};

// A text of commands: a script, a file that it sources, or a string.
struct Source {
  explicit Source(Letters letters);

  Letters text;
  std::vector<Token> tokens;
  std::map<std::size_t, std::size_t> skipped;  // the ends of commands that were read without being run, by their begin
};

enum class Truth { no, yes, unknown };
constexpr Truth truth_of(bool holds) { return holds ? Truth::yes : Truth::no; }
constexpr Truth operator!(Truth truth) {
  return truth == Truth::unknown ? truth : truth == Truth::yes ? Truth::no : Truth::yes;
}

enum class Flow { none, next, leave, give_back, end };  // continue, break, return, exit

using Variables = std::map<std::string, Fields, std::less<>>;  // one field: a scalar; none: it is unset

// What a shell of its own does not change.
struct State {
  Variables variables;
  std::set<std::string, std::less<>> constants;  // readonly
  Fields parameters;                             // $1 ...
  std::map<std::string, std::pair<Source*, std::size_t>, std::less<>> functions;
  std::vector<std::set<std::string>> locals;  // of each function
  std::optional<std::string> folder{""};      // after cd; empty: where the script is started; nothing: not known
  Word unread;                                // as in Script; without text: none
  bool nounset = false;                       // set -u: a variable that is not set ends the script
};

class Reader {
 public:
  explicit Reader(const ShellInputs& inputs);

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
  // Returns what a command prints; nothing where only a running shell has it.
  std::optional<Letters> output_of(const Letters& command);
  // Records a name whose value is not known, and one for which the script has a default.
  void miss(const std::string& name) { missing_.insert(name); }
  // Whether what is not read may have set a variable that the script does not set.
  bool may_be_set(const std::string& name) const {
    return !state_.unread.text.empty() && begins_name(name[0]) && !state_.variables.contains(name);
  }
  // Whether only the script itself would set a variable that it does not set: one that is expanded as a list, which no
  // environment holds, or one without a capital letter.
  bool is_own(const std::string& name, bool list) const;
  // Returns what IFS is in $( ); nothing where the script does not set it.
  std::optional<Letters> separators() const {
    const auto found = state_.variables.find("IFS");
    return found == state_.variables.end() ? std::nullopt : std::optional(joined(found->second));
  }
  int missed_condition() const { return missed_condition_; }  // on which the last formula depends
  void take_default(const std::string& name, const Letters& value, int line);
  bool charge(std::size_t letters);                                   // whether so many letters more may be made
  void refuse(int line, const std::string& what, int condition = 0);  // names a construct that is not read, and why
  // Whether an expansion in a word that is not expanded sets a variable, by itself or by a value in its arithmetic.
  bool sets_within(std::string_view word) const;
  // Returns what lies at a path, which a relative one does not state behind cd to a folder that is not known.
  FoundFile find(const std::string& path) const;

 private:
  // Reading (reader.cc)
  bool live() const { return skipping_ == 0 && flow_ == Flow::none && !broken_; }
  const Token& token() const;
  int line() const;
  std::string written(std::size_t first) const;
  void fail(int line, std::string message, std::string hint, bool ignored);
  void damaged(int line, std::string message, std::string hint = "");
  void skip_lines();
  bool take(std::string_view word);
  void expect(std::string_view word, std::string_view of, int from);
  bool redirections();
  bool sets_by_value(std::string_view formula, std::set<std::string>& seen) const;
  template <class Part>
  void skip_if(bool skips, const Part& part);
  int condition(int line, std::string text);
  void take_to_hold(int condition, bool holds);
  template <class Part>
  bool run_open(int condition, bool holds, const Part& part);
  void list(std::string_view of = {});  // what must have commands; empty: there may be none
  void chain();
  void pipeline();
  void command();
  void compound();
  void branch(int from);
  void selection(int from);
  void loop(int from);
  void each(int from);
  void counted(int from);
  void step(const Letters& formula, int from);
  void idle_body(std::string_view of, int from, std::size_t first);  // with its condition from `first` on
  bool are_idle(std::size_t first, std::size_t end) const;
  bool body(bool runs, std::string_view of, int from);
  void test_words(int from);
  void function();
  void simple(int from);

  // Running (commands.cc)
  void keep_variables();
  void run_text(Source& source);
  void apart(const std::function<void()>& commands);  // in a shell of its own
  void run_simple(const std::vector<Letters>& words, int line);
  void run_words(const Fields& fields, int line);
  bool run_builtin(const std::string& name, const Fields& fields, int line);
  bool run_output(const std::string& name, const Fields& fields);
  void run_function(const std::pair<Source*, std::size_t>& function, const Fields& fields);
  void run_source(const Fields& fields, int line);
  void pass_over(const std::string& what, int line);
  void record(const Fields& fields, int line);
  void train();
  void assign_word(const Letters& word);
  void forget(const std::string& name);
  Fields list_of(const Letters& list);
  void declare(const std::vector<Letters>& words, int line);
  void print_to(const Fields& fields, int line);
  void restore(const std::string& name, const Variables& before);
  Truth test(const std::vector<Letters>& words, bool patterns);  // conditions.cc

  const ShellInputs& inputs_;
  std::int64_t commands_left_ = 100'000, letters_left_ = 5'000'000;  // so that no script is read without end
  Script out_;
  std::deque<Source> sources_;
  Source* source_ = nullptr;  // that is read, and where
  std::size_t at_ = 0;
  int skipping_ = 0;                // above 0: nothing is run
  int open_ = 0;                    // the condition on which it depends whether what is at hand runs; then of that:
  bool open_holds_ = false;         // if it holds, or does not
  std::size_t open_functions_ = 0;  // functions and loops around it
  int open_loops_ = 0, loops_ = 0;  // loops_: around what is run now
  std::vector<int> parts_;          // that may not run, around what is at hand, by their numbers
  int last_part_ = 0, training_part_ = 0, training_condition_ = 0;
  bool certain_ = false;   // a training is started in any case
  bool behind_ = false;    // its line has ended, so that bash has started it
  bool silent_ = false;    // the command at hand prints to a file
  bool document_ = false;  // it reads a here-document
  int depth_ = 0, levels_ = 0;
  State state_;
  Flow flow_ = Flow::none;
  Truth status_ = Truth::yes;
  std::set<std::string> missing_;  // names that the condition at hand lacks
  std::set<std::string> empty_;    // variables for which there is an empty default
  int missed_condition_ = 0;
  std::optional<Letters>* output_ = nullptr;  // of the command in $( ): nothing once it is not known
  Command prefix_;                            // words before the string of commands at hand
  bool broken_ = false;
  std::optional<Error> error_;
};

}  // namespace plumbline::model::megatron
