// Commands that change variables, those that decide what runs next, and programs, which are recorded.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/reader.h"

namespace plumbline::model::megatron {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> declarations = {"export", "local", "readonly", "declare", "typeset"};
constexpr std::array<std::string_view, 4> shells = {"bash", "sh", "zsh", "dash"};
constexpr std::array<std::string_view, 4> wrappers = {"exec", "command", "builtin", "nohup"};
constexpr std::array<std::string_view, 3> not_read = {"shopt", "alias", "enable"};

// Returns where the name of an assignment and its key end: NAME, NAME[KEY]; 0 for other words.
std::pair<std::size_t, std::size_t> assignment(const Letters& word) {
  if (word.empty() || !begins_name(word[0].symbol)) return {0, 0};
  std::size_t name = 0;
  while (name < word.size() && in_name(word[name].symbol)) ++name;
  std::size_t end = name;
  if (end < word.size() && word[end].symbol == '[') end = Scan(word).brackets(end, '[', ']');
  const std::size_t sign = end + (end < word.size() && word[end].symbol == '+' ? 1 : 0);
  return sign < word.size() && word[sign].symbol == '=' ? std::pair(name, end) : std::pair<std::size_t, std::size_t>();
}
Letters unquoted(Letters letters) {
  for (Letter& letter : letters) letter.quoted = false;
  return letters;
}

bool is_assignment(const Letters& word) { return assignment(word).first > 0; }

}  // namespace

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

std::optional<Fields> Reader::element(const std::string& name, const Letters& key) {
  const auto found = state_.variables.find(name);
  if (found == state_.variables.end()) return std::nullopt;
  const auto place = number(key);
  const Fields& fields = found->second;
  if (!place || !are_known(fields)) return Fields{open_value(name, 0)};
  const std::int64_t index = *place < 0 ? std::ssize(fields) + *place : *place;
  return index < 0 || index >= std::ssize(fields) ? Fields() : Fields{fields[static_cast<std::size_t>(index)]};
}

void Reader::assign(const std::string& name, Fields value, bool appended) {
  if (inputs_.definitions.contains(name) && !appended) return;  // what comes from outside holds
  const int at = line();
  if (name == "IFS") return refuse(at, "an IFS of the script's own");
  if (readonly_.contains(name)) return refuse(at, fmt::format("a new value of '{}', which is readonly,", name));
  for (Letters& field : value) field = unquoted(std::move(field));
  state_.variables[name] = repeated_ ? Fields{open_value(name, at)} : std::move(value);
}

void Reader::forget(const std::string& name) {
  const bool outer = std::exchange(repeated_, true);
  assign(name, {});
  repeated_ = outer;
}

void Reader::take_default(const std::string& name, const Letters& value, int line) {
  // An empty default of a variable that the script sets elsewhere is no choice.
  if (value.empty() && source_->assigns(name)) return;
  const std::string text = fmt::format("{}={}", name, text_of(value));
  if (std::ranges::find(out_.defaults, text, &Word::text) == out_.defaults.end()) out_.defaults.push_back({text, line});
}

bool Reader::charge(std::size_t letters) {
  letters_left_ -= static_cast<std::int64_t>(letters);
  if (letters_left_ < 0) fail(line(), "its variables grow without end", "");
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
  const auto before = stays || !any ? decltype(state_.variables)() : state_.variables;
  const bool reads = !fields.empty() && text_of(fields[0]) == "read";  // what an IFS before it separates is not known
  if (!reads) std::for_each(words.begin(), plain, [this](const Letters& word) { assign_word(word); });
  if (declares) return declare({plain, words.end()}, line);
  if (broken_ || fields.empty()) return;
  status_ = fields.size() == 1 && text_of(fields[0]) == "return" ? last : Truth::yes;
  run_words(fields, line);
  std::for_each(words.begin(), plain,
                [&](const Letters& word) { restore(text_of(slice(word, 0, assignment(word).first)), before); });
}

void Reader::restore(const std::string& name, const std::map<std::string, Fields, std::less<>>& before) {
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
  const bool append = word[end].symbol == '+';
  const Letters rest = slice(word, end + (append ? 2 : 1), word.size());
  const bool is_list = !rest.empty() && rest[0].symbol == '(';
  if (end > name_end) return forget(name);
  Fields value = is_list ? list_of(rest) : Fields{expand_one(rest)};
  if (append) {
    if (!state_.variables.contains(name)) take_default(name, {}, word[0].line);
    Fields longer = state_.variables[name];
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
    if (token.kind != TokenKind::word && token.raw != "\n")
      refuse(token.text.front().line, "a list with anything else than words");
    else if (key < token.raw.size() && token.raw[key] == '=')  // at a place of its own
      return {open_value("(" + token.raw + " ...)", token.text.front().line)};
    else if (token.raw != "\n")
      for (Letters& field : expand(token.text)) fields.push_back(std::move(field));
  }
  return fields;
}

void Reader::declare(const std::vector<Letters>& words, int line) {
  const std::string kind = text_of(words[0]);
  bool is_local = kind == "local" || ((kind == "declare" || kind == "typeset") && !state_.locals.empty());
  bool fixed = kind == "readonly", keyed = false;
  for (std::size_t i = 1; i < words.size() && !broken_; ++i) {
    const bool assigns = is_assignment(words[i]);
    for (const Letters& field : assigns ? Fields{words[i]} : expand(words[i])) {
      const std::string text = text_of(field);
      const std::string name =
          assigns ? text_of(slice(field, 0, assignment(field).first)) : text.substr(0, text.find('='));
      if (!assigns && text.starts_with('-')) {
        if (text.find_first_of("nilu") != std::string::npos) return refuse(line, fmt::format("'{} {}'", kind, text));
        keyed = keyed || text.find('A') != std::string::npos;
        fixed = fixed || text.find('r') != std::string::npos;
        is_local = is_local && text.find('g') == std::string::npos;
        continue;
      }
      if (!assigns && !is_known(slice(field, 0, name.size())))
        return refuse(line, fmt::format("'{}' of a name that is not known", kind));
      if (is_local && !state_.locals.empty()) state_.locals.back().insert(name);
      if (keyed)
        forget(name);
      else if (assigns)
        assign_word(field);
      else if (name.size() < text.size())
        assign(name, {slice(field, name.size() + 1, field.size())});
      else if (is_local)
        assign(name, {});
      if (fixed) readonly_.insert(name);
    }
  }
  status_ = Truth::yes;
}

void Reader::run_words(const Fields& fields, int line) {
  const std::string name = text_of(fields[0]);
  const auto command = std::find_if_not(fields.begin(), fields.end() - 1,
                                        [](const Letters& field) { return is_one_of(wrappers, text_of(field)); });
  if (command != fields.begin()) {
    run_words({command, fields.end()}, line);
    const bool replaces =
        std::any_of(fields.begin(), command, [](const Letters& field) { return text_of(field) == "exec"; });
    left_ = left_ || replaces;
    if (replaces && flow_ == Flow::none && !repeated_) flow_ = Flow::end;
    return;
  }
  if (const auto found = state_.functions.find(name); found != state_.functions.end())
    return run_function(found->second, fields);
  if (is_one_of(not_read, name) || (name == "trap" && text_of(joined(fields)).find("DEBUG") != std::string::npos))
    return refuse(line, fmt::format("'{}'", name));
  if (!run_variables(name, fields, line) && !run_inputs(name, fields, line) && !run_control(name, fields, line) &&
      !run_output(name, fields))
    record(fields, line);
}

void Reader::run_function(const std::pair<Source*, std::size_t>& function, const Fields& fields) {
  const State before = state_;
  state_.parameters.assign(fields.begin() + 1, fields.end());
  state_.locals.emplace_back();
  Source* const source = std::exchange(source_, function.first);
  const std::size_t at = std::exchange(at_, function.second);
  command();
  source_ = source;
  at_ = at;
  for (const std::string& name : state_.locals.back()) restore(name, before.variables);
  state_.locals = before.locals;
  state_.parameters = before.parameters;
  if (flow_ == Flow::give_back) flow_ = Flow::none;
}

// Commands that change variables; returns whether the command is one.
bool Reader::run_variables(const std::string& name, const Fields& fields, int line) {
  if (name == "unset") {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      const std::string word = text_of(fields[i]);
      if (word.starts_with('-')) continue;
      if (word.find('[') != std::string::npos || !is_known(fields[i])) refuse(line, fmt::format("'unset {}'", word));
      if (!broken_) assign(word, {});
      state_.functions.erase(word);
    }
  } else if (name == "shift") {
    const auto count = fields.size() > 1 ? integer(text_of(fields[1])) : std::optional<std::int64_t>(1);
    if (!state_.parameters.empty() && (repeated_ || !count || !are_known(state_.parameters)))
      refuse(line, "'shift' by a number, or of parameters, that are not known");
    status_ = truth_of(count && *count >= 0 && *count <= std::ssize(state_.parameters));
    if (status_ == Truth::yes) state_.parameters.erase(state_.parameters.begin(), state_.parameters.begin() + *count);
  } else if (name == "set") {
    const auto end = std::ranges::find(fields, "--", [](const Letters& f) { return text_of(f); });
    const bool plain = fields.size() > 1 && text_of(fields[1]).find_first_of("-+") != 0;
    if (repeated_ && (plain || end != fields.end()))
      refuse(line, "'set' behind an open condition or in a loop that runs any number of times");
    if (plain || end != fields.end()) state_.parameters.assign(plain ? fields.begin() + 1 : end + 1, fields.end());
  } else {
    return false;
  }
  return true;
}

// Commands that set variables to what they read or compute, which is not known; returns whether the command is one.
bool Reader::run_inputs(const std::string& name, const Fields& fields, int line) {
  constexpr std::array<std::string_view, 5> inputs = {"read", "mapfile", "readarray", "getopts", "let"};
  const bool prints = name == "printf" && fields.size() > 2 && text_of(fields[1]).starts_with("-v");
  if (!prints && !is_one_of(inputs, name)) return false;
  for (std::size_t i = 1; i < (prints ? 3 : fields.size()); ++i) {
    const std::string word = text_of(fields[i]), stem = word.substr(0, word.find('['));
    const std::size_t list = word.find('a');  // of read -a NAME
    const bool glued = prints ? i == 1 && word.size() > 2 : list != word.npos && list + 1 < word.size();
    if (!is_known(fields[i]) || (word.starts_with('-') && glued))
      refuse(line, fmt::format("'{} {}'", name, word));
    else if (name == "let")
      number(fields[i]);
    else if (!stem.empty() && begins_name(stem[0]) && std::ranges::all_of(stem, in_name))
      forget(stem);
  }
  for (const char* other : {"REPLY", "MAPFILE", "OPTARG", "OPTIND"}) forget(other);
  // A script that is read without parameters has no options.
  const bool ends = name == "getopts" && fields.size() == 3 && state_.parameters.empty();
  status_ = ends ? Truth::no : Truth::unknown;
  return true;
}

// Commands that decide what runs next; returns whether the command is one.
bool Reader::run_control(const std::string& name, const Fields& fields, int line) {
  const bool leaves = name == "exit" || name == "return" || name == "break" || name == "continue";
  if (leaves && repeated_) {
    const std::int64_t levels = fields.size() > 1 ? integer(text_of(fields[1])).value_or(1) : 1;
    left_ = left_ || name == "exit";
    skips_ = skips_ || (name == "return" ? state_.locals.size() <= open_functions_
                                         : name != "exit" && loops_ - levels < open_loops_);
    status_ = Truth::unknown;
  } else if (name == "[" || name == "test") {
    status_ = test({fields.begin() + 1, fields.end() - (name == "[" && fields.size() > 1 ? 1 : 0)}, false);
  } else if (name == "exit" || name == "return") {
    flow_ = name == "exit" ? Flow::end : Flow::give_back;
    if ((name == "exit" || state_.locals.empty()) && out_.exit_line == 0) out_.exit_line = line;
    if (fields.size() > 1) status_ = is_known(fields[1]) ? truth_of(text_of(fields[1]) == "0") : Truth::unknown;
  } else if (name == "break" || name == "continue") {
    flow_ = name == "break" ? Flow::leave : Flow::next;
    levels_ = fields.size() > 1 ? static_cast<int>(integer(text_of(fields[1])).value_or(1) % 100) : 1;
  } else if (name == "eval") {
    const Letters text = joined(fields, 1);
    if (repeated_ && !text.empty() && text.front().kept) refuse(line, fmt::format("'eval {}'", text_of(text)));
    run_text(sources_.emplace_back(text));
  } else if (name == "source" || name == ".") {
    run_source(fields, line);
  } else if (name == "true" || name == ":") {
    status_ = Truth::yes;
  } else if (name == "false") {
    status_ = Truth::no;
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

void Reader::run_source(const Fields& fields, int line) {
  const std::string path = fields.size() > 1 ? text_of(fields[1]) : "";
  const FoundFile found = fields.size() > 1 && is_known(fields[1]) ? find(path) : FoundFile();
  if (found.kind == FileKind::none || found.kind == FileKind::folder)
    return fail(line, fmt::format("'{}' is sourced, and is no file next to the script", path),
                "put it there, or let --execute run the script");
  status_ = Truth::unknown;
  if (found.kind == FileKind::unknown)
    return out_.notes.push_back({fmt::format("'{}' is not read: nothing that it sets is known", path), line});
  const fs::path whole = (fs::path(inputs_.folder) / state_.folder.value_or("") / path).lexically_normal();
  const std::string name = whole.lexically_relative(inputs_.folder).generic_string();
  auto file = std::ranges::find(files_, name);
  if (file == files_.end()) file = files_.insert(files_.end(), name);
  if (files_.size() > 1000 || std::ranges::count(found.text, '\n') >= lines_of_a_file)
    return refuse(line, fmt::format("'{}', a file of over a million lines or behind a thousand others,", path));
  const int first_line = static_cast<int>(file - files_.begin()) * lines_of_a_file + 1;
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
    words.push_back({text_of(fields[i]), fields[i].empty() ? 0 : fields[i].front().line, !is_known(fields[i])});
  }
  if (document_ && (shell || is_one_of(shells, words.back().text) || words[0].text == "sbatch"))
    return refuse(line, fmt::format("a here-document with commands for '{}'", words[0].text));
  if (output_ != nullptr) *output_ = std::nullopt;
  status_ = Truth::unknown;
  const auto is_program = [](const Word& word) { return word.text.ends_with(".py"); };
  if (inputs_.trains ? inputs_.trains(words) : std::ranges::any_of(words, is_program)) {
    status_ = Truth::yes;
    if (repeated_) refuse(line, "a training behind an open condition or in a loop that runs any number of times");
    if (!out_.trains) keep_variables();
    out_.trains = true;
  }
  out_.commands.push_back(std::move(words));
}

// Runs commands that print what follows from their words; returns whether the command is one.
bool Reader::run_output(const std::string& name, const Fields& fields) {
  const bool known = are_known(fields);
  const std::string word = fields.size() > 1 ? text_of(fields[1]) : "";
  if (name == "cd" || name == "pushd" || name == "popd") {
    const bool relative = !word.starts_with('/');
    left_ = true;
    const bool from_known = state_.folder && !state_.folder->empty() && !word.empty() && word != "-";
    if (!known || repeated_ || (relative && !from_known))
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
  } else if (known && name == "dirname" && fields.size() == 2) {
    const std::string parent = fs::path(word).parent_path().string();
    text = letters_of(parent.empty() ? "." : parent);
  } else {
    return false;
  }
  if (output_ == nullptr) return true;
  if (!text || !*output_ || !charge(text->size())) {
    output_->reset();
    return true;
  }
  (*output_)->insert((*output_)->end(), text->begin(), text->end());
  return true;
}

}  // namespace plumbline::model::megatron
