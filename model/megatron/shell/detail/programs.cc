// Functions, scripts in strings and in other files, and the commands that a machine would run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/megatron/shell/detail/evaluator.h"

namespace plumbline::model::megatron {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> shells = {"bash", "sh", "zsh", "dash"};
// Programs that start another one with the words that follow their options.
constexpr std::array<std::string_view, 6> starters = {"srun", "mpirun", "mpiexec", "env", "time", "numactl"};

Word word_of(const Letters& field) { return {text_of(field), field.empty() ? 0 : field.front().line}; }

bool is_command_option(std::string_view word) {
  return word == "-c" || word == "-lc" || word == "-xc" || word == "-ec";
}
bool has_space(const Letters& field) {
  return std::ranges::any_of(field, [](const Letter& letter) { return is_blank(letter.symbol); });
}

// Returns the position of the word that names the script which a command starts: behind a shell and its options, or as
// the program itself. Nothing where the command starts none.
std::optional<std::size_t> script_word(const Fields& fields) {
  const auto name = [&fields](std::size_t i) { return fs::path(text_of(fields[i])).filename().string(); };
  const bool started = std::ranges::find(starters, name(0)) != starters.end();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (std::ranges::find(shells, name(i)) != shells.end()) {
      for (++i; i < fields.size() && text_of(fields[i]).starts_with('-'); ++i) {
        if (is_command_option(text_of(fields[i]))) return std::nullopt;
        if (text_of(fields[i]) == "-o") ++i;
      }
      return i < fields.size() ? std::optional(i) : std::nullopt;
    }
    if ((i == 0 || started) && name(i).ends_with(".sh")) return i;
  }
  return std::nullopt;
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
  const std::string name = script_path(path).lexically_relative(inputs_.folder).generic_string();
  auto file = std::ranges::find(out_.files, name);
  if (file == out_.files.end()) file = out_.files.insert(out_.files.end(), name);
  if (out_.files.size() > most_files) fail(line, fmt::format("over {} files are read", most_files), "");
  if (std::ranges::count(found.text, '\n') >= lines_of_a_file) fail(line, "has over a million lines", "");
  if (error_) return std::nullopt;
  return letters_of(found.text, static_cast<int>(file - out_.files.begin()) * lines_of_a_file + 1);
}

// Returns the whole path of a file that the script names by a path from its own folder.
fs::path Evaluator::script_path(const std::string& path) const {
  return (fs::path(inputs_.folder) / path).lexically_normal();
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
  const auto text = letters_of_file(path, found, line);
  if (!text) return;
  const Fields outer = state_.parameters;
  const bool has_parameters = fields.size() > 2;
  if (has_parameters) state_.parameters.assign(fields.begin() + 2, fields.end());
  const auto self = state_.variables["BASH_SOURCE"];
  state_.variables["BASH_SOURCE"] = {letters_of(script_path(path).string(), 0)};
  run_script(*text, line);
  state_.variables["BASH_SOURCE"] = self;
  if (has_parameters) state_.parameters = outer;
  if (flow_ == Flow::give_back) flow_ = Flow::none;
}

// Runs another script with the words behind its name as parameters: what is exported goes in, and nothing comes back.
// The words before its name stand before its commands. Returns whether the command starts a script that is known.
bool Evaluator::run_child(const Fields& fields, int line) {
  const auto at = script_word(fields);
  if (!at || !is_known(fields[*at]) || !inputs_.find_file) return false;
  std::string path = text_of(fields[*at]);
  if (!state_.folder.empty() && !path.starts_with('/')) path = state_.folder + "/" + path;
  const FoundFile found = inputs_.find_file(path);
  if (found.kind != FileKind::file || !enter(line)) return found.kind == FileKind::file;
  const auto text = letters_of_file(path, found, line);
  const State before = state_;
  std::erase_if(state_.variables, [this](const auto& variable) {
    return !state_.exported.contains(variable.first) && !inputs_.definitions.contains(variable.first);
  });
  state_.functions.clear();
  state_.folder.clear();
  state_.locals = {{}};  // its parameters are all that there are
  state_.parameters.assign(fields.begin() + static_cast<std::ptrdiff_t>(*at) + 1, fields.end());
  state_.variables["0"] = state_.variables["BASH_SOURCE"] = {letters_of(script_path(path).string(), 0)};
  Command outer = prefix_;
  for (std::size_t i = 0; i < *at; ++i) prefix_.push_back(word_of(fields[i]));
  if (text) run_script(*text, line);
  prefix_ = std::move(outer);
  leave_shell(before);
  --calls_;
  return true;
}

// Keeps a command that a machine would run; the text behind -c is read as commands of their own.
void Evaluator::record(const Fields& fields, const Node& node) {
  if (run_child(fields, node.line)) return;
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
