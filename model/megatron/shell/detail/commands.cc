// Commands that change variables, those that decide what runs next, and programs, which are recorded.
#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <tuple>

#include "model/megatron/shell/detail/reader.h"

namespace plumbline::model::megatron {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view declarations[] = {"export", "local", "declare", "typeset", "readonly"};
constexpr std::string_view shells[] = {"bash", "sh", "zsh", "dash"};
constexpr std::string_view not_read[] = {"shopt", "alias", "enable", "let", "mapfile", "readarray", "read", "getopts"};

// Returns where the name of an assignment and its key end: NAME, NAME[KEY]; 0 for other words.
std::pair<std::size_t, std::size_t> assignment(const Letters& word) {
  if (word.empty() || !begins_name(word[0].symbol)) return {0, 0};
  std::size_t name = 0;
  while (name < word.size() && in_name(word[name].symbol)) ++name;
  std::size_t end = name;
  if (end < word.size() && word[end].symbol == '[') end = Scan(word).brackets(end, '[', ']');
  const std::size_t equals = end + (end < word.size() && word[end].symbol == '+' ? 1 : 0);
  return equals < word.size() && word[equals].symbol == '=' ? std::pair(name, end)
                                                            : std::pair<std::size_t, std::size_t>();
}
bool is_assignment(const Letters& word) { return assignment(word).first > 0; }

Letters unquoted(Letters letters) {
  for (Letter& letter : letters) letter.quoted = false;
  return letters;
}

// Marks what each field of a value has more than that of the one before. A text that differs only in what is marked
// already is added to it, as the other of two. Returns whether nothing else differs.
bool mark_added(const Fields& before, Fields& value, int condition) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    Letters old = i < before.size() ? before[i] : Letters();
    const auto same = [](const Letter& a, const Letter& b) { return a.symbol == b.symbol && a.kept == b.kept; };
    const auto known = std::ranges::find_if(old, [](const Letter& letter) { return letter.condition > 0; });
    auto [end, added] = std::ranges::mismatch(old, value[i], same);
    if (end < known || (end != old.end() && value.size() > 1) || (i >= before.size() && value[i].empty())) return false;
    if (end != old.end()) {
      added = value[i].begin() + (known - old.begin());
      old.push_back({' ', old.back().line});
    }
    const auto first = static_cast<std::ptrdiff_t>(old.size());
    old.insert(old.end(), added, value[i].end());
    for (auto letter = old.begin() + first; letter != old.end(); ++letter)
      if (letter->condition == 0) letter->condition = condition;
    value[i] = std::move(old);
  }
  return value.size() >= before.size();
}

}  // namespace

void Reader::keep_variables() {
  for (const auto& [name, value] : state_.variables) {
    const bool known = value.empty() || condition_of(value.front()) == 0;
    out_.variables[name] = value.empty() ? "" : known ? text_of(value.front()) : "$" + name;
  }
  out_.unread = state_.unread;
}

std::optional<Fields> Reader::fields_of(const std::string& name) const {
  if (name == "@") return state_.parameters;
  const auto index = name == "#" ? std::optional<std::int64_t>(0) : integer(name);
  if (index && (*index > 0 || name == "#")) {
    const auto count = std::ssize(state_.parameters);
    // Behind one that is not known, which may be any number of them, none is.
    const auto open = std::ranges::find_if_not(state_.parameters, is_known);
    if (open != state_.parameters.end() && (*index == 0 || *index > open - state_.parameters.begin()))
      return Fields{*open};
    if (*index == 0) return Fields{letters_of(std::to_string(count))};
    if (*index <= count) return Fields{state_.parameters[static_cast<std::size_t>(*index - 1)]};
    // Where the script is read without parameters they are not known, though their number is 0.
    return state_.locals.empty() && !inputs_.definitions.contains("1") ? std::nullopt : std::optional(Fields());
  }
  const auto found = state_.variables.find(name);
  return found == state_.variables.end() ? std::nullopt : std::optional(found->second);
}

bool Reader::is_own(const std::string& name, bool list) const {
  if (name.empty() || !begins_name(name[0]) || may_be_set(name) || state_.nounset) return false;
  return list || std::ranges::none_of(name, [](unsigned char letter) { return std::isupper(letter) != 0; });
}

std::optional<Fields> Reader::element(const std::string& name, const Letters& key) {
  const auto found = state_.variables.find(name);
  if (found == state_.variables.end()) return std::nullopt;
  const auto place = number(key);
  const Fields& fields = found->second;
  if (!place || !are_known(fields)) return Fields{open_value(name, 0, condition_of(joined(fields)))};
  const std::int64_t index = *place < 0 ? std::ssize(fields) + *place : *place;
  return index < 0 || index >= std::ssize(fields) ? Fields() : Fields{fields[static_cast<std::size_t>(index)]};
}

// Of what may not run, only what it adds to a value is known, and that it may not be there.
void Reader::assign(const std::string& name, Fields value, bool appended) {
  if (inputs_.definitions.contains(name) && !appended) return;  // what comes from outside holds
  const int at = line();
  if (state_.constants.contains(name)) return refuse(at, fmt::format("a second value of the readonly '{}'", name));
  // In $( ) it joins "${LIST[*]}".
  if (name == "IFS" && (output_ == nullptr || open_ > 0 || !are_known(value)))
    return refuse(at, "an IFS of the script's own");
  for (Letters& field : value) field = unquoted(std::move(field));
  const auto before = state_.variables.find(name);
  const bool is_new = before == state_.variables.end();
  const bool adds = open_ > 0 && !may_be_set(name) && mark_added(is_new ? Fields() : before->second, value, open_);
  if (adds && is_new) take_default(name, {}, at);
  state_.variables[name] = open_ == 0 || adds ? std::move(value) : Fields{open_value(name, at, open_)};
}

// Makes the value of a variable one that is not known.
void Reader::forget(const std::string& name) { assign(name, {open_value(name, line(), open_)}); }

void Reader::take_default(const std::string& name, const Letters& value, int line) {
  // An empty default of a variable that the script sets elsewhere is no choice.
  if (value.empty() && (!empty_.insert(name).second || !charge(source_->text.size() / 100))) return;
  const std::string script = value.empty() ? text_of(source_->text) : "";
  const std::size_t set = script.find(name + "=");
  if (set != std::string::npos && (set == 0 || !in_name(script[set - 1]))) return;
  const std::string text = fmt::format("{}={}", name, text_of(value));
  if (std::ranges::find(out_.defaults, text, &Word::text) == out_.defaults.end()) out_.defaults.push_back({text, line});
}

bool Reader::charge(std::size_t letters) {
  letters_left_ -= static_cast<std::int64_t>(letters);
  if (letters_left_ < 0) fail(line(), "its variables grow without end", "", certain_);
  return letters_left_ >= 0;
}

std::optional<Letters> Reader::output_of(const Letters& command) {
  Source& source = sources_.emplace_back(command);
  std::optional<Letters> output = Letters();
  auto* outer = std::exchange(output_, &output);
  apart([&] { run_text(source); });
  output_ = outer;
  return output;
}

// Runs commands whose variables nobody sees afterwards.
void Reader::apart(const std::function<void()>& commands) {
  State before = state_;
  commands();
  state_ = std::move(before);
  flow_ = Flow::none;
}

void Reader::run_text(Source& source) {
  Source* const outer = std::exchange(source_, &source);
  const std::size_t outer_at = std::exchange(at_, 0);
  for (const Token& token : source.tokens)
    if (const int decided = condition_of(token.text); token.kind != TokenKind::word && decided > 0)
      refuse(token.text.front().line, "a command that a condition decides", decided);
  list();
  if (!broken_ && at_ < source.tokens.size()) damaged(line(), fmt::format("'{}' closes nothing", token().raw));
  source_ = outer;
  at_ = outer_at;
}

void Reader::run_simple(const std::vector<Letters>& words, int line) {
  const auto plain = std::ranges::find_if_not(words, is_assignment);
  const bool declares = plain != words.end() && is_one_of(declarations, text_of(*plain));
  const Truth last = std::exchange(status_, Truth::yes);
  Fields fields;
  if (!declares)
    for (auto word = plain; word != words.end(); ++word)
      for (Letters& field : expand(*word)) fields.push_back(unquoted(std::move(field)));
  // NAME=VALUE before a command holds for that command alone, which sees it; before none it stays.
  const bool stays = plain == words.end() || declares, any = plain != words.begin();
  const Variables before = stays || !any ? Variables() : state_.variables;
  std::for_each(words.begin(), plain, [this](const Letters& word) { assign_word(word); });
  if (declares) return declare({plain, words.end()}, line);
  if (broken_ || fields.empty()) return;
  status_ = fields.size() == 1 && text_of(fields[0]) == "return" ? last : Truth::yes;
  run_words(fields, line);
  std::for_each(words.begin(), plain,
                [&](const Letters& word) { restore(text_of(slice(word, 0, assignment(word).first)), before); });
}

void Reader::restore(const std::string& name, const Variables& before) {
  const auto old = before.find(name);
  if (old != before.end())
    state_.variables[name] = old->second;
  else
    state_.variables.erase(name);
}

// Runs NAME=VALUE, NAME+=VALUE and NAME=( ... ).
void Reader::assign_word(const Letters& word) {
  const auto [name_end, end] = assignment(word);
  const std::string name = text_of(slice(word, 0, name_end));
  if (const Letters target = slice(word, 0, end + 1); !is_known(target))
    return refuse(word[0].line, "a command that a condition decides", condition_of(target));
  const bool append = word[end].symbol == '+';
  const Letters rest = slice(word, end + (append ? 2 : 1), word.size());
  const bool is_list = !rest.empty() && rest[0].symbol == '(';
  if (end > name_end) {
    number(slice(word, name_end + 1, end - 1));  // an index may set a variable, which is refused
    return forget(name);
  }
  Fields value = is_list ? list_of(rest) : Fields{expand_one(rest)};
  if (append) {
    const bool open = may_be_set(name);
    if (!open && !state_.variables.contains(name)) take_default(name, {}, word[0].line);
    Fields longer = open ? Fields{open_value(name, word[0].line, 0)} : state_.variables[name];
    if (is_list || longer.empty())
      longer.insert(longer.end(), value.begin(), value.end());
    else
      longer[0].insert(longer[0].end(), value[0].begin(), value[0].end());
    value = std::move(longer);
  }
  if (charge(value.size() + (value.empty() ? 0 : value[0].size()))) assign(name, std::move(value), append);
}

// Returns the fields of ( word word ... ), over several lines, with comments between.
Fields Reader::list_of(const Letters& list) {
  Fields fields;
  for (const Token& token : Source(slice(list, 1, list.size() - 1)).tokens) {
    const std::size_t key = token.raw.starts_with('[') ? Scan(token.text).brackets(0, '[', ']') : token.raw.size();
    if ((token.kind != TokenKind::word && token.raw != "\n") || (key < token.raw.size() && token.raw[key] == '='))
      refuse(token.text.front().line, "a list with anything else than words");
    else if (token.raw != "\n")
      for (Letters& field : expand(token.text)) fields.push_back(std::move(field));
  }
  return fields;
}

void Reader::declare(const std::vector<Letters>& words, int line) {
  const std::string kind = text_of(words[0]);
  bool is_local = kind != "export" && kind != "readonly" && !state_.locals.empty();
  bool is_constant = kind == "readonly";
  for (auto word = words.begin() + 1; word != words.end() && !broken_; ++word) {
    const bool assigns = is_assignment(*word);
    for (const Letters& field : assigns ? Fields{*word} : expand(*word)) {
      const std::string text = text_of(field), name = text.substr(0, text.find_first_of("+=["));
      if (text.starts_with('-')) {
        is_local = is_local && text.find('g') == std::string::npos;
        is_constant = is_constant || text.find('r') != std::string::npos;
      }
      if (text.starts_with('-') ? text.find_first_not_of("-axgpr") != std::string::npos
                                : !is_known(slice(field, 0, name.size() + 1)))
        return refuse(line, fmt::format("'{} {}'", kind, text));
      if (text.starts_with('-')) continue;
      if (is_local) state_.locals.back().insert(name);
      if (assigns)
        assign_word(field);
      else if (is_local || name.size() < text.size())
        assign(name, name.size() < text.size() ? Fields{slice(field, name.size() + 1, field.size())} : Fields());
      if (is_constant) state_.constants.insert(name);
    }
  }
  status_ = Truth::yes;
}

void Reader::run_words(const Fields& fields, int line) {
  const std::string name = text_of(fields[0]);
  if (!is_known(fields[0])) return record(fields, line);
  if (fields.size() > 1 && (name == "exec" || name == "nohup" || name == "command")) {
    run_words({fields.begin() + 1, fields.end()}, line);
    if (name == "exec" && open_ == 0 && flow_ == Flow::none) flow_ = Flow::end;
    return;
  }
  if (const auto found = state_.functions.find(name); found != state_.functions.end())
    return run_function(found->second, fields);
  const std::string next = fields.size() > 1 ? text_of(fields[1]) : "";
  const bool traps = name == "trap" && text_of(joined(fields)).find("DEBUG") != std::string::npos;
  if (is_one_of(not_read, name) || traps) return refuse(line, fmt::format("'{}'", name));
  if (name == "printf" && next.starts_with("-v")) return print_to(fields, line);
  if (!run_builtin(name, fields, line) && !run_output(name, fields)) record(fields, line);
}

// Runs printf -v NAME FORMAT WORD with one %s in the format.
void Reader::print_to(const Fields& fields, int line) {
  const std::string format = fields.size() == 5 ? text_of(fields[3]) : "";
  const std::size_t place = format.find("%s");
  const bool plain = place != std::string::npos && format.find_first_of("%\\") == place &&
                     format.find_first_of("%\\", place + 1) == std::string::npos;
  if (!plain || text_of(fields[1]) != "-v" || text_of(fields[2]).find('[') != std::string::npos ||
      !is_known(fields[2]) || !is_known(fields[3]))
    return refuse(line, "'printf'");
  Letters text = slice(fields[3], 0, place);
  text.insert(text.end(), fields[4].begin(), fields[4].end());
  const Letters rest = slice(fields[3], place + 2, fields[3].size());
  text.insert(text.end(), rest.begin(), rest.end());
  assign(text_of(fields[2]), {std::move(text)});
}

namespace {

// Returns the text without the names of programs that it ends: "pkill -9 python ; " becomes "; ".
std::string without_ended(std::string_view text) {
  std::string left;
  bool ends = false;
  for (const std::string_view word : split_at(text, ' ')) {
    const std::string_view name = word.substr(std::min(word.size(), word.find_first_not_of("\"'")));
    const bool of_it = ends && !word.empty();
    ends = name == "pkill" || name == "killall" || (ends && (word.empty() || name.starts_with('-')));
    if (!of_it && !ends) left += std::string(word) + " ";
  }
  return left;
}

}  // namespace

// Whether commands that may run any number of times leave everything as it is: they set no variable, end nothing and
// start no training.
bool Reader::are_idle(std::size_t first, std::size_t end) const {
  constexpr std::string_view words[] = {"export", "local",  "declare",  "typeset",  "unset",   "shift",
                                        "exit",   "return", "source",   ".",        "eval",    "exec",
                                        "cd",     "set",    "read",     "readonly", "mapfile", "printf",
                                        "trap",   "let",    "function", "pushd",    "popd",    "()"};
  constexpr std::string_view parts[] = {"++",       "+=",        "-=",         ".py",      ".sh",   "python",
                                        "torchrun", "deepspeed", "accelerate", "megatron", "swift", "sbatch"};
  const auto tokens = std::span(source_->tokens).subspan(first, end - first);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& raw = tokens[i].raw;
    text += raw + " ";
    // "break 2" leaves a loop around this one.
    const bool leaves = (raw == "break" || raw == "continue") && i + 1 < tokens.size() &&
                        tokens[i + 1].kind == TokenKind::word && tokens[i + 1].raw != "1";
    if (leaves || tokens[i].kind == TokenKind::arithmetic || is_assignment(tokens[i].text) || is_one_of(words, raw) ||
        is_one_of(shells, raw) || state_.functions.contains(raw) || sets_within(raw) || sets_within(tokens[i].body))
      return false;
  }
  const std::string left = without_ended(text);
  return std::ranges::none_of(parts, [&left](std::string_view one) { return left.find(one) != std::string::npos; });
}

void Reader::run_function(const std::pair<Source*, std::size_t>& function, const Fields& fields) {
  const State before = state_;
  state_.parameters.assign(fields.begin() + 1, fields.end());
  state_.locals.emplace_back();
  Source* const source = std::exchange(source_, function.first);
  const std::size_t at = std::exchange(at_, function.second);
  const auto loops = std::pair(std::exchange(loops_, 0), std::exchange(open_loops_, 0));
  command();
  std::tie(loops_, open_loops_) = loops;  // "break" does not leave loops around the call
  source_ = source;
  at_ = at;
  for (const std::string& name : state_.locals.back()) {
    restore(name, before.variables);
    if (!before.constants.contains(name)) state_.constants.erase(name);
  }
  state_.locals = before.locals;
  state_.parameters = before.parameters;
  if (flow_ == Flow::give_back) flow_ = Flow::none;
}

// Commands that change variables or decide what runs next; returns whether the command is one.
bool Reader::run_builtin(const std::string& name, const Fields& fields, int line) {
  const auto here = [&] { refuse(line, fmt::format("'{}' where it is not known", text_of(joined(fields)))); };
  if (name == "unset") {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      const std::string word = text_of(fields[i]);
      if (word.starts_with('-')) continue;
      if (word.find('[') != std::string::npos || !is_known(fields[i])) here();
      if (!broken_) assign(word, {});
      state_.functions.erase(word);
    }
  } else if (name == "shift") {
    const auto count = fields.size() > 1 ? integer(text_of(fields[1])) : std::optional<std::int64_t>(1);
    if (!state_.parameters.empty() && (open_ > 0 || !count || !are_known(state_.parameters))) here();
    status_ = truth_of(count && *count >= 0 && *count <= std::ssize(state_.parameters));
    if (status_ == Truth::yes) state_.parameters.erase(state_.parameters.begin(), state_.parameters.begin() + *count);
  } else if (name == "set") {
    const auto end = std::ranges::find(fields, "--", [](const Letters& f) { return text_of(f); });
    const std::string options = fields.size() > 1 ? text_of(fields[1]) : "";
    const bool plain = fields.size() > 1 && options.find_first_of("-+") != 0;
    if (options.starts_with('-') && options.find('u') != std::string::npos) state_.nounset = true;
    if (open_ > 0 && (plain || end != fields.end())) here();
    if (plain || end != fields.end()) state_.parameters.assign(plain ? fields.begin() + 1 : end + 1, fields.end());
  } else if (name == "[" || name == "test") {
    status_ = test({fields.begin() + 1, fields.end() - (name == "[" && fields.size() > 1 ? 1 : 0)}, false);
  } else if (name == "exit" || name == "return") {
    if (name == "return" && open_ > 0 && state_.locals.size() <= open_functions_)
      refuse(line, "a 'return' that a condition decides");
    flow_ = name == "exit" ? Flow::end : Flow::give_back;
    if (open_ == 0 && (name == "exit" || state_.locals.empty()) && out_.exit_line == 0) out_.exit_line = line;
    if (fields.size() > 1) status_ = is_known(fields[1]) ? truth_of(text_of(fields[1]) == "0") : Truth::unknown;
  } else if (name == "break" || name == "continue") {
    levels_ = fields.size() > 1 ? static_cast<int>(integer(text_of(fields[1])).value_or(1) % 100) : 1;
    if (open_ > 0 && loops_ - levels_ < open_loops_) refuse(line, fmt::format("a '{}' that a condition decides", name));
    if (loops_ > 0) flow_ = name == "break" ? Flow::leave : Flow::next;
  } else if (name == "eval") {
    const Letters text = joined(fields, 1);
    if (!text.empty() && text.front().kept) pass_over("eval " + text_of(text), line);
    run_text(sources_.emplace_back(text));
  } else if (name == "source" || name == ".") {
    run_source(fields, line);
  } else if (name == "true" || name == "false" || name == ":") {
    status_ = truth_of(name != "false");
  } else {
    return false;
  }
  return true;
}

FoundFile Reader::find(const std::string& path) const {
  const bool moved = !path.starts_with('/') && state_.folder != "";
  if (!inputs_.find_file || (moved && !state_.folder)) return {};
  return inputs_.find_file(moved ? (fs::path(*state_.folder) / path).lexically_normal().string() : path);
}

// Notes a command that is not read and may set any variable.
void Reader::pass_over(const std::string& what, int line) {
  state_.unread = {what, line};
  out_.notes.push_back({fmt::format("'{}' is not read: nothing that it sets is known", what), line});
}

void Reader::run_source(const Fields& fields, int line) {
  const std::string path = fields.size() > 1 ? text_of(fields[1]) : "";
  const FoundFile found = fields.size() > 1 && is_known(fields[1]) ? find(path) : FoundFile();
  status_ = Truth::unknown;
  if (found.kind == FileKind::unknown || (open_ > 0 && found.kind != FileKind::file)) return pass_over(path, line);
  if (found.kind != FileKind::file)
    return fail(line, fmt::format("'{}' is sourced, and is no file next to the script", path),
                "put it there, or let --execute run the script", certain_);
  const fs::path whole = (fs::path(inputs_.folder) / state_.folder.value_or("") / path).lexically_normal();
  const std::string name = whole.lexically_relative(inputs_.folder).generic_string();
  auto file = std::ranges::find(out_.files, name);
  if (file == out_.files.end()) file = out_.files.insert(out_.files.end(), name);
  if (out_.files.size() > 1000 || std::ranges::count(found.text, '\n') >= lines_of_a_file)
    return refuse(line, fmt::format("'{}', a file of over a million lines or behind a thousand others,", path));
  const int first_line = static_cast<int>(file - out_.files.begin()) * lines_of_a_file + 1;
  const Fields outer = state_.parameters;
  if (fields.size() > 2) state_.parameters.assign(fields.begin() + 2, fields.end());
  const Fields self = std::exchange(state_.variables["BASH_SOURCE"], Fields{letters_of(whole.string())});
  status_ = Truth::yes;
  run_text(sources_.emplace_back(letters_of(found.text, first_line)));
  state_.variables["BASH_SOURCE"] = self;
  if (fields.size() > 2) state_.parameters = outer;
  if (flow_ == Flow::give_back) flow_ = Flow::none;
}

// Keeps a command that a machine would run; the text behind -c is read as commands.
void Reader::record(const Fields& fields, int line) {
  Command words = prefix_;
  bool shell = false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string before = i > 0 ? words.back().text : "";
    shell = shell || is_one_of(shells, before.substr(before.rfind('/') + 1));
    if (shell && before.starts_with('-') && !before.starts_with("--") && before.ends_with('c')) {
      const Command outer = std::exchange(prefix_, std::move(words));
      apart([&] { run_text(sources_.emplace_back(fields[i])); });
      prefix_ = outer;
      return;
    }
    const bool kept = std::ranges::any_of(fields[i], &Letter::kept);
    words.push_back(
        {text_of(fields[i]), fields[i].empty() ? 0 : fields[i].front().line, kept, condition_of(fields[i])});
  }
  if (document_ && (shell || is_one_of(shells, words.back().text) || words[0].text == "sbatch"))
    return refuse(line, fmt::format("a here-document with commands for '{}'", words[0].text));
  if (output_ != nullptr) output_->reset();
  status_ = Truth::unknown;
  const auto is_program = [](const Word& word) { return word.text.ends_with(".py"); };
  if (inputs_.trains ? inputs_.trains(words) : std::ranges::any_of(words, is_program)) train();
  out_.commands.push_back(std::move(words));
}

// Takes a training that a condition decides to be started, where it is the only one.
void Reader::train() {
  status_ = Truth::yes;
  if (!out_.trains) {
    keep_variables();
    if (open_ > 0) take_to_hold(open_, open_holds_);
    training_part_ = parts_.empty() ? 0 : parts_.back();
    training_condition_ = open_;
  } else if (!certain_ && std::ranges::find(parts_, training_part_) == parts_.end()) {
    const Condition& condition = out_.conditions[static_cast<std::size_t>(training_condition_ - 1)];
    fail(condition.line, undecided(condition) + ", and which training is started", remedy(condition), false);
  }
  out_.trains = true;
  certain_ = certain_ || open_ == 0;
}

namespace {

// Returns what seq prints: LAST, FIRST LAST or FIRST STEP LAST; nothing for options, other text and long ones.
std::optional<std::string> sequence_of(const Fields& fields) {
  constexpr std::int64_t most_numbers = 4096;
  std::vector<std::int64_t> given;
  for (std::size_t i = 1; i < fields.size(); ++i) {
    const auto number = integer(text_of(fields[i]));
    if (!number || std::abs(*number) > 1'000'000'000) return std::nullopt;
    given.push_back(*number);
  }
  if (given.empty() || given.size() > 3) return std::nullopt;
  const std::int64_t first = given.size() > 1 ? given.front() : 1, step = given.size() > 2 ? given[1] : 1;
  if (step == 0 || (given.back() - first) / step >= most_numbers) return std::nullopt;
  std::string text;
  for (std::int64_t at = first; step > 0 ? at <= given.back() : at >= given.back(); at += step)
    text += std::to_string(at) + "\n";
  return text;
}

}  // namespace

// Runs commands that print what follows from their words; returns whether the command is one.
bool Reader::run_output(const std::string& name, const Fields& fields) {
  const bool known = are_known(fields);
  const bool separates = name != "echo" && name != "printf" && fields.size() > 1 && text_of(fields[1]) == "--";
  const std::size_t first = separates ? 2 : 1;
  const std::string word = fields.size() > first ? text_of(fields[first]) : "";
  if (name == "cd" || name == "pushd" || name == "popd") {
    const bool relative = !word.starts_with('/');
    const bool from_known = state_.folder && !state_.folder->empty() && !word.empty() && word != "-";
    if (!known || open_ > 0 || (relative && !from_known))
      state_.folder.reset();
    else
      state_.folder = relative ? *state_.folder + "/" + word : word;
    return true;
  }
  std::optional<Letters> text;
  if (name == "echo" || name == "printf") {
    const bool endless = word == "-n";
    text = joined(fields, endless ? 2 : 1);
    if (!endless) text->push_back({'\n', 0});
    const bool option = word.size() > 1 && word[0] == '-' && word.find_first_not_of("neE", 1) == std::string::npos;
    if (name == "printf" || (option && !endless)) text.reset();
  } else if (name == "pwd" && state_.folder && !state_.folder->empty()) {
    text = letters_of(fs::path(*state_.folder).lexically_normal().string());
  } else if (known && name == "dirname" && fields.size() == first + 1) {
    const std::string parent = fs::path(word).parent_path().string();
    text = letters_of(parent.empty() ? "." : parent);
  } else if (const auto numbers = known && name == "seq" ? sequence_of(fields) : std::nullopt) {
    text = letters_of(*numbers);
  } else {
    return false;
  }
  if (output_ == nullptr) return true;
  if (!text || !*output_ || !charge(text->size()))
    output_->reset();
  else
    (*output_)->insert((*output_)->end(), text->begin(), text->end());
  return true;
}

// Conditions of [ ], test and [[ ]].
namespace {

Truth both(Truth left, Truth right) {
  if (left == Truth::no || right == Truth::no) return Truth::no;
  return left == Truth::yes && right == Truth::yes ? Truth::yes : Truth::unknown;
}

Truth has_text(const Letters& text) {
  if (std::ranges::any_of(text, &Letter::is_known)) return Truth::yes;
  return text.empty() ? Truth::no : Truth::unknown;
}

// Compares two texts that may hold parts that are not known: unknown unless what is known before them differs.
Truth same_text(const Letters& left, const Letters& right) {
  if (is_known(left) && is_known(right)) return truth_of(text_of(left) == text_of(right));
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!left[i].is_known() || !right[i].is_known()) break;
    if (left[i].symbol != right[i].symbol) return Truth::no;
  }
  return Truth::unknown;
}

class ConditionReader {
 public:
  ConditionReader(const std::vector<Letters>& words, bool patterns, Reader& shell)
      : words_(words), patterns_(patterns), shell_(shell) {}

  Truth read() {
    const Truth truth = any();
    return at_ == words_.size() ? truth : Truth::unknown;
  }

 private:
  std::string word(std::size_t ahead) const { return at_ + ahead < words_.size() ? text_of(words_[at_ + ahead]) : ""; }
  bool take(std::string_view op) {
    const bool taken = at_ < words_.size() && word(0) == op;
    if (taken) ++at_;
    return taken;
  }
  Truth any() {
    Truth truth = all();
    while (take(patterns_ ? "||" : "-o")) truth = !both(!truth, !all());
    return truth;
  }
  Truth all() {
    Truth truth = one();
    while (take(patterns_ ? "&&" : "-a")) truth = both(truth, one());
    return truth;
  }

  Truth one() {
    if (at_ >= words_.size()) return Truth::no;  // [ ] of nothing
    if (at_ + 2 < words_.size())
      if (const auto truth = binary(words_[at_], word(1), words_[at_ + 2])) {
        at_ += 3;
        return *truth;
      }
    if (at_ + 1 < words_.size() && take("!")) return !one();
    if (take("(")) {
      const Truth truth = any();
      return take(")") ? truth : Truth::unknown;
    }
    const std::string op = word(0);
    const bool has_operand = at_ + 1 < words_.size() && word(1) != ")" && word(1) != "&&" && word(1) != "||";
    at_ += op.size() == 2 && op[0] == '-' && has_operand ? 2 : 1;
    const Letters& operand = words_[at_ - 1];
    if (op == "-v" && sets_variable(text_of(operand)))
      shell_.refuse(operand.front().line, "an index that sets a variable");
    if (!has_operand || op.size() != 2 || op[0] != '-' || op[1] == 'n') return has_text(operand);
    return op[1] == 'z' ? !has_text(operand) : file(op[1], operand);
  }

  // Returns nothing where the word in the middle is no operator of two operands.
  std::optional<Truth> binary(const Letters& left, const std::string& op, const Letters& right) {
    static constexpr std::pair<std::string_view, std::string_view> numeric[] = {
        {"-eq", "=="}, {"-ne", "!="}, {"-lt", "<"}, {"-le", "<="}, {"-gt", ">"}, {"-ge", ">="}};
    if (op == "=" || op == "==") return same(left, right);
    if (op == "!=") return !same(left, right);
    if (op == "=~") return Truth::unknown;
    const bool known = is_known(left) && is_known(right);
    if (op == "<" || op == ">")
      return known ? truth_of((text_of(left) < text_of(right)) == (op == "<") && text_of(left) != text_of(right))
                   : Truth::unknown;
    const auto* number = std::ranges::find(numeric, op, &std::pair<std::string_view, std::string_view>::first);
    if (number == std::end(numeric)) return std::nullopt;
    // [[ ]] evaluates what it compares; [ ] has an error where it is no number.
    const std::string first = text_of(left), second = text_of(right);
    if (!known || (!patterns_ && (!integer(first) || !integer(second)))) return Truth::unknown;
    const auto text = [](const std::string& value) { return value.empty() ? "0" : value; };
    const auto holds =
        shell_.number(letters_of("(" + text(first) + ")" + std::string(number->second) + "(" + text(second) + ")"));
    return holds ? truth_of(*holds != 0) : Truth::unknown;
  }

  Truth same(const Letters& left, const Letters& right) const {
    const auto is_glob = [](const Letter& letter) {
      return !letter.quoted && std::string_view("*?[").find(letter.symbol) != std::string_view::npos;
    };
    if (!patterns_ || std::ranges::none_of(right, is_glob)) return same_text(left, right);
    return is_known(left) && is_known(right) ? truth_of(matches(right, left)) : Truth::unknown;
  }

  // Only what lies in the script's own folder is looked up.
  Truth file(char op, const Letters& operand) const {
    const std::string text = text_of(operand);
    const bool looks = is_known(operand) && !text.empty() && (op == 'd' || op == 'e' || op == 'f');
    const FileKind kind = looks ? shell_.find(text).kind : FileKind::unknown;
    if (kind == FileKind::unknown || (kind == FileKind::none && !text.starts_with('/'))) return Truth::unknown;
    return truth_of(kind != FileKind::none && (op == 'e' || (op == 'd') == (kind == FileKind::folder)));
  }

  const std::vector<Letters>& words_;
  bool patterns_;
  Reader& shell_;
  std::size_t at_ = 0;
};

}  // namespace

Truth Reader::test(const std::vector<Letters>& words, bool patterns) {
  if (words.size() > 500) return Truth::unknown;  // brackets in brackets
  return ConditionReader(words, patterns, *this).read();
}

}  // namespace plumbline::model::megatron
