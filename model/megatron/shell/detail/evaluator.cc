#include "model/megatron/shell/detail/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/patterns.h"

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_call = 40;
constexpr std::size_t longest_value = 1'000'000;

// Whether "NAME=" stands somewhere in the text.
bool sets(std::string_view text, std::string_view assignment) {
  for (std::size_t at = text.find(assignment); at != std::string_view::npos; at = text.find(assignment, at + 1))
    if (at == 0 || !in_name(text[at - 1])) return true;
  return false;
}

// Whether the word of a list stands for file names, which only a machine has.
bool is_file_pattern(const Letters& word) {
  return std::ranges::any_of(
      word, [](const Letter& letter) { return !letter.quoted && (letter.symbol == '*' || letter.symbol == '?'); });
}

}  // namespace

Evaluator::Evaluator(const ShellInputs& inputs, Budget& budget, std::vector<std::size_t> forced)
    : inputs_(inputs), budget_(budget), forced_(std::move(forced)) {
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
  for (Word& word : state_.defaults)
    if (!word.text.ends_with('=') || !sets(text, word.text)) out_.defaults.push_back(std::move(word));
  out_.skipped = std::move(state_.skipped);
  for (const auto& [name, fields] : state_.variables)
    out_.variables[name] = fields.empty() ? "" : text_of(fields.front());
  return std::move(out_);
}

const Fields* Evaluator::find(std::string_view name) const {
  if (name == "@") return &state_.parameters;
  if (const auto index = integer(name); (index && *index > 0) || name == "#") return find_parameter(index.value_or(0));
  if (const auto found = state_.variables.find(name); found != state_.variables.end()) return &found->second;
  if (const auto found = state_.assumed.find(name); found != state_.assumed.end()) return &found->second;
  return nullptr;
}

// Returns a parameter, or their number for 0. Parameters that are not given are empty; where the script is read without
// any they are not known, though their number is 0.
const Fields* Evaluator::find_parameter(std::int64_t index) const {
  const auto count = static_cast<std::int64_t>(state_.parameters.size());
  if (index > count && state_.locals.empty() && !inputs_.definitions.contains("1")) return nullptr;
  found_ = index == 0      ? Fields{letters_of(std::to_string(count), 0)}
           : index > count ? Fields()
                           : Fields{state_.parameters[static_cast<std::size_t>(index - 1)]};
  return &found_;
}

void Evaluator::assign(const std::string& name, Fields value) {
  if (inputs_.definitions.contains(name)) return;  // what comes from outside holds
  std::size_t size = 0;
  for (Letters& field : value) {
    size += field.size() + 1;
    for (Letter& letter : field) letter.quoted = false;
  }
  const int line = value.empty() || value.front().empty() ? 0 : value.front().front().line;
  if (size > longest_value) return fail(line, fmt::format("'{}' grows over a million letters", name), "");
  state_.variables[name] = std::move(value);
  if (state_.exports_all) state_.exported.insert(name);
}

std::optional<Letters> Evaluator::output_of(const Letters& command) {
  const Syntax* syntax = parse(command);
  if (syntax == nullptr || !enter(command.empty() ? 0 : command.front().line)) return std::nullopt;
  std::optional<Letters> output = Letters();
  const State before = state_;
  auto* outer = std::exchange(output_, &output);
  const Syntax* outer_syntax = std::exchange(syntax_, syntax);
  run_list(syntax->commands);
  syntax_ = outer_syntax;
  output_ = outer;
  leave_shell(before);
  --calls_;
  return output;
}

void Evaluator::leave_shell(const State& before) {
  State after = std::exchange(state_, before);
  state_.commands = std::move(after.commands);
  state_.decided = std::move(after.decided);
  state_.defaults = std::move(after.defaults);
  state_.skipped = std::move(after.skipped);
  flow_ = Flow::none;
}

void Evaluator::miss(std::string_view name) { missing_.emplace(name); }

void Evaluator::take_default(std::string_view name, const std::string& value, int line) {
  const std::string text = fmt::format("{}={}", name, value);
  if (std::ranges::find(state_.defaults, text, &Word::text) == state_.defaults.end())
    state_.defaults.push_back({text, line});
}

bool Evaluator::charge(std::size_t letters) {
  budget_.letters -= static_cast<std::int64_t>(letters);
  if (budget_.letters >= 0) return true;
  exhausted_ = true;
  fail(0, "its variables grow without end", "");
  return false;
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

bool Evaluator::spend(int line) {
  if (--budget_.commands >= 0) return true;
  exhausted_ = true;
  fail(line, "the script runs over 500,000 commands", "loops without an end are not read");
  return false;
}

bool Evaluator::enter(int line) {
  if (calls_ >= deepest_call) {
    exhausted_ = true;
    fail(line, fmt::format("over {} calls are nested", deepest_call), "functions that call themselves are not read");
    return false;
  }
  ++calls_;
  return true;
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
    case NodeKind::count:
      return run_count(node);
    case NodeKind::group:
      return run_list(node.clauses[0].body);
    case NodeKind::subshell:
      return run_subshell(node);
    case NodeKind::function:
      state_.functions[text_of(node.words[0])] = &node;
      break;
  }
  status_ = Truth::yes;
}

// Runs the parts from one on; what follows && and || depends on the status.
void Evaluator::run_chain(const Node& node, std::size_t from) {
  missing_.clear();
  unknown_.clear();
  run_node(node.parts[from]);
  if (!stopped()) run_link(node, from, status_);
}

void Evaluator::run_link(const Node& node, std::size_t from, Truth status) {
  status_ = status;
  for (; from < node.on_success.size() && status_ != Truth::unknown; ++from)
    if (node.on_success[from] == (status_ == Truth::yes)) return run_chain(node, from + 1);
  if (from == node.on_success.size() || stopped()) return;
  const Node& last = node.parts[from];
  choose({last.line, last.text}, {{"it holds", [&, from] { run_link(node, from, Truth::yes); }},
                                  {"it does not", [&, from] { run_link(node, from, Truth::no); }}});
}

void Evaluator::run_pipeline(const Node& node) {
  if (node.parts.size() == 1) {
    run_node(node.parts[0]);
    status_ = !status_;
    return;
  }
  auto* outer = output_;
  auto outer_input = input_;
  const bool outer_piped = piped_;
  const State before = state_;
  for (std::size_t i = 0; i < node.parts.size() && !stopped(); ++i) {
    const bool last = i + 1 == node.parts.size();
    std::optional<Letters> output = Letters();
    output_ = last ? outer : &output;
    piped_ = i > 0;
    run_node(node.parts[i]);
    input_ = std::move(output);
  }
  output_ = outer;
  input_ = std::move(outer_input);
  piped_ = outer_piped;
  leave_shell(before);  // its parts run in shells of their own
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
    return choose(
        {clause.condition.front().line, clause.text},
        {{"it holds", [&] { run_list(clause.body); }}, {"it does not", [&, from] { run_branch(node, from + 1); }}});
  }
  status_ = Truth::yes;
}

void Evaluator::run_selection(const Node& node) {
  missing_.clear();
  const Letters subject = read_field(node.words[0], *this);
  unknown_ = text_of(subject);
  std::vector<Outcome> outcomes;
  bool any = false;
  for (const Clause& clause : node.clauses) {
    for (const Letters& raw : clause.patterns) {
      const Letters pattern = read_field(raw, *this);
      if (is_known(subject) && is_known(pattern)) {
        if (outcomes.empty() && matches(pattern, subject)) return run_list(clause.body);
        if (!matches(pattern, subject)) continue;
      }
      any = any || text_of(pattern) == "*";
      outcomes.push_back({text_of(pattern), [this, &clause, subject, pattern] {
                            if (!is_file_pattern(pattern)) bind(subject, pattern);
                            run_list(clause.body);
                          }});
    }
    if (any) break;
  }
  if (!any) outcomes.push_back({"anything else", [] {}});
  status_ = Truth::yes;
  if (outcomes.size() > 1) return choose({node.line, node.text}, outcomes);
  outcomes.front().run();
}

// Takes a value for a variable from outside, for as long as the outcome that implies it holds.
void Evaluator::bind(const Letters& subject, const Letters& value) {
  std::string name = text_of(subject);
  if (name.empty() || name[0] != '$' || !is_known(value)) return;
  name.erase(0, 1);
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  if (!name.empty() && std::ranges::all_of(name, in_name)) state_.assumed[name] = {value};
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
    if (truth == Truth::unknown)
      return choose({node.line, clause.text},
                    {{"the loop does not run", [] {}}, {"the loop runs once", [&] { run_body(clause); }}});
    if (truth == Truth::no || !run_body(clause)) break;
  }
  if (!error_ && !undecided_ && flow_ == Flow::none) status_ = Truth::yes;
}

void Evaluator::run_each(const Node& node) {
  const std::string name = text_of(node.words[0]);
  Fields words = node.all_parameters ? state_.parameters : Fields();
  missing_.clear();
  for (std::size_t i = 1; i < node.words.size(); ++i) {
    for (const Letters& word : with_braces(node.words[i])) {
      const ReadWord read = read_word(word, false, *this);
      words.insert(words.end(), read.fields.begin(), read.fields.end());
    }
  }
  const Clause& clause = node.clauses[0];
  const auto open =
      std::ranges::find_if(words, [](const Letters& word) { return !is_known(word) || is_file_pattern(word); });
  if (open != words.end()) {
    unknown_ = text_of(*open);
    const Letters value = letters_of("$" + name, node.line);
    return choose({node.line, node.text}, {{"the loop does not run", [] {}}, {"the loop runs once", [&, value] {
                                                                                Letters kept = value;
                                                                                for (Letter& letter : kept)
                                                                                  letter.kept = true;
                                                                                assign(name, {kept});
                                                                                run_body(clause);
                                                                              }}});
  }
  for (const Letters& word : words) {
    if (stopped()) return;
    assign(name, {word});
    if (!spend(node.line) || !run_body(clause)) break;
  }
}

void Evaluator::run_count(const Node& node) {
  read_number(node.words[0], *this);
  while (!stopped()) {
    missing_.clear();
    const auto goes_on = read_number(node.words[1], *this);
    if (!goes_on) {
      unknown_ = text_of(node.words[1]);
      return choose({node.line, node.text},
                    {{"the loop does not run", [] {}}, {"the loop runs once", [&] { run_body(node.clauses[0]); }}});
    }
    if (!spend(node.line)) return;
    if (*goes_on == 0 || !run_body(node.clauses[0])) return;
    read_number(node.words[2], *this);
  }
}

void Evaluator::run_subshell(const Node& node) {
  const State before = state_;
  run_list(node.clauses[0].body);
  leave_shell(before);
}

void Evaluator::run_test(const Node& node) {
  std::vector<Letters> words;
  for (const Letters& raw : node.words) words.push_back(read_field(raw, *this));
  status_ = evaluate_condition(words, true, *this, inputs_);
  if (status_ != Truth::unknown) return;
  for (const Letters& word : words) unknown_ += text_of(word) + " ";
}

void Evaluator::run_arithmetic(const Letters& formula) {
  const auto number = read_number(formula, *this);
  status_ = number ? truth_of(*number != 0) : Truth::unknown;
  if (!number) unknown_ += text_of(formula);
}

}  // namespace plumbline::model::megatron
