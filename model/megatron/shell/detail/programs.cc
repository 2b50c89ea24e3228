// Functions, scripts in strings and in other files, and the commands that a machine would run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/megatron/shell/detail/evaluator.h"

namespace plumbline::model::megatron {
namespace {

namespace fs = std::filesystem;

Word word_of(const Letters& field) {
  return {text_of(field), field.empty() ? 0 : field.front().line, !is_known(field)};
}

bool is_command_option(std::string_view word) {
  return word == "-c" || word == "-lc" || word == "-xc" || word == "-ec";
}
bool has_space(const Letters& field) {
  return std::ranges::any_of(field, [](const Letter& letter) { return is_blank(letter.symbol); });
}

std::string folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace

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

// Returns the text of another file with its lines, and names the file; nothing where it has too many.
std::optional<Letters> Evaluator::letters_of_file(const std::string& path, const FoundFile& found, int line) {
  constexpr std::size_t most_files = 100;
  const std::string name =
      (fs::path(inputs_.folder) / path).lexically_normal().lexically_relative(inputs_.folder).generic_string();
  auto file = std::ranges::find(out_.files, name);
  if (file == out_.files.end()) file = out_.files.insert(out_.files.end(), name);
  if (out_.files.size() > most_files) fail(line, fmt::format("over {} files are read", most_files), "");
  if (std::ranges::count(found.text, '\n') >= lines_of_a_file) fail(line, "has over a million lines", "");
  if (error_) return std::nullopt;
  return letters_of(found.text, static_cast<int>(file - out_.files.begin()) * lines_of_a_file + 1);
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
    note(fmt::format("'{}' is not read: nothing that it sets is known", path));
    status_ = Truth::unknown;
    return;
  }
  const auto text = letters_of_file(path, found, line);
  if (!text) return;
  const Fields outer = state_.parameters;
  const bool has_parameters = fields.size() > 2;
  if (has_parameters) state_.parameters.assign(fields.begin() + 2, fields.end());
  const auto self = state_.variables["BASH_SOURCE"];
  state_.variables["BASH_SOURCE"] = {letters_of((fs::path(inputs_.folder) / path).lexically_normal().string(), 0)};
  run_script(*text, line);
  state_.variables["BASH_SOURCE"] = self;
  if (has_parameters) state_.parameters = outer;
  if (flow_ == Flow::give_back) flow_ = Flow::none;
}

// Runs commands in a text, in a shell of their own behind these words.
void Evaluator::run_within(Command words, const Letters& text, int line) {
  const Command outer = std::exchange(prefix_, std::move(words));
  run_apart([&] { run_script(text, line); });
  prefix_ = outer;
}

// Keeps a command that a machine would run; the text behind -c, and the document of a shell, are read as commands.
void Evaluator::record(const Fields& fields, const Node& node) {
  Command words = prefix_;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0 && is_command_option(words.back().text) && has_space(fields[i]))
      return run_within(std::move(words), fields[i], node.line);
    words.push_back(word_of(fields[i]));
  }
  const std::string& last = words.back().text;
  if (node.document && (last == "bash" || last == "sh" || last == "-s"))
    return run_within(words, document_of(node).value_or(Letters()), node.line);
  if (output_ != nullptr) *output_ = std::nullopt;
  status_ = Truth::unknown;
  if (trains(words)) {
    status_ = Truth::yes;
    if (state_.maybe_line > 0)
      return fail(node.line,
                  fmt::format("whether this training is started, or one before it, is decided by line {}",
                              state_.maybe_line % lines_of_a_file),
                  "--define its variables, or let --execute run the script");
  }
  state_.commands.push_back(std::move(words));
}

std::optional<Letters> Evaluator::document_of(const Node& node) {
  if (!node.document || syntax_ == nullptr || *node.document >= syntax_->documents.size()) return std::nullopt;
  const Document& document = syntax_->documents[*node.document];
  return document.quoted ? document.text : read_text(document.text, *this);
}

// Runs commands that print what follows from their words; returns whether the command is one.
bool Evaluator::run_output(const std::string& name, const Fields& fields, const Node& node) {
  if (name == "cd" || name == "pushd" || name == "popd") {
    const std::string path = fields.size() > 1 && is_known(fields[1]) ? text_of(fields[1]) : "";
    state_.folder = path.starts_with('/') || state_.folder.empty() || path.empty() ? path : state_.folder + "/" + path;
    if (!state_.folder.starts_with('/')) state_.folder.clear();
    return true;
  }
  const bool prints = name == "echo" || name == "printf";
  if (output_ == nullptr) return prints;
  std::optional<Letters> text;
  bool ends_line = true;
  const bool known = std::ranges::all_of(fields, is_known);
  const bool option = fields.size() > 2 && text_of(fields[1]).starts_with('-');
  const std::string word = fields.size() > 1 ? text_of(fields[option ? 2 : 1]) : "";
  if (name == "echo") {
    const std::string first = fields.size() > 1 ? text_of(fields[1]) : "";
    ends_line = first != "-n";
    const bool escapes = first.size() > 1 && first[0] == '-' && first.find_first_not_of("neE", 1) == std::string::npos;
    if (!escapes || !ends_line) text = joined(fields, ends_line ? 1 : 2);
  } else if (name == "printf") {
    ends_line = false;
    if (fields.size() == 3 && text_of(fields[1]) == "%s") text = fields[2];
  } else if (name == "cat" && fields.size() == 1) {
    text = document_of(node);
  } else if (name == "pwd" && !state_.folder.empty()) {
    text = letters_of(fs::path(state_.folder).lexically_normal().string(), 0);
  } else if (known && name == "dirname" && fields.size() == 2) {
    text = letters_of(folder_of(word), 0);
  } else if (known && name == "basename" && fields.size() > 1 && !option) {
    std::string last = fs::path(word).filename().string();
    const std::string ending = fields.size() > 2 ? text_of(fields[2]) : "";
    if (last.size() > ending.size() && last.ends_with(ending)) last.resize(last.size() - ending.size());
    text = letters_of(last, 0);
  } else if (known && (name == "realpath" || name == "readlink") && word.starts_with('/')) {
    text = letters_of(fs::path(word).lexically_normal().string(), 0);
  } else {
    return prints;
  }
  if (!text) *output_ = std::nullopt;
  if (!text || !*output_ || !charge(text->size())) return true;
  for (Letter letter : *text) {
    letter.quoted = false;
    (*output_)->push_back(letter);
  }
  if (ends_line) (*output_)->push_back({'\n', 0});
  return true;
}

}  // namespace plumbline::model::megatron
