#include "model/megatron/shell/detail/reader.h"

#include <fmt/format.h>

#include <tuple>

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_command = 100;
constexpr std::string_view closers[] = {"then", "elif", "else", "fi", "do", "done",
                                        "esac", "}",    ")",    ";;", ";&", ";;&"};

}  // namespace

std::string place_of(const std::vector<std::string>& files, int line) {
  const auto file = static_cast<std::size_t>(line / lines_of_a_file);
  const std::string& name = files[std::min(file, files.size() - 1)];
  return line > 0 ? fmt::format("{}:{}", name, line % lines_of_a_file) : name;
}

std::string undecided(const Condition& condition) {
  const std::string with = condition.names.empty() ? "" : fmt::format(" with {}", fmt::join(condition.names, ", "));
  return fmt::format("'{}'{} is not decided", condition.text, with);
}

std::string remedy(const Condition& condition) {
  return (condition.names.empty() ? "" : fmt::format("--define {}=VALUE, or ", *condition.names.begin())) +
         "--execute runs the script";
}

Result<Script> read_script(std::string_view text, const ShellInputs& inputs) {
  if (std::ranges::count(text, '\n') >= lines_of_a_file)
    return wrong_input_at(inputs.path, 0, "", "has over a million lines");
  Source source(letters_of(text, 1));
  return Reader(inputs).run(source);
}

Reader::Reader(const ShellInputs& inputs) : inputs_(inputs) {
  for (const auto& [name, value] : inputs.definitions) state_.variables[name] = {letters_of(value)};
  for (int i = 1; inputs.definitions.contains(std::to_string(i)); ++i)
    state_.parameters.push_back(letters_of(inputs.definitions.find(std::to_string(i))->second));
  const std::string name = inputs.path.substr(inputs.path.rfind('/') + 1);
  state_.variables["0"] =
      state_.variables["BASH_SOURCE"] = {letters_of(inputs.folder.empty() ? name : inputs.folder + "/" + name)};
  out_.files = {inputs.path};
}

Result<Script> Reader::run(Source& script) {
  run_text(script);
  if (error_) return tl::unexpected(*error_);
  if (!out_.trains) keep_variables();
  return std::move(out_);
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

// Ends the reading, with an error unless nobody minds.
void Reader::fail(int line, std::string message, std::string hint, bool ignored) {
  if (!broken_ && !ignored) {
    const std::string place = place_of(out_.files, line);
    error_ = Error{ErrorKind::input, std::move(message), place.substr(0, place.rfind(':')), line % lines_of_a_file, "",
                   std::move(hint)};
  }
  broken_ = true;
  if (source_ != nullptr) at_ = source_->tokens.size();
}

// A script that bash reads no further: it runs what stands before the line, no part of it.
void Reader::damaged(int line, std::string message, std::string hint) {
  fail(line, std::move(message), std::move(hint), behind_);
}

void Reader::refuse(int line, const std::string& what, int condition) {
  const std::string hint = condition > 0 ? remedy(out_.conditions[static_cast<std::size_t>(condition - 1)])
                                         : "write it otherwise in a copy, or let --execute run the script";
  fail(line, fmt::format("{} is not read", what), hint, certain_);
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
    if (live() && (sets_within(token().raw) || sets_within(token().body)))
      refuse(line(), "an assignment within a redirection");
  }
  return true;
}

template <class Part>
void Reader::skip_if(bool skips, const Part& part) {
  skipping_ += skips ? 1 : 0;
  part();
  skipping_ -= skips ? 1 : 0;
}

// Returns the place of a condition that is not known.
int Reader::condition(int line, std::string text) {
  out_.conditions.push_back({std::move(text), missing_, line});
  return static_cast<int>(out_.conditions.size());
}

void Reader::take_to_hold(int condition, bool holds) {
  const Condition& decided = out_.conditions[static_cast<std::size_t>(condition - 1)];
  out_.notes.push_back(
      {fmt::format("'{}' is not decided: it is taken {}to hold, since no training is started otherwise", decided.text,
                   holds ? "" : "not "),
       decided.line});
}

// Runs a part of which a condition decides whether or how often it runs: if it `holds`, or does not. A part that ends
// the script is taken not to run. Returns whether what follows is reached from the part.
template <class Part>
bool Reader::run_open(int condition, bool holds, const Part& part) {
  const auto outer = std::tuple(open_, open_holds_, open_functions_, open_loops_);
  State before = state_;
  open_ = condition;
  open_holds_ = holds;
  open_functions_ = state_.locals.size();
  open_loops_ = loops_;
  parts_.push_back(++last_part_);
  part();
  const bool ends = flow_ == Flow::end;
  if (ends) {
    if (training_part_ < parts_.back()) take_to_hold(condition, !holds);
    state_ = std::move(before);
    flow_ = Flow::none;
  }
  parts_.pop_back();
  std::tie(open_, open_holds_, open_functions_, open_loops_) = outer;
  if (output_ != nullptr) output_->reset();
  status_ = Truth::unknown;
  return !ends;
}

void Reader::list(std::string_view of) {
  bool any = false;
  for (skip_lines(); !broken_ && token().kind != TokenKind::end && !is_one_of(closers, token().raw); skip_lines()) {
    chain();
    any = true;
    const bool ends = token().kind == TokenKind::end || token().raw == "\n";
    behind_ = behind_ || (ends && depth_ == 0 && certain_);
    if (!broken_ && !take(";") && !take("&") && !ends && !is_one_of(closers, token().raw))
      damaged(line(), fmt::format("'{}' is no part of the command before it", token().raw));
  }
  if (!any && !broken_ && !of.empty()) damaged(line(), fmt::format("'{}' has no commands", of));
}

void Reader::chain() {
  const std::size_t first = at_;
  if (live()) missing_.clear();
  pipeline();
  while (!broken_ && (token().raw == "&&" || token().raw == "||")) {
    const bool open = live() && status_ == Truth::unknown && !certain_;
    const int decided = open ? condition(source_->tokens[first].text[0].line, written(first)) : 0;
    const bool success = token().raw == "&&";
    ++at_;
    skip_lines();
    if (!open)
      skip_if(status_ != truth_of(success), [&] { pipeline(); });
    else if (!run_open(decided, success, [&] { pipeline(); }))
      status_ = truth_of(!success);
  }
}

void Reader::pipeline() {
  bool inverted = false;
  while (take("!")) inverted = !inverted;
  const auto bar = [this] { return token().raw == "|" || token().raw == "|&"; };
  const std::size_t first = at_;
  skip_if(live(), [&] { command(); });
  const bool parts = bar(), runs = live();
  if (runs) at_ = first;
  // The parts of a pipeline run in shells of their own; what the last one prints is not known.
  auto* const outer = std::exchange(output_, parts ? nullptr : output_);
  const auto part = [&] { runs&& parts ? apart([&] { command(); }) : command(); };
  if (runs) part();
  while (!broken_ && bar()) {
    ++at_;
    skip_lines();
    part();
  }
  output_ = outer;
  if (runs && parts && output_ != nullptr) output_->reset();
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
    fail(line(), "commands are nested too deep", "functions that call themselves are not read", certain_);
  if (live() && --commands_left_ < 0)
    fail(line(), "the script runs over 100,000 commands", "loops without an end are not read", certain_);
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
  if (const int decided = condition_of(token().text); live() && decided > 0)
    return refuse(from, "a command that a condition decides", decided);
  if (word == "select" || word == "coproc" || word == "time") return refuse(from, fmt::format("'{}'", word));
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
    test_words(from);
  } else {
    return take("function") ? function() : simple(from);
  }
  redirections();
  if (silent_ && live() && output_ != nullptr) output_->reset();
}

void Reader::branch(int from) {
  const int first_line = from;
  const bool runs = live();
  bool taken = false, reached = false;  // a clause was run in any case; what follows is reached
  int open = 0;                         // the last condition that is not known
  const auto run = [&](bool holds, const std::string& of) {
    if (open == 0 || !live())
      list(of);
    else
      reached = run_open(open, holds, [&] { list(of); }) || reached;
  };
  std::string word = "if";
  do {
    skip_lines();
    if (live()) missing_.clear();
    const std::size_t first = at_;
    Truth truth = Truth::no;
    skip_if(taken, [&] {
      const auto test = [&] {
        list(word);
        truth = live() ? status_ : Truth::no;
      };
      if (open > 0 && live())
        run_open(open, true, test);
      else
        test();
    });
    if (truth == Truth::unknown && certain_) truth = Truth::no;
    if (truth == Truth::unknown) open = condition(from, written(first));
    expect("then", "if", first_line);
    skip_if(truth == Truth::no, [&] { run(truth == Truth::unknown, "then"); });
    taken = taken || truth == Truth::yes;
    skip_lines();
    from = line();
    word = "elif";
  } while (take(word));
  if (take("else")) {
    skip_if(taken, [&] { run(false, "else"); });
  } else if (!taken) {
    reached = true;
    if (live()) status_ = Truth::yes;
  }
  expect("fi", "if", first_line);
  if (!runs || !live() || open == 0) return;
  status_ = Truth::unknown;
  if (reached) return;
  flow_ = Flow::end;
  if (open_ == 0) out_.exit_line = first_line;
}

void Reader::selection(int from) {
  missing_.clear();
  const bool runs = live();
  const Letters subject = runs ? expand_one(token().text) : Letters();
  const std::string question = fmt::format("case {}", token().raw);
  ++at_;
  bool taken = false, open = false;
  expect("in", "case", from);
  for (skip_lines(); !broken_ && !take("esac"); skip_lines()) {
    take("(");
    Truth truth = Truth::no;
    std::string patterns;
    do {
      if (token().kind != TokenKind::word) return damaged(from, "a 'case' is not closed");
      if (!taken && truth != Truth::yes && live()) {
        const Letters pattern = expand_one(token().text);
        const bool known = is_known(subject) && is_known(pattern);
        const Truth one = token().raw == "*" ? Truth::yes
                          : known            ? truth_of(matches(pattern, subject))
                          : certain_         ? Truth::no
                                             : Truth::unknown;
        if (one != Truth::no) truth = one;
      }
      patterns += (patterns.empty() ? "" : "|") + token().raw;
      ++at_;
    } while (take("|"));
    expect(")", "case", from);
    open = open || truth == Truth::unknown;
    skip_if(truth == Truth::no, [&] {
      if (open && live())
        run_open(condition(from, question + " is " + patterns), true, [&] { list(); });
      else
        list();
    });
    taken = taken || truth == Truth::yes;
    if (runs && live() && truth != Truth::no && (token().raw == ";&" || token().raw == ";;&"))
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

void Reader::loop(int from) {
  const Truth ends = truth_of(token().raw == "until");
  const std::size_t first = ++at_;
  const bool runs = live();
  for (bool goes_on = true; goes_on;) {
    at_ = first;
    list("while");
    if (live() && status_ == Truth::unknown) return idle_body("while", from, first);
    goes_on = body(live() && status_ != ends, "while", from) && !certain_;
  }
  if (runs && live()) status_ = Truth::yes;
}

void Reader::each(int from) {
  const bool runs = live();
  if (token().kind == TokenKind::arithmetic) return counted(from);
  const std::string name = token().raw;
  ++at_;
  skip_lines();
  Fields words = state_.parameters;
  if (take("in"))
    for (words.clear(); token().kind == TokenKind::word && !broken_; ++at_)
      for (Letters& word : live() ? expand(token().text) : Fields()) words.push_back(std::move(word));
  take(";");
  const std::size_t first = at_;
  const auto is_open = [](const Letter& one) {
    return !one.is_known() || (!one.quoted && (one.symbol == '*' || one.symbol == '?'));
  };
  const bool open = std::ranges::any_of(words, [&](const Letters& word) { return std::ranges::any_of(word, is_open); });
  if (runs && open) {
    assign(name, {open_value(name, from, open_)});
    return idle_body("for", from, at_);
  }
  std::size_t next = 0;
  do {
    at_ = first;
    if (runs && next < words.size()) assign(name, {words[next]});
  } while (body(runs && next < words.size(), "for", from) && ++next < words.size());
}

// Reads the body of a loop that runs any number of times, none of which may change anything.
void Reader::idle_body(std::string_view of, int from, std::size_t first) {
  body(false, of, from);
  if (!broken_ && !are_idle(first, at_)) return refuse(from, "a loop that runs any number of times");
  status_ = Truth::unknown;
}

// Runs NAME=FORMULA, NAME++, ++NAME, NAME+=FORMULA and the same with a minus.
void Reader::step(const Letters& formula, int from) {
  const std::string written(model::trimmed(text_of(formula)));
  std::string_view text = written;
  const auto take_sign = [&text]() -> char {
    if (!text.starts_with("++") && !text.starts_with("--")) return 0;
    const char sign = text.front();
    text.remove_prefix(2);
    return sign;
  };
  char sign = take_sign();
  std::size_t end = 0;
  while (end < text.size() && in_name(text[end])) ++end;
  const std::string name(text.substr(0, end));
  text = model::trimmed(text.substr(end));
  if (sign == 0) sign = take_sign();
  std::string value = fmt::format("{}{}1", name, sign);
  if (sign == 0 && (text.starts_with("+=") || text.starts_with("-=")))
    value = fmt::format("{}{}({})", name, text.front(), text.substr(2));
  else if (sign == 0 && text.starts_with('='))
    value = text.substr(1);
  else if (sign == 0 || !text.empty())
    return refuse(from, fmt::format("arithmetic that sets a variable ('{}')", written));
  const auto result = name.empty() || !begins_name(name[0]) ? std::nullopt : number(letters_of(value, from));
  if (!broken_ && !result) return refuse(from, fmt::format("arithmetic that sets a variable ('{}')", written));
  if (!broken_) assign(name, {letters_of(std::to_string(*result), from)});
}

// Reads for (( FIRST; CONDITION; STEP )).
void Reader::counted(int from) {
  std::vector<Letters> parts(1);
  for (const Letter& letter : token().text)
    if (letter.symbol == ';')
      parts.emplace_back();
    else
      parts.back().push_back(letter);
  parts.resize(3);
  ++at_;
  skip_lines();
  take(";");
  const std::size_t first = at_;
  const bool runs = live();
  const auto is_empty = [](const Letters& part) { return model::trimmed(text_of(part)).empty(); };
  if (runs && !is_empty(parts[0])) step(parts[0], from);
  for (bool goes_on = true; goes_on && !broken_;) {
    at_ = first;
    const auto holds = !runs ? 0 : is_empty(parts[1]) ? 1 : number(parts[1]);
    if (broken_) return;
    if (!holds) return refuse(from, "a loop that runs any number of times");
    goes_on = body(runs && *holds != 0, "for", from) && *holds != 0;
    if (goes_on && !is_empty(parts[2])) step(parts[2], from);
  }
}

void Reader::test_words(int from) {
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
    if (open_ > 0) refuse(from, "a function behind a condition that is not decided");
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
