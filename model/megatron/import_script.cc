#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/megatron/arguments.h"
#include "model/megatron/detail/importer.h"
#include "model/megatron/detail/launch.h"
#include "model/megatron/import.h"

namespace plumbline::model::megatron {
namespace {

// Returns the lines that are comments, without the #.
std::vector<Word> comments_of(std::string_view text) {
  std::vector<Word> comments;
  int line = 0;
  for (const std::string_view written : lines_of(text)) {
    ++line;
    if (written.starts_with('#')) comments.push_back({std::string(written.substr(1)), line});
  }
  return comments;
}

// Imports a script, with the plans that it would give without each of its arguments, and with what it leaves open.
Result<ImportedScript> import_reading(const Reading& reading, const std::string& path, const ImportOptions& options) {
  Importer importer(path, options);
  auto imported = TRY(importer.run(reading));
  const auto values = plan_values(imported.plan);
  const auto add = [&](int line, const std::string& text, const Result<ImportedScript>& other) {
    if (other && plan_values(other->plan) != values) imported.alternatives.push_back({line, text, other->plan});
  };
  for (const auto& [name, argument] : importer.given().all()) {
    const Argument* known = find_argument(name);
    if (known == nullptr || !decides_step(*known)) continue;
    std::string text = "without " + name;
    for (const std::string& value : argument.values) text += " " + value;
    add(argument.line, text, Importer(path, options, name).run(reading));
  }
  for (const OpenChoice& choice : importer.open_choices()) {
    ImportOptions other = options;
    other.more_arguments += " " + choice.arguments;
    if (!choice.override_.empty()) other.overrides.push_back(choice.override_);
    add(choice.line, choice.text, Importer(path, other).run(reading));
  }
  return imported;
}

}  // namespace

Result<ImportedScript> import_execution(const Execution& execution, std::string_view text, const std::string& path,
                                        const ImportOptions& options) {
  Script script;
  script.commands = execution.started;
  script.variables = execution.variables;
  script.files = {path};
  std::vector<Note> notes;
  const auto launch = find_launch(script, notes);
  if (!launch) {
    std::string started;
    for (const Command& command : execution.started) started += (started.empty() ? "" : "; ") + text_of(command);
    return wrong_input_at(
        path, 0, "",
        fmt::format("the script was executed and {}{}: it started no .py file with arguments of Megatron-LM",
                    execution.ending.empty() ? "ended" : execution.ending,
                    started.empty() ? "" : fmt::format(", and started {}", started)),
        "give what it asks for with --define NAME=VALUE, its arguments behind --, or time with --deadline");
  }
  auto imported = TRY(import_reading({script, comments_of(text)}, path, options));
  const auto note = [&imported](std::string text_of_note) {
    imported.notes.insert(imported.notes.begin(), {0, std::move(text_of_note)});
  };
  if (!execution.answered.empty())
    note(fmt::format("answered as one node of the cluster does: {}", fmt::join(execution.answered, ", ")));
  if (!execution.skipped.empty())
    note(fmt::format("started, and nothing done in their place: {}", fmt::join(execution.skipped, ", ")));
  if (!execution.ending.empty()) note("the script " + execution.ending);
  note(fmt::format("the script was executed; its training is '{}'", launch->text));
  return imported;
}

Result<ImportedScript> import_script(std::string_view text, const std::string& path, const ImportOptions& options) {
  TRY(check_utf8(text, path));
  const ShellInputs inputs{path, options.folder, slurm_definitions(text, options.definitions), options.find_file,
                           is_training};
  return import_reading({TRY(read_script(text, inputs)), comments_of(text)}, path, options);
}

Result<ImportedScript> import_script(Script script, const std::string& path, const ImportOptions& options) {
  for (const Command& command : script.commands)
    for (const Word& word : command) TRY(check_utf8(word.text, path, word.line));
  script.variables = slurm_definitions("", options.definitions);
  script.files = {path};
  return import_reading({std::move(script), {}}, path, options);
}

}  // namespace plumbline::model::megatron
