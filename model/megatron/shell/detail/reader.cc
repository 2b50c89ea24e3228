#include "model/megatron/shell/detail/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_command = 100;
constexpr std::size_t most_ways = 250;
constexpr const char* or_execute = "write it otherwise in a copy, or let --execute run the script";
constexpr std::array<std::string_view, 8> closers = {"then", "elif", "else", "fi", "do", "done", "esac", "}"};
// Commands of which nothing that is read here depends, and conditions.
constexpr std::array<std::string_view, 13> harmless = {"echo",  "printf", "true", ":",    "mkdir", "rm",  "sleep",
                                                       "touch", "cat",    "[",    "test", "wait",  "date"};

}  // namespace

std::string place_of(const std::vector<std::string>& files, int line) {
  const auto file = static_cast<std::size_t>(line / lines_of_a_file);
  const std::string& name = files[std::min(file, files.size() - 1)];
  return line > 0 ? fmt::format("{}:{}", name, line % lines_of_a_file) : name;
}

Result<std::vector<Script>> read_script(std::string_view text, const ShellInputs& inputs) {
  Source source = {letters_of(text, 1), {}, {}, {}};
  std::vector<Script> ways, idle;
  std::vector<Decision> decisions;
  Shared shared{.files = {inputs.path}};
  do {
    Script script = TRY(Reader(inputs, decisions, shared).run(source));
    decisions = script.decisions;
    if (ways.size() + idle.size() >= most_ways)
      return tl::unexpected(Error{ErrorKind::input,
                                  fmt::format("there are over {} ways through the script: conditions are not decided, "
                                              "the first is '{}'",
                                              most_ways, decisions.front().condition),
                                  inputs.path, decisions.front().line % lines_of_a_file, "",
                                  "--define their variables, or let --execute run the script"});
    (script.trains ? ways : idle).push_back(std::move(script));
    while (!decisions.empty() && decisions.back().holds) decisions.pop_back();
    if (!decisions.empty()) decisions.back().holds = true;
  } while (!decisions.empty());
  if (ways.empty()) return std::vector<Script>{std::move(idle.front())};
  for (const Script& script : idle) {
    const Decision& last = script.decisions.back();
    ways[0].notes.push_back(
        {fmt::format("'{}' is not decided: it is taken {}to hold, since no training is started otherwise",
                     last.condition, last.holds ? "not " : ""),
         last.line});
  }
  return ways;
}

Reader::Reader(const ShellInputs& inputs, std::vector<Decision> decisions, Shared& shared)
    : inputs_(inputs), shared_(shared) {
  for (const auto& [name, value] : inputs.definitions) state_.variables[name] = {letters_of(value)};
  for (int i = 1; inputs.definitions.contains(std::to_string(i)); ++i)
    state_.parameters.push_back(letters_of(inputs.definitions.find(std::to_string(i))->second));
  const std::string name = inputs.path.substr(inputs.path.rfind('/') + 1);
  state_.variables["0"] =
      state_.variables["BASH_SOURCE"] = {letters_of(inputs.folder.empty() ? name : inputs.folder + "/" + name)};
  out_.decisions = std::move(decisions);
}

Result<Script> Reader::run(Source& script) {
  run_text(script, 1);
  if (error_) return tl::unexpected(*error_);
  if (!out_.trains) keep_variables();
  out_.files = shared_.files;
  return std::move(out_);
}

void Reader::keep_variables() {
  for (const auto& [name, value] : state_.variables) out_.variables[name] = value.empty() ? "" : text_of(value.front());
}

char Reader::symbol(std::size_t ahead) const {
  return at_ + ahead < source_->text.size() ? source_->text[at_ + ahead].symbol : '\0';
}

int Reader::line() const {
  return source_->text.empty() ? 0 : source_->text[std::min(at_, source_->text.size() - 1)].line;
}

std::string Reader::written(std::size_t first) const {
  std::string text = text_of(slice(source_->text, first, at_));
  while (!text.empty() && (std::isspace(static_cast<unsigned char>(text.back())) != 0 || text.back() == ';'))
    text.pop_back();
  return text;
}

// Ends the reading; what is wrong behind the first training is nobody's error.
void Reader::fail(int line, std::string message, std::string hint) {
  if (!broken_ && !out_.trains) {
    const auto file = static_cast<std::size_t>(line / lines_of_a_file);
    error_ = Error{ErrorKind::input,
                   std::move(message),
                   shared_.files[std::min(file, shared_.files.size() - 1)],
                   line % lines_of_a_file,
                   "",
                   std::move(hint)};
  }
  broken_ = true;
  if (source_ != nullptr) at_ = source_->text.size();
}

void Reader::refuse(int line, const std::string& what) { fail(line, fmt::format("{} is not read", what), or_execute); }

// Decides a condition that is not known; behind the first training it does not hold.
Truth Reader::settled(Truth truth, int line, const std::string& condition) {
  if (truth != Truth::unknown || !live() || out_.trains) return truth == Truth::yes ? truth : Truth::no;
  if (decided_ == out_.decisions.size()) out_.decisions.push_back({condition, missing_, line, false});
  return truth_of(out_.decisions[decided_++].holds);
}

// Skips blanks, continued lines and comments.
void Reader::skip_blanks() {
  while (at_ < source_->text.size()) {
    if (is_blank(symbol())) {
      ++at_;
    } else if (symbol() == '\\' && (symbol(1) == '\n' || (symbol(1) == '\r' && symbol(2) == '\n'))) {
      at_ += symbol(1) == '\r' ? 3 : 2;
    } else if (symbol() == '#') {
      while (at_ < source_->text.size() && symbol() != '\n') ++at_;
    } else {
      return;
    }
  }
}

void Reader::skip_lines() {
  for (skip_blanks(); symbol() == '\n'; skip_blanks()) {
    const auto document = source_->documents.find(at_);
    at_ = document == source_->documents.end() ? at_ + 1 : document->second;
  }
}

// Returns the word ahead where it has no quotes or expansions.
std::string Reader::peek() {
  skip_blanks();
  std::string word;
  for (std::size_t i = 0; symbol(i) != '\0' && !is_blank(symbol(i)) && !ends_command(symbol(i)); ++i) {
    if (std::string_view("'\"\\$`<>").find(symbol(i)) != std::string_view::npos || i > 200) return "";
    word += symbol(i);
  }
  return word;
}

bool Reader::take(std::string_view word) {
  if (broken_ || peek() != word) return false;
  at_ += word.size();
  return true;
}

bool Reader::take_symbols(std::string_view symbols) {
  for (std::size_t i = 0; i < symbols.size(); ++i)
    if (symbol(i) != symbols[i]) return false;
  at_ += symbols.size();
  return true;
}

void Reader::expect(std::string_view word, std::string_view of, int from) {
  skip_lines();
  if (broken_ || take(word)) return;
  fail(line(), fmt::format("'{}' of line {} has no '{}'", of, from % lines_of_a_file, word), "");
}

// Returns the word ahead as it is written, without line ends behind a backslash before its first quote.
Letters Reader::raw_word() {
  const std::size_t first = at_;
  Scan scan(source_->text);
  at_ = std::max(scan.word(at_), at_ + 1);
  if (const auto open = scan.unclosed()) {
    fail(source_->text[*open].line, fmt::format("'{}' is not closed", source_->text[*open].symbol),
         "the rest of the script would be one word; a here-document in $( ) is read by --execute");
    return {};
  }
  Letters word = slice(source_->text, first, at_);
  for (std::size_t i = 0; i + 1 < word.size() && word[i].symbol != '\'' && word[i].symbol != '"'; ++i) {
    if (word[i].symbol != '\\') continue;
    const auto here = word.begin() + static_cast<std::ptrdiff_t>(i);
    if (word[i + 1].symbol == '\n')
      word.erase(here, here + 2);
    else
      ++i;
  }
  return word;
}

void Reader::redirections() {
  for (skip_blanks(); !broken_ && redirection(); skip_blanks()) {
  }
}

// Skips a redirection, and finds where a here-document ends.
bool Reader::redirection() {
  std::size_t sign = 0;
  while (std::isdigit(static_cast<unsigned char>(symbol(sign))) != 0) ++sign;
  if (symbol() == '&' && symbol(1) == '>') sign = 1;
  if ((symbol(sign) != '<' && symbol(sign) != '>') || (sign == 0 && symbol(1) == '(')) return false;
  if (symbol(sign) == '>' && (sign == 0 || symbol() != '2')) silent_ = true;
  at_ += sign;
  const std::size_t mark = at_;
  const bool here = take_symbols("<<") && symbol() != '<';
  document_ = document_ || here;
  while (std::string_view("<>&-").find(symbol()) != std::string_view::npos && symbol() != '\0') ++at_;
  if (symbol() == '|' && symbol(1) != '|') ++at_;
  skip_blanks();
  if (at_ == source_->text.size() || (ends_command(symbol()) && symbol() != '(')) return true;
  std::string word = text_of(raw_word());
  if (!here || broken_ || !source_->marks.insert(mark).second) return true;
  std::erase_if(word, [](char letter) { return letter == '\'' || letter == '"' || letter == '\\'; });
  const Letters& text = source_->text;
  std::size_t end = at_;
  while (end < text.size() && text[end].symbol != '\n') ++end;
  const std::size_t before = end;
  if (const auto other = source_->documents.find(before); other != source_->documents.end()) end = other->second - 1;
  for (std::string found; end < text.size() && found != word;) {
    const std::size_t first = ++end;
    while (end < text.size() && text[end].symbol != '\n') ++end;
    found = text_of(slice(text, first, end));
    found.erase(0, std::min(found.find_first_not_of('\t'), found.size()));
    if (found.ends_with('\r')) found.pop_back();
  }
  source_->documents[before] = std::min(end + 1, text.size());
  return true;
}

template <class Part>
void Reader::skip_if(bool skips, const Part& part) {
  skipping_ += skips ? 1 : 0;
  part();
  skipping_ -= skips ? 1 : 0;
}

// Whether what is ahead changes nothing, so that it does not matter if it is run.
template <class Part>
bool Reader::is_inert(const Part& part) {
  const std::size_t first = at_;
  const bool outer = std::exchange(inert_, true);
  skip_if(true, part);
  at_ = broken_ ? at_ : first;
  return std::exchange(inert_, outer) && output_ == nullptr;
}

bool Reader::at_list_end() {
  if (broken_ || at_ >= source_->text.size() || symbol() == ')') return true;
  if (symbol() == ';' && (symbol(1) == ';' || symbol(1) == '&')) return true;
  return std::ranges::find(closers, peek()) != closers.end();
}

void Reader::list() {
  while (!broken_) {
    skip_lines();
    if (at_list_end()) return;
    if (symbol() == ';' || symbol() == '&')
      ++at_;
    else
      chain();
  }
}

void Reader::chain() {
  std::size_t first = at_;
  if (live()) missing_.clear();
  pipeline();
  for (skip_blanks(); !broken_; skip_blanks()) {
    const std::string condition = live() && status_ == Truth::unknown ? written(first) : "";
    const bool success = take_symbols("&&");
    if (!success && !take_symbols("||")) return;
    skip_lines();
    const auto rest = [&] {
      for (bool more = true; more && !broken_; skip_lines()) {
        pipeline();
        more = take_symbols("&&") || take_symbols("||");
      }
    };
    if (live() && status_ == Truth::unknown && !is_inert(rest))
      status_ = settled(status_, source_->text[first].line, condition);
    const bool runs = status_ == truth_of(success);
    if (runs && live()) {
      missing_.clear();
      first = at_;
    }
    skip_if(!runs, [&] { pipeline(); });
  }
}

void Reader::pipeline() {
  bool inverted = false;
  for (skip_blanks(); take("!"); skip_blanks()) inverted = !inverted;
  take("time");
  const auto more = [this] {
    skip_blanks();
    if (broken_ || symbol() != '|' || symbol(1) == '|') return false;
    at_ += symbol(1) == '&' ? 2 : 1;
    skip_lines();
    return true;
  };
  bool parts = false;
  if (live()) is_inert([&] { command(), parts = more(); });
  if (!live() || !parts) {
    do {
      command();
    } while (more());
  } else {
    // The parts of a pipeline run in shells of their own; what the last one prints is not known.
    auto* outer = std::exchange(output_, nullptr);
    do {
      apart([&] { command(); });
    } while (more());
    output_ = outer;
    if (output_ != nullptr) *output_ = std::nullopt;
  }
  if (inverted && live()) status_ = !status_;
}

void Reader::command() {
  skip_blanks();
  const std::size_t first = at_;
  const bool skipped = !live();
  const auto known = source_->commands.find(first);
  if (skipped && known != source_->commands.end()) {
    at_ = known->second.end;
    inert_ = inert_ && known->second.inert;
    return;
  }
  if (++depth_ > deepest_command) fail(line(), "commands are nested too deep", "");
  if (live() && --shared_.commands < 0)
    fail(line(), "the script runs over 100,000 commands", "loops without an end are not read");
  const bool outer_inert = std::exchange(inert_, true), outer_document = std::exchange(document_, false);
  const bool outer_silent = std::exchange(silent_, false);
  if (!broken_) compound(peek());
  if (skipped && !broken_) source_->commands[first] = {at_, inert_};
  inert_ = outer_inert && (inert_ || !skipped);
  silent_ = outer_silent;
  document_ = outer_document;
  --depth_;
}

void Reader::compound(const std::string& word) {
  if (std::ranges::find(closers, word) != closers.end())
    return fail(line(), fmt::format("'{}' closes nothing", word), "");
  if (word == "select" || word == "coproc") return refuse(line(), fmt::format("'{}'", word));
  if (word == "[[") return condition();
  if (word == "function") {
    take(word);
    skip_blanks();
    return function(text_of(raw_word()));
  }
  if (symbol() == '(')
    brackets();
  else if (word == "if")
    branch();
  else if (word == "case")
    selection();
  else if (word == "while" || word == "until")
    loop();
  else if (word == "for")
    each();
  else if (word == "{") {
    const int from = line();
    take(word);
    list();
    expect("}", "{", from);
  } else {
    return simple();
  }
  redirections();
  if (silent_ && live() && output_ != nullptr) *output_ = std::nullopt;
}

void Reader::branch() {
  const int from = line();
  take("if");
  missing_.clear();
  skip_blanks();
  const std::size_t first = at_;
  list();
  Truth truth = status_;
  if (live() && truth == Truth::unknown)
    truth = is_inert([&] { clauses(Truth::no, from, true); }) ? Truth::yes : settled(truth, from, written(first));
  clauses(truth, from, false);
}

// Reads what follows the condition of an if. `taken`: a clause before it was run.
void Reader::clauses(Truth truth, int from, bool taken) {
  expect("then", "if", from);
  skip_if(taken || truth != Truth::yes, [&] { list(); });
  taken = taken || truth == Truth::yes;
  skip_lines();
  if (take("elif")) {
    skip_blanks();
    const std::size_t first = at_;
    Truth next = Truth::no;
    skip_if(taken, [&] {
      list();
      next = settled(status_, line(), written(first));
    });
    return clauses(next, from, taken);
  }
  if (take("else")) {
    skip_if(taken, [&] { list(); });
  } else if (!taken && live()) {
    status_ = Truth::yes;
  }
  expect("fi", "if", from);
}

void Reader::selection() {
  const int from = line();
  const std::size_t first = at_;
  take("case");
  skip_blanks();
  missing_.clear();
  const Letters word = raw_word();
  const std::string question = written(first);
  const Letters subject = live() ? expand_one(word) : Letters();
  bool taken = !live();
  if (live()) status_ = Truth::yes;
  expect("in", "case", from);
  for (skip_lines(); !broken_ && !take("esac"); skip_lines()) {
    if (at_ >= source_->text.size()) return expect("esac", "case", from);
    if (symbol() == '(') ++at_;
    bool runs = false;
    for (bool more = true; more && !broken_;) {
      skip_blanks();
      const Letters raw = raw_word();
      if (!taken && !runs && live()) {
        const Letters pattern = expand_one(raw);
        const bool known = is_known(subject) && is_known(pattern);
        runs = (pattern.size() == 1 && pattern[0].symbol == '*' && !pattern[0].quoted) ||
               (known && matches(pattern, subject)) ||
               (!known && settled(Truth::unknown, from, fmt::format("{} is {}", question, text_of(raw))) == Truth::yes);
      }
      skip_blanks();
      more = symbol() == '|';
      if (!more && symbol() != ')')
        fail(line(), fmt::format("a pattern of 'case' of line {} has no ')'", from % lines_of_a_file), "");
      ++at_;
    }
    skip_if(!runs, [&] { list(); });
    taken = taken || runs;
    if (symbol() == ';' && (symbol(1) == '&' || symbol(2) == '&'))
      return refuse(line(), "a 'case' that goes on with its next clause");
    take_symbols(";;");
  }
}

// Reads do ... done; returns whether the loop goes on.
bool Reader::body(bool runs, std::string_view of, int from) {
  expect("do", of, from);
  skip_if(!runs, [&] { list(); });
  bool goes_on = runs && live();
  if (runs && (flow_ == Flow::next || flow_ == Flow::leave)) {
    const bool outer = --levels_ > 0;
    goes_on = flow_ == Flow::next && !outer;
    if (!outer) flow_ = Flow::none;
  }
  expect("done", of, from);
  return goes_on && !broken_;
}

void Reader::loop() {
  const int from = line();
  const Truth ends = peek() == "until" ? Truth::yes : Truth::no;
  at_ += 5;
  skip_blanks();
  const bool runs = live();
  const std::size_t first = at_;
  for (bool goes_on = true; goes_on;) {
    at_ = first;
    missing_.clear();
    list();
    const Truth truth = status_;
    if (live() && truth == Truth::unknown && !out_.trains) {
      const std::string text = written(first);
      if (!is_inert([&] { body(false, "while", from); }))
        return refuse(from, fmt::format("a loop with '{}', which is not decided,", text));
    }
    goes_on = body(live() && truth != Truth::unknown && truth != ends, "while", from);
  }
  if (runs && live()) status_ = Truth::yes;
}

void Reader::each() {
  const int from = line();
  take("for");
  skip_blanks();
  if (symbol() == '(') return refuse(from, "'for (( ))'");
  const std::string name = text_of(raw_word());
  skip_lines();
  Fields words = state_.parameters;
  if (take("in")) {
    words.clear();
    for (skip_blanks(); !broken_ && symbol() != '\0' && !ends_command(symbol()); skip_blanks()) {
      const Letters raw = raw_word();
      if (!live()) continue;
      for (const Letters& word : expand(raw)) {
        const auto is_pattern = [](const Letter& one) {
          return !one.quoted && (one.symbol == '*' || one.symbol == '?');
        };
        if (!is_known(word) || std::ranges::any_of(word, is_pattern))
          return refuse(from, fmt::format("a loop over '{}', which is not known,", text_of(word)));
        words.push_back(word);
      }
    }
  }
  skip_blanks();
  if (symbol() == ';') ++at_;
  const std::size_t first = at_;
  const bool runs = live();
  std::size_t next = 0;
  do {
    at_ = first;
    if (runs && next < words.size()) assign(name, {words[next]});
  } while (body(runs && next < words.size(), "for", from) && ++next < words.size());
  if (!runs) inert_ = false;
}

void Reader::brackets() {
  const std::size_t first = at_;
  const int from = line();
  const std::size_t end = symbol(1) == '(' ? Scan(source_->text).brackets(at_, '(', ')') : 0;
  if (end >= first + 4 && end <= source_->text.size() && source_->text[end - 2].symbol == ')') {
    at_ = end;
    inert_ = false;
    if (!live()) return;
    const auto value = number(slice(source_->text, first + 2, end - 2));
    status_ = value ? truth_of(*value != 0) : Truth::unknown;
    return;
  }
  ++at_;
  if (live())
    apart([&] { list(); });
  else
    list();
  skip_lines();
  if (!broken_ && !take_symbols(")"))
    fail(from, fmt::format("'(' of line {} is not closed", from % lines_of_a_file), "");
}

// Reads [[ ... ]] as words; ( ) ! && || < > are words of their own.
void Reader::condition() {
  const int from = line();
  take("[[");
  std::vector<Letters> words;
  bool pattern = false;
  for (skip_lines(); !broken_ && !take("]]"); skip_lines()) {
    if (at_ >= source_->text.size())
      return fail(from, fmt::format("'[[' of line {} has no ']]'", from % lines_of_a_file), "");
    const std::size_t first = at_;
    Letters word;
    if (pattern) {  // brackets and | belong to the expression
      Scan scan(source_->text);
      while (at_ < source_->text.size() && !is_blank(symbol()) && symbol() != '\n') at_ = scan.piece(at_);
      word = slice(source_->text, first, at_);
    } else if (take_symbols("&&") || take_symbols("||") ||
               (std::string_view("()<>;&|").find(symbol()) != std::string_view::npos &&
                take_symbols({&source_->text[at_].symbol, 1}))) {
      word = slice(source_->text, first, at_);
    } else {
      word = raw_word();
    }
    pattern = text_of(word) == "=~";
    if (live()) words.push_back(expand_one(word));
  }
  redirections();
  if (live()) status_ = test(words, true);
}

void Reader::function(const std::string& name) {
  skip_blanks();
  if (take_symbols("(")) {
    skip_blanks();
    take_symbols(")");
  }
  skip_lines();
  if (live()) {
    state_.functions[name] = {source_, at_};
    status_ = Truth::yes;
  }
  skip_if(true, [&] { command(); });
  inert_ = false;
}

void Reader::simple() {
  const int from = line();
  std::vector<Letters> words;
  for (skip_blanks(); !broken_ && at_ < source_->text.size(); skip_blanks()) {
    if (redirection()) continue;
    if (symbol() == '(') {
      const std::size_t open = at_++;
      skip_blanks();
      if (words.size() == 1 && symbol() == ')') {
        at_ = open;
        return function(text_of(words[0]));
      }
      return fail(from, "'(' is no part of a command", "");
    }
    if (ends_command(symbol())) break;
    words.push_back(raw_word());
  }
  if (broken_) return;
  if (live()) {
    auto* const output = std::exchange(output_, silent_ ? nullptr : output_);
    run_simple(words, from);
    output_ = output;
  } else if (!words.empty()) {
    inert_ = inert_ && std::ranges::find(harmless, text_of(words[0])) != harmless.end() &&
             std::ranges::none_of(words, [](const Letters& word) {  // ${NAME:=VALUE} and $(( )) may set variables
               const std::string text = text_of(word);
               return text.find('$') != std::string::npos && text.find_first_of("=(") != std::string::npos;
             });
  }
}

}  // namespace plumbline::model::megatron
