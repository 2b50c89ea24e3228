#include "model/megatron/shell/detail/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/words.h"

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_call = 40, most_rounds = 20;
constexpr std::size_t longest_value = 1'000'000;

// Whether "NAME=" stands somewhere in the text.
bool sets(std::string_view text, std::string_view assignment) {
  for (std::size_t at = text.find(assignment); at != std::string_view::npos; at = text.find(assignment, at + 1))
    if (at == 0 || !in_name(text[at - 1])) return true;
  return false;
}

// Whether the word stands for file names, which only a machine has.
bool is_file_pattern(const Letters& word) {
  return std::ranges::any_of(
      word, [](const Letter& letter) { return !letter.quoted && (letter.symbol == '*' || letter.symbol == '?'); });
}

}  // namespace

std::string place_of(const std::vector<std::string>& files, int line) {
  const auto file = static_cast<std::size_t>(line / lines_of_a_file);
  const std::string& name = files[std::min(file, files.size() - 1)];
  return line > 0 ? fmt::format("{}:{}", name, line % lines_of_a_file) : name;
}

Result<Script> read_script(std::string_view text, const ShellInputs& inputs) { return Evaluator(inputs).run(text); }

Evaluator::Evaluator(const ShellInputs& inputs) : inputs_(inputs) {
  for (const auto& [name, value] : inputs.definitions) state_.variables[name] = {letters_of(value, 0)};
  for (int i = 1; inputs.definitions.contains(std::to_string(i)); ++i)
    state_.parameters.push_back(letters_of(inputs.definitions.find(std::to_string(i))->second, 0));
  const std::string name = inputs.path.substr(inputs.path.rfind('/') + 1);
  const Letters self = letters_of(inputs.folder.empty() ? name : inputs.folder + "/" + name, 0);
  state_.variables["0"] = state_.variables["BASH_SOURCE"] = {self};
  out_.files = {inputs.path};
}

Result<Script> Evaluator::run(std::string_view text) {
  run_script(letters_of(text, 1), 1);
  if (error_) return tl::unexpected(*error_);
  if (!parsed_.empty())
    for (const Letters& comment : parsed_.front().comments)
      out_.comments.push_back({text_of(comment), comment.front().line});
  out_.commands = std::move(state_.commands);
  // An empty default of a variable that the script sets elsewhere is no choice.
  std::erase_if(out_.defaults, [text](const Word& word) { return word.text.ends_with('=') && sets(text, word.text); });
  for (const auto& [name, fields] : state_.variables)
    out_.variables[name] = fields.empty() ? "" : text_of(fields.front());
  return std::move(out_);
}

const Fields* Evaluator::find(std::string_view name) const {
  if (name == "@") return &state_.parameters;
  if (const auto index = integer(name); (index && *index > 0) || name == "#") return find_parameter(index.value_or(0));
  if (const auto found = state_.variables.find(name); found != state_.variables.end()) return &found->second;
  return nullptr;
}

// Returns a parameter, or their number for 0. Parameters that are not given are empty; where the script is read without
// any they are not known, though their number is 0.
const Fields* Evaluator::find_parameter(std::int64_t index) const {
  const auto count = static_cast<std::int64_t>(state_.parameters.size());
  if (index > count && state_.locals.empty() && !inputs_.definitions.contains("1")) return nullptr;
  // Behind one that is not known, which may be any number of them, none is.
  const auto open = std::ranges::find_if_not(state_.parameters, is_known);
  found_ = open != state_.parameters.end() && (index == 0 || index > open - state_.parameters.begin()) ? Fields{*open}
           : index == 0    ? Fields{letters_of(std::to_string(count), 0)}
           : index > count ? Fields()
                           : Fields{state_.parameters[static_cast<std::size_t>(index - 1)]};
  return &found_;
}

void Evaluator::assign(const std::string& name, Fields value) {
  if (inputs_.definitions.contains(name)) return;  // what comes from outside holds
  if (name == "IFS") return refuse(line_, "an IFS of the script's own");
  if (readonly_.contains(name)) return refuse(line_, fmt::format("a new value of '{}', which is readonly,", name));
  std::size_t size = 0;
  for (Letters& field : value) {
    size += field.size() + 1;
    for (Letter& letter : field) letter.quoted = false;
  }
  if (size > longest_value) return fail(line_, fmt::format("'{}' grows over a million letters", name), "");
  std::erase_if(state_.variables, [&name](const auto& one) { return one.first.starts_with(name + "["); });
  state_.variables[name] = std::move(value);
}

// Records why "$NAME" stands in a value.
void Evaluator::open(OpenValue value) {
  const auto same = [&](const OpenValue& one) { return one.name == value.name && one.line == value.line; };
  const auto known = std::ranges::find_if(out_.open, same);
  if (known == out_.open.end())
    out_.open.push_back(std::move(value));
  else
    known->outcomes.insert(known->outcomes.end(), value.outcomes.begin(), value.outcomes.end());
}

// Makes the variable one that is not known.
void Evaluator::forget(const std::string& name, int line, const std::string& reason) {
  if (inputs_.definitions.contains(name)) return;
  std::erase_if(state_.variables, [&name](const auto& one) { return one.first.starts_with(name + "["); });
  state_.variables[name] = {kept_letters("$" + name, line)};
  open({name, line, reason, {}});
}

std::optional<Letters> Evaluator::output_of(const Letters& command) {
  const Syntax* syntax = parse(command);
  if (syntax == nullptr || !enter(command.empty() ? 0 : command.front().line)) return std::nullopt;
  std::optional<Letters> output = Letters();
  auto* outer = std::exchange(output_, &output);
  const Syntax* outer_syntax = std::exchange(syntax_, syntax);
  run_apart([&] { run_list(syntax->commands); });
  syntax_ = outer_syntax;
  output_ = outer;
  --calls_;
  return output;
}

// Runs commands whose variables nobody sees afterwards.
void Evaluator::run_apart(const std::function<void()>& commands) {
  State before = state_;
  commands();
  before.commands = std::move(state_.commands);
  before.maybe_line = state_.maybe_line;
  state_ = std::move(before);
  flow_ = Flow::none;
}

void Evaluator::miss(std::string_view name) { missing_.emplace(name); }

void Evaluator::take_default(std::string_view name, const std::string& value, int line) {
  const std::string text = fmt::format("{}={}", name, value);
  if (std::ranges::find(out_.defaults, text, &Word::text) == out_.defaults.end()) out_.defaults.push_back({text, line});
}

void Evaluator::note(const std::string& text) {
  const auto same = [&](const Word& other) { return other.text == text && other.line == line_; };
  if (std::ranges::none_of(out_.notes, same)) out_.notes.push_back({text, line_});
}

bool Evaluator::charge(std::size_t letters) {
  letters_left_ -= static_cast<std::int64_t>(letters);
  if (letters_left_ < 0) fail(line_, "its variables grow without end", "");
  return letters_left_ >= 0;
}

void Evaluator::fail(int line, std::string message, std::string hint) {
  if (error_) return;
  const std::size_t file = static_cast<std::size_t>(line / lines_of_a_file);
  error_ = Error{ErrorKind::input,
                 std::move(message),
                 out_.files[std::min(file, out_.files.size() - 1)],
                 line % lines_of_a_file,
                 "",
                 std::move(hint)};
}

void Evaluator::refuse(int line, const std::string& what) {
  fail(line, fmt::format("{} is not read", what), "write it otherwise in a copy, or let --execute run the script");
}

bool Evaluator::spend(int line) {
  line_ = line;
  if (--commands_left_ < 0) fail(line, "the script runs over 500,000 commands", "loops without an end are not read");
  return commands_left_ >= 0;
}

bool Evaluator::enter(int line) {
  if (calls_ >= deepest_call)
    fail(line, fmt::format("over {} calls are nested", deepest_call), "functions that call themselves are not read");
  return calls_ < deepest_call && ++calls_ > 0;
}

const Syntax* Evaluator::parse(const Letters& text) {
  const int line = text.empty() ? 0 : text.front().line;
  const std::size_t file = std::min(static_cast<std::size_t>(line / lines_of_a_file), out_.files.size() - 1);
  auto syntax = parse_script(text, out_.files[file]);
  if (!syntax) {
    Error error = syntax.error();
    error.line %= lines_of_a_file;
    if (!error_) error_ = error;
    return nullptr;
  }
  parsed_.push_back(std::move(*syntax));
  return &parsed_.back();
}

void Evaluator::run_list(const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    if (stopped()) return;
    run_node(node);
  }
}

void Evaluator::run_node(const Node& node) {
  if (!spend(node.line)) return;
  auto* const output = std::exchange(output_, node.silent ? nullptr : output_);
  run_kind(node);
  output_ = output;
}

void Evaluator::run_kind(const Node& node) {
  switch (node.kind) {
    case NodeKind::command:
      return run_command(node);
    case NodeKind::condition:
      return run_test(node);
    case NodeKind::arithmetic:
      return run_arithmetic(node.words[0]);
    case NodeKind::chain:
      return run_chain(node, 0);
    case NodeKind::pipeline:
      return run_pipeline(node);
    case NodeKind::branch:
      return run_branch(node, 0);
    case NodeKind::selection:
      return run_selection(node);
    case NodeKind::loop:
      return run_loop(node);
    case NodeKind::each:
      return run_each(node);
    case NodeKind::group:
      return run_list(node.clauses[0].body);
    case NodeKind::subshell:
      return run_apart([&] { run_list(node.clauses[0].body); });
    case NodeKind::function:
      state_.functions[text_of(node.words[0])] = &node;
      break;
  }
  status_ = Truth::yes;
}

// Runs the parts from one on; what follows && and || depends on the status.
void Evaluator::run_chain(const Node& node, std::size_t from) {
  missing_.clear();
  run_node(node.parts[from]);
  if (!stopped()) run_link(node, from, status_);
}

void Evaluator::run_link(const Node& node, std::size_t from, Truth status) {
  status_ = status;
  for (; from < node.on_success.size() && status_ != Truth::unknown; ++from)
    if (node.on_success[from] == (status_ == Truth::yes)) return run_chain(node, from + 1);
  if (from == node.on_success.size() || stopped()) return;
  const Node& last = node.parts[from];
  choose({last.line, last.text},
         {[&, from] { run_link(node, from, Truth::yes); }, [&, from] { run_link(node, from, Truth::no); }});
}

// The parts of a pipeline run in shells of their own; what the last one prints is not known.
void Evaluator::run_pipeline(const Node& node) {
  if (node.parts.size() == 1) {
    run_node(node.parts[0]);
  } else {
    auto* outer = std::exchange(output_, nullptr);
    for (const Node& part : node.parts)
      if (!stopped()) run_apart([&] { run_node(part); });
    output_ = outer;
    if (output_ != nullptr) *output_ = std::nullopt;
  }
  if (node.inverted) status_ = !status_;
}

void Evaluator::run_branch(const Node& node, std::size_t from) {
  for (; from < node.clauses.size() && !stopped(); ++from) {
    const Clause& clause = node.clauses[from];
    if (clause.condition.empty()) return run_list(clause.body);
    const Truth truth = condition(clause.condition);
    if (stopped()) return;
    if (truth == Truth::yes) return run_list(clause.body);
    if (truth == Truth::no) continue;
    return choose({clause.condition.front().line, clause.text},
                  {[&] { run_list(clause.body); }, [&, from] { run_branch(node, from + 1); }});
  }
  status_ = Truth::yes;
}

void Evaluator::run_selection(const Node& node) {
  missing_.clear();
  const Letters subject = read_field(node.words[0], *this);
  std::vector<Outcome> outcomes;
  bool any = false;
  for (const Clause& clause : node.clauses) {
    bool possible = false;
    for (const Letters& raw : clause.patterns) {
      const Letters pattern = read_field(raw, *this);
      const bool known = is_known(subject) && is_known(pattern);
      if (known && !matches(pattern, subject)) continue;
      if (known && outcomes.empty() && !possible) return run_list(clause.body);
      possible = true;
      any = any || known || text_of(pattern) == "*";
    }
    if (possible) outcomes.push_back([&] { run_list(clause.body); });
    if (any) break;
  }
  status_ = Truth::yes;
  if (outcomes.empty()) return;
  if (!any) outcomes.push_back([] {});
  choose({node.line, node.text}, outcomes);
}

bool Evaluator::run_body(const Clause& clause) {
  run_list(clause.body);
  if (flow_ != Flow::next && flow_ != Flow::leave) return !stopped();
  const bool outer = --levels_ > 0;
  const bool goes_on = flow_ == Flow::next && !outer;
  if (!outer) flow_ = Flow::none;
  return goes_on;
}

void Evaluator::run_loop(const Node& node) {
  const Clause& clause = node.clauses[0];
  while (!stopped() && spend(node.line)) {
    Truth truth = condition(clause.condition);
    if (node.inverted) truth = !truth;
    if (stopped()) return;
    if (truth == Truth::unknown) {
      return run_any_times({node.line, clause.text}, [&] {
        if (run_body(clause)) condition(clause.condition);
      });
    }
    if (truth == Truth::no || !run_body(clause)) break;
  }
  if (!stopped()) status_ = Truth::yes;
}

// Runs a body until a further time changes nothing: what it changes is not known by then.
void Evaluator::run_any_times(const Question& question, const Outcome& once) {
  for (int round = 0; round < most_rounds; ++round) {
    const auto before = state_.variables;
    choose(question, {[] {}, once});
    const auto same = [](const auto& one, const auto& two) {
      return one.first == two.first && same_fields(one.second, two.second);
    };
    if (stopped() || std::ranges::equal(before, state_.variables, same)) return;
  }
  refuse(question.line, fmt::format("the loop of '{}'", question.condition));
}

void Evaluator::run_each(const Node& node) {
  const std::string name = text_of(node.words[0]);
  Fields words = node.all_parameters ? state_.parameters : Fields();
  missing_.clear();
  for (std::size_t i = 1; i < node.words.size(); ++i) {
    const ReadWord read = read_word(node.words[i], false, *this);
    words.insert(words.end(), read.fields.begin(), read.fields.end());
  }
  const Clause& clause = node.clauses[0];
  if (std::ranges::any_of(words, [](const Letters& word) { return !is_known(word) || is_file_pattern(word); })) {
    forget(name, node.line, fmt::format("'{}' has words that are not known", node.text));
    return run_any_times({node.line, node.text}, [&] { run_body(clause); });
  }
  for (const Letters& word : words) {
    if (stopped()) return;
    assign(name, {word});
    if (!spend(node.line) || !run_body(clause)) break;
  }
}

void Evaluator::run_test(const Node& node) {
  std::vector<Letters> words;
  for (const Letters& raw : node.words) words.push_back(read_field(raw, *this));
  status_ = evaluate_condition(words, true, *this, inputs_);
}

void Evaluator::run_arithmetic(const Letters& formula) {
  const auto number = read_number(formula, *this);
  status_ = number ? truth_of(*number != 0) : Truth::unknown;
}

}  // namespace plumbline::model::megatron
