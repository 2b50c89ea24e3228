// The commands of a shell that change variables, and those whose output follows from their words.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/evaluator.h"
#include "model/megatron/shell/detail/patterns.h"
#include "model/megatron/shell/detail/scan.h"

namespace plumbline::model::megatron {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> declarations = {"export", "local", "readonly", "declare", "typeset"};
constexpr std::array<std::string_view, 4> wrappers = {"exec", "command", "builtin", "nohup"};

Word word_of(const Letters& field) { return {text_of(field), field.empty() ? 0 : field.front().line}; }

bool is_declaration(const Letters& word) {
  return std::ranges::find(declarations, text_of(word)) != declarations.end();
}

// Whether the word as it is written is an assignment.
bool is_assignment(const Letters& word) {
  if (word.empty() || !begins_name(word[0].symbol)) return false;
  std::size_t end = 0;
  while (end < word.size() && in_name(word[end].symbol)) ++end;
  if (end < word.size() && word[end].symbol == '[') end = Scan(word).brackets(end, '[', ']');
  if (end < word.size() && word[end].symbol == '+') ++end;
  return end < word.size() && word[end].symbol == '=';
}

Letters joined(const Fields& fields, std::size_t first) {
  Letters text;
  for (std::size_t i = first; i < fields.size(); ++i) {
    if (i > first) text.push_back({' ', fields[i].empty() ? 0 : fields[i].front().line});
    text.insert(text.end(), fields[i].begin(), fields[i].end());
  }
  return text;
}

bool is_command_option(std::string_view word) {
  return word == "-c" || word == "-lc" || word == "-xc" || word == "-ec";
}
bool has_space(const Letters& field) {
  return std::ranges::any_of(field, [](const Letter& letter) { return is_blank(letter.symbol); });
}

bool all_known(const Fields& fields) { return std::ranges::all_of(fields, is_known); }

Letters numbers_between(const Fields& fields) {
  constexpr std::int64_t most = 10'000;
  const auto first = fields.size() > 2 ? integer(text_of(fields[1])) : std::optional<std::int64_t>(1);
  const auto last = integer(text_of(fields.back()));
  const auto step = fields.size() > 3 ? integer(text_of(fields[2])) : std::optional<std::int64_t>(1);
  Letters text;
  if (!first || !last || !step || *step < 1) return text;
  std::int64_t count = 0;
  for (std::int64_t at = *first; at <= *last && ++count <= most; at += *step) {
    const Letters number = letters_of(std::to_string(at) + "\n", 0);
    text.insert(text.end(), number.begin(), number.end());
    if (at > (std::int64_t{1} << 60) || *step > (std::int64_t{1} << 60)) break;
  }
  return text;
}

std::string folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace

void Evaluator::run_command(const Node& node) {
  std::size_t first = 0;
  while (first < node.words.size() && is_assignment(node.words[first])) ++first;
  status_ = Truth::yes;
  if (first == node.words.size()) {
    for (const Letters& word : node.words) assign_word(read_word(word, true, *this));
    return;
  }
  if (is_declaration(node.words[first])) {
    for (std::size_t i = 0; i < first; ++i) assign_word(read_word(node.words[i], true, *this));
    return declare(node, first + 1, text_of(node.words[first]));
  }
  Fields fields;
  for (std::size_t i = first; i < node.words.size(); ++i) {
    for (const Letters& word : with_braces(node.words[i])) {
      const ReadWord read = read_word(word, false, *this);
      fields.insert(fields.end(), read.fields.begin(), read.fields.end());
    }
  }
  // NAME=VALUE before a command holds for that command alone.
  std::vector<std::pair<std::string, std::optional<Fields>>> hidden;
  for (std::size_t i = 0; i < first; ++i) {
    const ReadWord read = read_word(node.words[i], true, *this);
    const Fields* old = find(read.name);
    hidden.emplace_back(read.name, old == nullptr ? std::nullopt : std::optional(*old));
    assign_word(read);
  }
  if (!fields.empty()) run_words(fields, node);
  for (auto& [name, old] : hidden) {
    if (old)
      state_.variables[name] = std::move(*old);
    else
      state_.variables.erase(name);
  }
}

void Evaluator::assign_word(const ReadWord& word) {
  if (!word.assignment) return;
  Fields value = word.fields;
  const Fields* old = word.append ? find(word.name) : nullptr;
  if (old != nullptr && word.list) {
    value.insert(value.begin(), old->begin(), old->end());
  } else if (old != nullptr && !old->empty()) {
    Fields longer = *old;
    for (const Letters& field : word.fields) longer[0].insert(longer[0].end(), field.begin(), field.end());
    value = std::move(longer);
  }
  if (charge(value.empty() ? 0 : value.front().size() + value.size())) assign(word.name, std::move(value));
}

void Evaluator::hide(const std::string& name) {
  if (state_.locals.empty()) return;
  const Fields* old = find(name);
  state_.locals.back().try_emplace(name, old == nullptr ? std::nullopt : std::optional(*old));
}

void Evaluator::declare(const Node& node, std::size_t first, const std::string& kind) {
  const bool is_local = kind == "local" || ((kind == "declare" || kind == "typeset") && !state_.locals.empty());
  for (std::size_t i = first; i < node.words.size() && !stopped(); ++i) {
    if (is_assignment(node.words[i])) {
      const ReadWord read = read_word(node.words[i], true, *this);
      if (is_local) hide(read.name);
      assign_word(read);
      continue;
    }
    for (const Letters& field : read_word(node.words[i], false, *this).fields) {
      const std::string text = text_of(field);
      const std::size_t equals = text.find('=');
      if (text.starts_with('-')) continue;
      if (is_local) hide(text.substr(0, equals));
      if (equals != std::string::npos)
        assign(text.substr(0, equals), {slice(field, equals + 1, field.size())});
      else if (is_local)
        assign(text, {});
    }
  }
}

void Evaluator::run_words(const Fields& fields, const Node& node) {
  const std::string name = text_of(fields[0]);
  if (std::ranges::find(wrappers, name) != wrappers.end() && fields.size() > 1) {
    run_words({fields.begin() + 1, fields.end()}, node);
    if (name == "exec" && flow_ == Flow::none) flow_ = Flow::end;
    return;
  }
  if (const auto function = state_.functions.find(name); function != state_.functions.end())
    return run_function(*function->second, fields, node.line);
  if (run_variables(name, fields, node) || run_control(name, fields, node) || run_text(name, fields, node)) return;
  record(fields, node);
}

// Commands that read or change variables; returns whether the command is one.
bool Evaluator::run_variables(const std::string& name, const Fields& fields, const Node& node) {
  if (name == "unset") {
    for (std::size_t i = 1; i < fields.size(); ++i)
      if (text_of(fields[i])[0] != '-') assign(text_of(fields[i]), {});
  } else if (name == "shift") {
    const auto count = fields.size() > 1 ? integer(text_of(fields[1])) : std::optional<std::int64_t>(1);
    const auto all = static_cast<std::int64_t>(state_.parameters.size());
    status_ = truth_of(count && *count >= 0 && *count <= all);
    if (status_ == Truth::yes) state_.parameters.erase(state_.parameters.begin(), state_.parameters.begin() + *count);
  } else if (name == "set") {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      if (text_of(fields[i]) != "--") continue;
      state_.parameters.assign(fields.begin() + static_cast<std::ptrdiff_t>(i) + 1, fields.end());
      break;
    }
  } else if (name == "let") {
    for (std::size_t i = 1; i < fields.size(); ++i) run_arithmetic(fields[i]);
  } else if (name == "getopts") {
    run_options(fields);
  } else if (name == "read") {
    run_read(fields, node);
  } else {
    return false;
  }
  return true;
}

bool Evaluator::run_control(const std::string& name, const Fields& fields, const Node& node) {
  if (name == "[" || name == "test") {
    std::vector<Letters> words(fields.begin() + 1, fields.end());
    if (name == "[" && !words.empty()) words.pop_back();
    status_ = evaluate_condition(words, false, *this, inputs_);
    if (status_ == Truth::unknown)
      for (const Letters& word : words) unknown_ += text_of(word) + " ";
  } else if (name == "exit" || name == "return") {
    if (name == "exit" || (state_.locals.empty() && calls_ <= 1)) {
      flow_ = Flow::end;
      if (out_.exit_line == 0 && trying_ == 0) out_.exit_line = node.line;
    } else {
      flow_ = Flow::give_back;
    }
    status_ = truth_of(fields.size() < 2 || text_of(fields[1]) == "0");
  } else if (name == "break" || name == "continue") {
    flow_ = name == "break" ? Flow::leave : Flow::next;
    levels_ = fields.size() > 1 ? static_cast<int>(integer(text_of(fields[1])).value_or(1) % 100) : 1;
  } else if (name == "eval") {
    run_script(joined(fields, 1), node.line);
  } else if (name == "source" || name == ".") {
    run_source(fields, node.line);
  } else if (name == "true" || name == ":") {
    status_ = Truth::yes;
  } else if (name == "false") {
    status_ = Truth::no;
  } else {
    return false;
  }
  return true;
}

// Commands that print what follows from their words; returns whether the command is one.
bool Evaluator::run_text(const std::string& name, const Fields& fields, const Node& node) {
  if (name == "cd" || name == "pushd" || name == "popd") {
    const bool known = fields.size() > 1 && is_known(fields[1]);
    const std::string path = known ? text_of(fields[1]) : "";
    state_.folder = path.starts_with('/')                   ? path
                    : state_.folder.empty() || path.empty() ? ""
                                                            : state_.folder + "/" + path;
    status_ = Truth::yes;
    return true;
  }
  if (name == "echo" || name == "printf") {
    if (output_ == nullptr) return true;
    std::size_t first = 1;
    bool line = true;
    for (; name == "echo" && first < fields.size() && text_of(fields[first]).starts_with('-'); ++first) {
      const std::string option = text_of(fields[first]);
      if (option != "-n" && option != "-e" && option != "-ne" && option != "-en") break;
      line = line && option.find('n') == std::string::npos;
    }
    if (name == "printf") {
      const std::string format = fields.size() > 1 ? text_of(fields[1]) : "";
      const bool plain = format.find('%') == std::string::npos && format.find('\\') == std::string::npos;
      if (!plain && format != "%s" && format != "%s\\n" && format != "%d" && format != "%d\\n") *output_ = std::nullopt;
      if (!plain) first = 2;
      line = false;
    }
    print(joined(fields, first));
    if (line) print(letters_of("\n", 0));
    return true;
  }
  if (output_ == nullptr) return false;
  const auto output = known_output(name, fields, node);
  if (!output) return false;
  print(*output);
  return true;
}

void Evaluator::print(const Letters& text) {
  if (output_ == nullptr || !*output_ || !charge(text.size())) return;
  for (Letter letter : text) {
    letter.quoted = false;
    (*output_)->push_back(letter);
  }
}

// Returns what the command reads: its here-document or the output of the command before |.
std::optional<Letters> Evaluator::input_of(const Node& node) {
  if (node.document && syntax_ != nullptr && *node.document < syntax_->documents.size()) {
    const Document& document = syntax_->documents[*node.document];
    return document.quoted ? document.text : read_text(document.text, *this);
  }
  return piped_ ? input_ : std::nullopt;
}

std::optional<Letters> Evaluator::known_output(const std::string& name, const Fields& fields, const Node& node) {
  status_ = Truth::yes;
  const auto first = [&]() -> std::optional<std::string> {
    const bool option = fields.size() > 2 && text_of(fields[1]).starts_with('-');
    if (fields.size() < 2 || !is_known(fields.back())) return std::nullopt;
    return text_of(fields[option ? 2 : 1]);
  };
  const auto text = [](const std::string& line) { return letters_of(line + "\n", 0); };
  if (name == "cat" && fields.size() == 1) return input_of(node);
  if (name == "pwd" && !state_.folder.empty()) return text(fs::path(state_.folder).lexically_normal().string());
  if (name == "bc") {
    const auto input = input_of(node);
    const auto number = input ? read_number(*input, *this) : std::nullopt;
    if (number) return text(std::to_string(*number));
  }
  if (!all_known(fields)) {
    for (const Letters& field : fields)
      if (!is_known(field)) unknown_ += text_of(field) + " ";
    return std::nullopt;
  }
  if (name == "dirname" && first()) return text(folder_of(*first()));
  if (name == "basename" && fields.size() > 1) {
    std::string last = fs::path(text_of(fields[1])).filename().string();
    const std::string ending = fields.size() > 2 ? text_of(fields[2]) : "";
    if (!ending.empty() && last.ends_with(ending)) last.resize(last.size() - ending.size());
    return text(last);
  }
  if ((name == "realpath" || name == "readlink") && first() && first()->starts_with('/'))
    return text(fs::path(*first()).lexically_normal().string());
  if (name == "seq" && fields.size() > 1) return numbers_between(fields);
  if (name == "expr") {
    const auto number = read_number(joined(fields, 1), *this);
    if (number) return text(std::to_string(*number));
  }
  return std::nullopt;
}

void Evaluator::run_function(const Node& function, const Fields& fields, int line) {
  if (!enter(line)) return;
  Fields outer = std::exchange(state_.parameters, Fields(fields.begin() + 1, fields.end()));
  state_.locals.emplace_back();
  run_list(function.clauses[0].body);
  if (!state_.locals.empty()) {
    for (auto& [name, old] : state_.locals.back()) {
      if (old)
        state_.variables[name] = std::move(*old);
      else
        state_.variables.erase(name);
    }
    state_.locals.pop_back();
  }
  state_.parameters = std::move(outer);
  if (flow_ == Flow::give_back) flow_ = Flow::none;
  --calls_;
}

void Evaluator::run_script(const Letters& text, int line) {
  if (!enter(line)) return;
  if (const Syntax* syntax = parse(text)) {
    const Syntax* outer = std::exchange(syntax_, syntax);
    run_list(syntax->commands);
    syntax_ = outer;
  }
  --calls_;
}

void Evaluator::run_source(const Fields& fields, int line) {
  const std::string path = fields.size() > 1 ? text_of(fields[1]) : "";
  const bool known = fields.size() > 1 && is_known(fields[1]) && inputs_.find_file;
  const FoundFile found = known ? inputs_.find_file(path) : FoundFile();
  status_ = Truth::yes;
  if (found.kind == FileKind::none || found.kind == FileKind::folder)
    return fail(line, fmt::format("'{}' is sourced, and is no file next to the script", path),
                "put it there, or --define what it sets and leave the line out");
  if (found.kind == FileKind::unknown) {
    state_.skipped.push_back({path, line});
    status_ = Truth::unknown;
    return;
  }
  if (out_.files.size() >= 100) return fail(line, "over 100 files are sourced", "");
  auto file = std::ranges::find(out_.files, path);
  if (file == out_.files.end()) file = out_.files.insert(out_.files.end(), path);
  const int index = static_cast<int>(file - out_.files.begin());
  if (std::ranges::count(found.text, '\n') >= lines_of_a_file) return fail(line, "has over a million lines", "");
  const Fields outer = state_.parameters;
  const bool has_parameters = fields.size() > 2;
  if (has_parameters) state_.parameters.assign(fields.begin() + 2, fields.end());
  const auto self = state_.variables["BASH_SOURCE"];
  const fs::path script_folder = inputs_.folder;
  state_.variables["BASH_SOURCE"] = {letters_of((script_folder / path).lexically_normal().string(), 0)};
  run_script(letters_of(found.text, index * lines_of_a_file + 1), line);
  state_.variables["BASH_SOURCE"] = self;
  if (has_parameters) state_.parameters = outer;
  if (flow_ == Flow::give_back) flow_ = Flow::none;
}

// getopts LETTERS NAME: the next option of the parameters; several letters may share one word.
void Evaluator::run_options(const Fields& fields) {
  const auto number = [this](const char* name, std::int64_t missing) {
    const Fields* value = find(name);
    return value == nullptr || value->empty() ? missing : integer(text_of(value->front())).value_or(missing);
  };
  constexpr const char* place_in_word = "OPTIND.letter";  // no name that a script can have
  const std::string letters = fields.size() > 1 ? text_of(fields[1]) : "";
  const std::int64_t at = number("OPTIND", 1), count = static_cast<std::int64_t>(state_.parameters.size());
  const bool more = fields.size() > 2 && at >= 1 && at <= count;
  const Letters word = more ? state_.parameters[static_cast<std::size_t>(at - 1)] : Letters();
  const std::string written = text_of(word);
  status_ = truth_of(word.size() > 1 && written[0] == '-' && written != "--");
  if (written == "--") assign("OPTIND", {letters_of(std::to_string(at + 1), 0)});
  if (status_ != Truth::yes) return;
  const auto place =
      static_cast<std::size_t>(std::clamp<std::int64_t>(number(place_in_word, 1), 1, std::ssize(word) - 1));
  const std::size_t known = letters.find(word[place].symbol);
  const bool valued = known != std::string::npos && known + 1 < letters.size() && letters[known + 1] == ':';
  const bool last = valued || place + 1 == word.size(), apart = valued && place + 1 == word.size();
  assign(text_of(fields[2]), {known == std::string::npos ? letters_of("?", word[place].line) : Letters{word[place]}});
  if (apart)
    assign("OPTARG", {at < count ? state_.parameters[static_cast<std::size_t>(at)] : Letters()});
  else if (valued)
    assign("OPTARG", {slice(word, place + 1, word.size())});
  assign(place_in_word, {letters_of(std::to_string(last ? 1 : place + 1), 0)});
  assign("OPTIND", {letters_of(std::to_string(at + (apart ? 2 : last ? 1 : 0)), 0)});
}

// read NAME ... of a here-document or a pipe; what only a running shell reads is not known.
void Evaluator::run_read(const Fields& fields, const Node& node) {
  std::vector<std::string> names;
  bool whole = false;
  for (std::size_t i = 1; i < fields.size(); ++i) {
    const std::string word = text_of(fields[i]);
    if (!word.starts_with('-')) {
      names.push_back(word);
    } else if (word.ends_with('d')) {
      whole = ++i < fields.size() && fields[i].empty();
    } else if (word.ends_with('p') || word.ends_with('t') || word.ends_with('u')) {
      ++i;
    }
  }
  const auto input = input_of(node);
  status_ = input ? Truth::yes : Truth::unknown;
  if (!input || names.empty()) {
    unknown_ += node.text;
    for (const std::string& name : names) {
      state_.variables.erase(name);
      miss(name);
    }
    return;
  }
  if (whole) return assign(names[0], {*input});
  std::size_t at = 0;
  const auto ends = [&](std::size_t place) { return place >= input->size() || (*input)[place].symbol == '\n'; };
  for (std::size_t i = 0; i < names.size(); ++i) {
    while (!ends(at) && is_blank((*input)[at].symbol)) ++at;
    const std::size_t first = at;
    while (!ends(at) && (i + 1 == names.size() || !is_blank((*input)[at].symbol))) ++at;
    assign(names[i], {slice(*input, first, at)});
  }
}

// Keeps a command that a machine would run; the text behind -c is read as commands of their own.
void Evaluator::record(const Fields& fields, const Node& node) {
  Command words = prefix_;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0 && is_command_option(words.back().text) && has_space(fields[i])) {
      const State before = state_;
      Command outer = std::exchange(prefix_, std::move(words));
      run_script(fields[i], node.line);
      prefix_ = std::move(outer);
      leave_shell(before);
      return;
    }
    words.push_back(word_of(fields[i]));
  }
  const std::string& last = words.back().text;
  if (node.document && (last == "bash" || last == "sh" || last == "-s")) {
    const State before = state_;
    Command outer = std::exchange(prefix_, words);
    if (const auto text = input_of(node)) run_script(*text, node.line);
    prefix_ = std::move(outer);
    leave_shell(before);
    return;
  }
  if (output_ != nullptr) *output_ = std::nullopt;
  status_ = holds_program(words) ? Truth::yes : Truth::unknown;
  if (status_ == Truth::unknown) unknown_ += node.text;
  state_.commands.push_back(std::move(words));
}

}  // namespace plumbline::model::megatron
