#include "model/megatron/shell/detail/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_command = 100;
constexpr std::size_t most_decisions = 7;  // of a way: there are twice as many ways with each
constexpr const char* or_execute = "write it otherwise in a copy, or let --execute run the script";
constexpr std::array<std::string_view, 12> closers = {"then", "elif", "else", "fi", "do", "done",
                                                      "esac", "}",    ")",    ";;", ";&", ";;&"};

}  // namespace

std::string place_of(const std::vector<std::string>& files, int line) {
  const auto file = static_cast<std::size_t>(line / lines_of_a_file);
  const std::string& name = files[std::min(file, files.size() - 1)];
  return line > 0 ? fmt::format("{}:{}", name, line % lines_of_a_file) : name;
}

Result<std::vector<Script>> read_script(std::string_view text, const ShellInputs& inputs) {
  if (std::ranges::count(text, '\n') >= lines_of_a_file)
    return wrong_input_at(inputs.path, 0, "", "has over a million lines");
  Source source(letters_of(text, 1));
  std::vector<Script> ways, idle;
  std::vector<Decision> decisions;
  std::vector<std::string> files = {inputs.path};
  do {
    Script script = TRY(Reader(inputs, decisions, files).run(source));
    decisions = script.decisions;
    (script.trains ? ways : idle).push_back(std::move(script));
    while (!decisions.empty() && decisions.back().holds) decisions.pop_back();
    if (!decisions.empty()) decisions.back().holds = true;
  } while (!decisions.empty());
  if (ways.empty()) ways.push_back(std::exchange(idle, {}).front());
  for (const Script& script : idle) {
    const std::vector<Decision>& own = script.decisions;
    auto first = own.begin();  // that differs from those of every way with a training
    for (const Script& way : ways)
      first = std::max(first, std::ranges::mismatch(own, way.decisions, {}, &Decision::holds, &Decision::holds).in1);
    ways[0].notes.push_back(
        {fmt::format("'{}' is not decided: it is taken {}to hold, since no training is started otherwise",
                     first->condition, first->holds ? "not " : ""),
         first->line});
  }
  for (Script& way : ways) way.files = files;
  return ways;
}

Reader::Reader(const ShellInputs& inputs, std::vector<Decision> decisions, std::vector<std::string>& files)
    : inputs_(inputs), files_(files) {
  for (const auto& [name, value] : inputs.definitions) state_.variables[name] = {letters_of(value)};
  for (int i = 1; inputs.definitions.contains(std::to_string(i)); ++i)
    state_.parameters.push_back(letters_of(inputs.definitions.find(std::to_string(i))->second));
  const std::string name = inputs.path.substr(inputs.path.rfind('/') + 1);
  state_.variables["0"] =
      state_.variables["BASH_SOURCE"] = {letters_of(inputs.folder.empty() ? name : inputs.folder + "/" + name)};
  out_.decisions = std::move(decisions);
}

Result<Script> Reader::run(Source& script) {
  run_text(script);
  if (error_) return tl::unexpected(*error_);
  if (!out_.trains) keep_variables();
  return std::move(out_);
}

void Reader::keep_variables() {
  for (const auto& [name, value] : state_.variables) out_.variables[name] = value.empty() ? "" : text_of(value.front());
}

const Token& Reader::token() const {
  static const Token end;
  return at_ < source_->tokens.size() ? source_->tokens[at_] : end;
}

int Reader::line() const {
  if (source_->tokens.empty()) return 0;
  const Letters& text = source_->tokens[std::min(at_, source_->tokens.size() - 1)].text;
  return text.empty() ? 0 : text.front().line;
}

std::string Reader::written(std::size_t first) const {
  std::size_t end = at_;
  while (end > first && (source_->tokens[end - 1].raw == ";" || source_->tokens[end - 1].raw == "\n")) --end;
  return end == first ? "" : text_of(slice(source_->text, source_->tokens[first].first, source_->tokens[end - 1].end));
}

// Ends the reading; what is wrong behind the first training is nobody's error.
void Reader::fail(int line, std::string message, std::string hint) {
  if (!broken_ && !out_.trains) {
    const auto file = static_cast<std::size_t>(line / lines_of_a_file);
    error_ = Error{
        ErrorKind::input, std::move(message), files_[std::min(file, files_.size() - 1)], line % lines_of_a_file, "",
        std::move(hint)};
  }
  broken_ = true;
  if (source_ != nullptr) at_ = source_->tokens.size();
}

// Ends the reading of a script that bash reads no further: it runs what stands before the line, no part of it.
void Reader::damaged(int line, std::string message, std::string hint) {
  const bool trains = std::exchange(out_.trains, behind_);
  fail(line, std::move(message), std::move(hint));
  out_.trains = trains;
}

void Reader::refuse(int line, const std::string& what) { fail(line, fmt::format("{} is not read", what), or_execute); }

// Decides a condition that is not known; behind the first training it does not hold. It stays open where there are many
// others, and in what is undecided itself.
Truth Reader::settled(Truth truth, int line, const std::string& condition) {
  if (repeated_ && live()) return truth;
  if (truth != Truth::unknown || !live() || out_.trains) return truth == Truth::yes ? truth : Truth::no;
  if (decided_ == most_decisions) return truth;
  if (decided_ == out_.decisions.size()) out_.decisions.push_back({condition, missing_, line, false});
  return truth_of(out_.decisions[decided_++].holds);
}

void Reader::skip_lines() {
  while (token().raw == "\n") ++at_;
}

bool Reader::take(std::string_view word) {
  if (broken_ || token().raw != word) return false;
  ++at_;
  return true;
}

void Reader::expect(std::string_view word, std::string_view of, int from) {
  skip_lines();
  if (!broken_ && !take(word))
    damaged(line(), fmt::format("'{}' of line {} has no '{}'", of, from % lines_of_a_file, word));
}

// Skips redirections.
bool Reader::redirections() {
  for (; token().kind == TokenKind::redirection; ++at_) {
    silent_ = silent_ || token().silent;
    document_ = document_ || token().document;
  }
  return true;
}

template <class Part>
void Reader::skip_if(bool skips, const Part& part) {
  skipping_ += skips ? 1 : 0;
  part();
  skipping_ -= skips ? 1 : 0;
}

// Runs a part of which it is not known whether or how often it runs: what it sets is not known, and of conditions that
// are not decided both outcomes are run.
template <class Part>
void Reader::run_open(const Part& part) {
  if (repeated_) return part();
  repeated_ = true;
  left_ = skips_ = false;
  open_functions_ = state_.locals.size();
  open_loops_ = loops_;
  part();
  repeated_ = false;
}

// Does that where what follows is run in any case.
template <class Part>
void Reader::run_undecided(const Part& part) {
  const int at = line();
  const bool outer = repeated_;
  run_open(part);
  open_end_ = !outer && skips_ && !broken_;
  if (open_end_) refuse(at, "a 'return', 'break' or 'continue' that is not decided");
  if (output_ != nullptr) output_->reset();
  status_ = Truth::unknown;
}

// Whether what is ahead changes nothing, so that it does not matter if it is run: it is tried, and undone.
template <class Part>
bool Reader::is_inert(const Part& part) {
  if (repeated_ || output_ != nullptr) return false;
  const State before = state_;
  const std::size_t first = at_;
  Script out = out_;
  auto others = std::tuple(status_, missing_, readonly_);
  run_open(part);
  const bool inert = !broken_ && !left_ && !skips_ && state_ == before && out_.notes.size() == out.notes.size();
  state_ = before;
  at_ = first;
  out_ = std::move(out);
  std::tie(status_, missing_, readonly_) = std::move(others);
  broken_ = false;
  error_.reset();
  return inert;
}

void Reader::list(std::string_view of) {
  bool any = false;
  for (skip_lines(); !broken_ && token().kind != TokenKind::end && !is_one_of(closers, token().raw); skip_lines()) {
    chain();
    any = true;
    const bool ends = token().kind == TokenKind::end || token().raw == "\n";
    behind_ = behind_ || (ends && depth_ == 0 && out_.trains);
    if (!broken_ && !take(";") && !take("&") && !ends && !is_one_of(closers, token().raw))
      damaged(line(), fmt::format("'{}' is no part of the command before it", token().raw));
  }
  if (!any && !broken_ && !of.empty()) damaged(line(), fmt::format("'{}' has no commands", of));
}

void Reader::chain() {
  std::size_t first = at_;
  if (live()) missing_.clear();
  pipeline();
  while (!broken_) {
    const std::string condition = live() && status_ == Truth::unknown ? written(first) : "";
    const bool success = take("&&");
    if (!success && !take("||")) return;
    skip_lines();
    const auto rest = [&] {
      do {
        skip_lines();
        pipeline();
      } while (take("&&") || take("||"));
    };
    bool open = false;
    if (live() && status_ == Truth::unknown && !is_inert(rest)) {
      status_ = settled(status_, source_->tokens[first].text[0].line, condition);
      open = status_ == Truth::unknown;
    }
    const bool runs = open || status_ == truth_of(success);
    if (runs && live()) {
      missing_.clear();
      first = at_;
    }
    skip_if(!runs, [&] { open ? run_undecided([&] { pipeline(); }) : pipeline(); });
  }
}

void Reader::pipeline() {
  bool inverted = false;
  while (take("!")) inverted = !inverted;
  take("time");
  const auto more = [this] {
    const bool another = take("|") || take("|&");
    skip_lines();
    return another;
  };
  const auto bar = [this] { return token().raw.starts_with('|') && token().raw != "||"; };
  bool parts = false;
  if (live()) {
    const std::size_t first = at_;
    skip_if(true, [&] { command(), parts = bar(); });
    if (!broken_) at_ = first;
  }
  if (parts) {
    // The parts of a pipeline run in shells of their own; what the last one prints is not known.
    auto* outer = std::exchange(output_, nullptr);
    do {
      apart([&] { command(); });
    } while (bar() && more());
    output_ = outer;
    if (output_ != nullptr) *output_ = std::nullopt;
  } else {
    do {
      command();
    } while (bar() && more());
  }
  if (inverted && live()) status_ = !status_;
}

void Reader::command() {
  const std::size_t first = at_;
  const bool skipped = !live();
  if (const auto known = source_->skipped.find(first); skipped && known != source_->skipped.end()) {
    at_ = known->second;
    return;
  }
  if (++depth_ > deepest_command)
    fail(line(), "commands are nested too deep", "functions that call themselves are not read");
  if (live() && --commands_left_ < 0)
    fail(line(), "the script runs over 100,000 commands", "loops without an end are not read");
  const bool outer_document = std::exchange(document_, false), outer_silent = std::exchange(silent_, false);
  if (!broken_) compound();
  if (skipped && !broken_) source_->skipped[first] = at_;
  silent_ = outer_silent;
  document_ = outer_document;
  --depth_;
}

void Reader::compound() {
  const int from = line();
  const std::string& word = token().raw;
  if (is_one_of(closers, word) || word == "]]") return damaged(from, fmt::format("'{}' closes nothing", word));
  if (word == "select" || word == "coproc") return refuse(from, fmt::format("'{}'", word));
  if (token().kind == TokenKind::arithmetic) {
    const auto value = live() ? number(token().text) : std::nullopt;
    status_ = value ? truth_of(*value != 0) : Truth::unknown;
    ++at_;
  } else if (take("(")) {
    if (live())
      apart([&] { list("("); });
    else
      list("(");
    expect(")", "(", from);
  } else if (take("{")) {
    list("{");
    expect("}", "{", from);
  } else if (take("if")) {
    branch(from);
  } else if (take("case")) {
    selection(from);
  } else if (word == "while" || word == "until") {
    loop(from);
  } else if (take("for")) {
    each(from);
  } else if (take("[[")) {
    condition(from);
  } else {
    return take("function") ? function() : simple(from);
  }
  redirections();
  if (silent_ && live() && output_ != nullptr) *output_ = std::nullopt;
}

void Reader::branch(int from) {
  missing_.clear();
  skip_lines();
  const std::size_t first = at_;
  list("if");
  Truth truth = status_;
  if (live() && truth == Truth::unknown)
    truth = is_inert([&] { clauses(truth, from, false); }) ? Truth::yes : settled(truth, from, written(first));
  if (live() && truth == Truth::unknown) return run_undecided([&] { clauses(truth, from, false); });
  if (live()) status_ = truth;
  clauses(truth, from, false);
}

// Reads what follows the condition of an if. `taken`: a clause before it was run.
void Reader::clauses(Truth truth, int from, bool taken) {
  while (true) {
    expect("then", "if", from);
    skip_if(taken || (repeated_ ? truth == Truth::no : truth != Truth::yes), [&] { list("then"); });
    taken = taken || truth == Truth::yes;
    skip_lines();
    const int at = line();
    if (!take("elif")) break;
    const std::size_t first = at_;
    skip_if(taken, [&] {
      list("elif");
      truth = settled(status_, at, written(first));
      if (live()) status_ = truth;
    });
    if (!taken && live() && truth == Truth::unknown && !repeated_)
      return run_undecided([&] { clauses(truth, from, false); });
  }
  if (take("else"))
    skip_if(taken, [&] { list("else"); });
  else if (!taken && live())
    status_ = Truth::yes;
  expect("fi", "if", from);
}

void Reader::selection(int from) {
  missing_.clear();
  const std::string question = "case " + token().raw;
  const Letters subject = live() ? expand_one(token().text) : Letters();
  bool taken = !live(), open = false;  // open: a clause may have been run
  if (live()) status_ = Truth::yes;
  ++at_;
  expect("in", "case", from);
  for (skip_lines(); !broken_ && !take("esac"); skip_lines()) {
    take("(");
    bool runs = false;
    Truth truth = Truth::no;
    do {
      if (token().kind != TokenKind::word) return damaged(from, "a 'case' is not closed");
      if (!taken && truth != Truth::yes && live()) {
        const Letters pattern = expand_one(token().text);
        const bool known = is_known(subject) && is_known(pattern);
        truth = token().raw == "*" ? Truth::yes
                : known            ? truth_of(matches(pattern, subject))
                                   : settled(Truth::unknown, from, question + " is " + token().raw);
        runs = runs || truth != Truth::no;
      }
      ++at_;
    } while (take("|"));
    expect(")", "case", from);
    open = open || (runs && truth != Truth::yes);
    skip_if(!runs, [&] { open ? run_undecided([&] { list(); }) : list(); });
    taken = taken || truth == Truth::yes;
    if (live() && (token().raw == ";&" || token().raw == ";;&"))
      return refuse(line(), "a 'case' that goes on with its next clause");
    if (!take(";;") && !take(";&")) take(";;&");
  }
}

// Reads do ... done; returns whether the loop goes on.
bool Reader::body(bool runs, std::string_view of, int from) {
  expect("do", of, from);
  loops_ += runs ? 1 : 0;
  skip_if(!runs, [&] { list("do"); });
  loops_ -= runs ? 1 : 0;
  bool goes_on = runs && live();
  if (runs && (flow_ == Flow::next || flow_ == Flow::leave)) {
    const bool outer = --levels_ > 0;
    goes_on = flow_ == Flow::next && !outer;
    if (!outer) flow_ = Flow::none;
  }
  expect("done", of, from);
  return goes_on && !broken_;
}

// Runs what may run any number of times, none among them, until a further time changes nothing.
template <class Part>
void Reader::repeat(const Part& part) {
  run_undecided([&] {
    decltype(state_.variables) before;
    do {
      before = state_.variables;
      part();
    } while (!broken_ && state_.variables != before);
  });
}

// A loop without an end of its own that another condition leaves, which is not decided, runs any number of times.
void Reader::loop(int from) {
  const std::size_t first = at_;
  const bool waits = live() && !repeated_ && !out_.trains && output_ == nullptr;
  if (!waits) return rounds(from);
  const auto before = std::tuple(state_, out_, status_, missing_, readonly_, decided_);
  rounds(from);
  if (!broken_ || !open_end_) return;
  std::tie(state_, out_, status_, missing_, readonly_, decided_) = before;
  broken_ = open_end_ = false;
  error_.reset();
  flow_ = Flow::none;
  repeat([&] {
    at_ = first + 1;
    list("while");
    body(true, "while", from);
  });
}

void Reader::rounds(int from) {
  const Truth ends = take("until") ? Truth::yes : Truth::no;
  take("while");
  const bool runs = live();
  const std::size_t first = at_;
  for (bool goes_on = true; goes_on;) {
    at_ = first;
    if (live()) missing_.clear();
    list("while");
    const Truth truth = status_;
    if (live() && !out_.trains && (truth == Truth::unknown || repeated_))
      return repeat([&] {
        at_ = first;
        list();
        body(true, "while", from);
      });
    goes_on = body(live() && truth != Truth::unknown && truth != ends, "while", from) && !out_.trains;
  }
  if (runs && live()) status_ = Truth::yes;
}

void Reader::each(int from) {
  const bool formula = token().kind == TokenKind::arithmetic;  // for (( ))
  if (formula && live()) number(token().text);
  const std::string name = token().raw;
  ++at_;
  skip_lines();
  Fields words = state_.parameters;
  if (take("in"))
    for (words.clear(); token().kind == TokenKind::word && !broken_; ++at_)
      for (Letters& word : live() ? expand(token().text) : Fields()) words.push_back(std::move(word));
  take(";");
  const std::size_t first = at_;
  const bool runs = live();
  const auto is_open = [](const Letter& one) {
    return one.kept || (!one.quoted && (one.symbol == '*' || one.symbol == '?'));
  };
  const bool open = std::ranges::any_of(words, [&](const Letters& word) { return std::ranges::any_of(word, is_open); });
  if (runs && !out_.trains && (formula || repeated_ || open))
    return repeat([&] {
      at_ = first;
      if (!formula) assign(name, {});
      body(true, "for", from);
    });
  std::size_t next = 0;
  do {
    at_ = first;
    if (runs && next < words.size()) assign(name, {words[next]});
  } while (body(runs && next < words.size(), "for", from) && ++next < words.size());
}

void Reader::condition(int from) {
  std::vector<Letters> words;
  for (skip_lines(); !broken_ && token().raw != "]]"; skip_lines()) {
    if (token().kind == TokenKind::end || token().kind == TokenKind::unclosed) break;
    if (live()) words.push_back(expand_one(token().text));
    ++at_;
  }
  expect("]]", "[[", from);
  if (live()) status_ = test(words, true);
}

void Reader::function() {
  const std::string name = token().raw;
  const int from = line();
  if (token().kind != TokenKind::word) return damaged(from, fmt::format("'{}' is no name of a function", name));
  ++at_;
  if (take("(")) expect(")", "(", from);
  skip_lines();
  if (live()) {
    if (repeated_)
      refuse(line(), "a function that is defined behind an open condition or in a loop that runs any number of times");
    state_.functions[name] = {source_, at_};
    status_ = Truth::yes;
  }
  skip_if(true, [&] { command(); });
}

void Reader::simple(int from) {
  std::vector<Letters> words;
  const std::size_t first = at_;
  for (; redirections() && token().kind == TokenKind::word; ++at_) words.push_back(token().text);
  if (token().raw == "(" && words.size() == 1) {
    at_ = first;
    return function();
  }
  if (token().kind == TokenKind::unclosed)
    return damaged(line(), fmt::format("'{}' is not closed", text_of(token().text)),
                   "the rest of the script would be one word; a here-document in $( ) is read by --execute");
  if (at_ == first || token().raw == "(")
    return damaged(line(), fmt::format("'{}' is no part of a command", token().raw));
  if (live()) {
    auto* const output = std::exchange(output_, silent_ ? nullptr : output_);
    run_simple(words, from);
    output_ = output;
  }
}

}  // namespace plumbline::model::megatron
