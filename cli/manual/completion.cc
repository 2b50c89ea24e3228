#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/data.h"
#include "cli/manual/manual.h"
#include "model/base/text.h"
#include "model/plan/plan_key_table.h"
#include "model/schedule/schedule.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using Candidates = std::vector<Candidate>;

void append_words(Candidates& to, const std::vector<std::string>& words, std::string_view what) {
  for (const std::string& word : words) to.push_back({word, std::string(what)});
}

void append_shipped(Candidates& to, Shipped kind, std::string_view what) {
  if (const auto names = shipped_names(kind)) append_words(to, *names, what);
}

// Appends the files and folders whose path begins with `start`.
void append_files(Candidates& to, const std::string& start) {
  const std::size_t slash = start.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : start.substr(0, slash + 1);
  std::error_code failed;
  std::vector<std::string> paths;
  for (fs::directory_iterator file(folder.empty() ? "." : folder, failed), end; !failed && file != end;
       file.increment(failed)) {
    const std::string name = file->path().filename().string();
    if (name.starts_with('.') && start.size() == folder.size()) continue;
    std::error_code unreadable;
    paths.push_back(folder + name + (file->is_directory(unreadable) ? "/" : ""));
  }
  std::ranges::sort(paths);
  append_words(to, paths, "file");
}

// Appends the keys of a plan, or after KEY= the values that it takes.
void append_keys(Candidates& to, const std::string& start) {
  const std::size_t equals = start.find('=');
  const std::string name = start.substr(0, equals);
  for (const model::PlanKey& key : model::plan_key_table()) {
    if (key.name.find(".phase.") != std::string::npos) continue;
    if (equals == std::string::npos) to.push_back({key.name + "=", key.meaning});
    if (key.name != name) continue;
    for (const std::string& word : key.words) to.push_back({fmt::format("{}={}", name, word), key.meaning});
    constexpr std::array<std::pair<std::string_view, Shipped>, 5> shipped = {{{"cluster.topology", Shipped::topology},
                                                                              {"cluster.profile", Shipped::profile},
                                                                              {"stack.name", Shipped::stack},
                                                                              {"inference.engine", Shipped::stack},
                                                                              {"model.config", Shipped::model}}};
    for (const auto& [named, kind] : shipped) {
      if (named != name) continue;
      Candidates values;
      append_shipped(values, kind, key.meaning);
      for (const Candidate& value : values) to.push_back({fmt::format("{}={}", name, value.word), value.what});
    }
  }
}

// Appends the formats that the help of a verb lists below "Formats:".
void append_formats(Candidates& to, const CLI::App& verb) {
  const std::string footer = verb.get_footer();
  const std::size_t list = std::min(footer.find("Formats:\n"), footer.size());
  for (const std::string_view line : model::lines_of(std::string_view(footer).substr(list))) {
    if (line.empty()) return;
    const std::string_view entry = model::trimmed(line);
    const std::size_t end = std::min(entry.find(' '), entry.size());
    if (line.starts_with("  "))
      to.push_back({std::string(entry.substr(0, end)), std::string(model::trimmed(entry.substr(end)))});
  }
}

// Appends what the argument or option named `name` takes: KIND of `show` decides about its NAME.
void append_values(Candidates& to, const CLI::App& verb, const CLI::Option& option, const std::string& name,
                   const std::string& first, const std::string& start) {
  if (name == "set" || name == "over" || name == "solve") return append_keys(to, start);
  const bool of_show = verb.get_name() == "show" && name == "NAME";
  if (of_show && first == "key") {
    for (const model::PlanKey& key : model::plan_key_table()) to.push_back({key.name, key.meaning});
    return;
  }
  if (name == "FORMAT") return append_formats(to, verb);
  if (verb.get_name() == "schedule" && name == "KIND") {
    for (const model::ScheduleKind* kind : model::schedule_kinds()) to.push_back({std::string(kind->name()), ""});
    return;
  }
  if (const auto values = listed_values(option); !values.empty()) return append_words(to, values, "");
  const auto either = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  if (either("PLAN") || (of_show && first == "routing")) append_shipped(to, Shipped::plan, "plan");
  if (either("CONFIG") || name == "model" || (of_show && first == "model")) append_shipped(to, Shipped::model, "model");
  if (name == "topology" || name == "cluster" || (of_show && first == "topology"))
    append_shipped(to, Shipped::topology, "topology");
  if (name == "profile" || (of_show && first == "profile")) append_shipped(to, Shipped::profile, "profile");
  if (of_show && first == "stack") append_shipped(to, Shipped::stack, "stack");
  if (of_show && first == "reliability") append_shipped(to, Shipped::reliability, "rates of failures");
  append_files(to, start);
}

std::string name_of(const CLI::Option& option) {
  return option.get_positional() ? option.get_name(true) : option.get_lnames().empty() ? "" : option.get_lnames()[0];
}

const CLI::Option* find_option(const CLI::App& verb, const std::string& word) {
  for (const CLI::Option* option : verb.get_options())
    if (word.starts_with('-') && option->check_name(word)) return option;
  return nullptr;
}

// Appends the options of a verb, and --wide of the command, which may follow the verb.
void append_options(Candidates& to, const CLI::App& verb) {
  const CLI::App* command = verb.get_parent();
  if (command != nullptr && command->get_option_no_throw("--wide") != nullptr)
    to.push_back({"--wide", command->get_option_no_throw("--wide")->get_description()});
  for (const CLI::Option* option : verb.get_options())
    if (option->nonpositional() && !option->get_lnames().empty())
      to.push_back({"--" + option->get_lnames()[0], option->get_description()});
}

// Completes the last word after a verb.
void append_after_verb(Candidates& to, const CLI::App& verb, const std::vector<std::string>& words) {
  const std::string& start = words.back();
  std::vector<std::string> arguments;  // those before the last word
  const CLI::Option* open = nullptr;   // the option whose value is the last word
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    const CLI::Option* option = open == nullptr ? find_option(verb, words[i]) : nullptr;
    if (open == nullptr && option == nullptr) arguments.push_back(words[i]);
    open = option != nullptr && option->get_type_size() > 0 && option->get_expected_max() > 0 ? option : nullptr;
  }
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (open != nullptr) return append_values(to, verb, *open, name_of(*open), first, start);
  const std::size_t equals = start.find('=');
  if (start.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = find_option(verb, start.substr(0, equals));
    Candidates values;
    if (option != nullptr) append_values(values, verb, *option, name_of(*option), first, start.substr(equals + 1));
    for (const Candidate& value : values) to.push_back({start.substr(0, equals + 1) + value.word, value.what});
    return;
  }
  if (start.starts_with('-')) return append_options(to, verb);
  std::size_t before = arguments.size();
  const CLI::Option* argument = nullptr;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) continue;
    argument = option;
    if (before-- == 0 || option->get_expected_max() > 1) break;
  }
  if (argument != nullptr) append_values(to, verb, *argument, name_of(*argument), first, start);
}

}  // namespace

std::vector<std::string> verb_names(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* verb : root.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

model::Result<const CLI::App*> find_verb(const CLI::App& root, const std::string& name) {
  const std::vector<std::string> names = verb_names(root);
  if (std::ranges::find(names, name) != names.end()) return root.get_subcommand(name);
  return model::wrong_input("", fmt::format("unknown verb '{}'", name), model::known_names(name, names));
}

std::vector<std::string> listed_values(const CLI::Option& option) {
  const auto words_between = [](std::string_view text, std::string_view separator) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(separator, at), text.size());
      words.emplace_back(model::trimmed(text.substr(at, end - at)));
      at = end + separator.size();
    }
    return words;
  };
  const std::string type = option.get_type_name();
  if (const std::size_t open = type.find('{'); open != std::string::npos)
    return words_between(std::string_view(type).substr(open + 1, type.rfind('}') - open - 1), ",");
  // "With --collectives: all_reduce (default) | reduce_scatter" lists words and what stands around them.
  std::vector<std::string> values = words_between(option.get_description(), " | ");
  if (values.size() < 2) return {};
  values.front() = values.front().substr(values.front().rfind(": ") + 1);
  for (std::string& value : values) {
    value = std::string(model::trimmed(value));
    value.resize(std::min(value.size(), value.find_first_of(" ,;(")));
  }
  return values;
}

std::vector<Candidate> completions(const CLI::App& root, const std::vector<std::string>& words) {
  Candidates all;
  if (words.empty()) return all;
  const auto verb = find_verb(root, words.front());
  const bool names_verb = words.size() == 2 && (words.front() == "help" || words.front() == "man");
  if (words.size() == 1 || names_verb) {
    for (const std::string& name : verb_names(root))
      all.push_back({name, root.get_subcommand(name)->get_description()});
    if (names_verb && words.front() == "man") all.push_back({"keys", "Keys of a plan"});
    if (words.size() == 1) append_options(all, root);
  } else if (verb) {
    append_after_verb(all, **verb, words);
  }
  Candidates found;
  std::ranges::copy_if(all, std::back_inserter(found),
                       [&](const Candidate& candidate) { return candidate.word.starts_with(words.back()); });
  return found;
}

model::Result<std::string> completion_script(const std::string& shell) {
  // Bash splits words at = and replaces only what follows it.
  if (shell == "bash")
    return std::string(R"(# Completion of plumbline in bash.
_plumbline() {
  local line=${COMP_LINE:0:COMP_POINT} words word
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word=${words[-1]}
  local cut=""
  [[ $word == *=* && $COMP_WORDBREAKS == *=* ]] && cut=${word%"${word##*=}"}
  local IFS=$'\n'
  COMPREPLY=($("${words[0]}" completion words -- "${words[@]:1}" 2>/dev/null | cut -f1))
  COMPREPLY=("${COMPREPLY[@]#"$cut"}")
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _plumbline plumbline
)");
  if (shell == "zsh")
    return std::string(R"(#compdef plumbline
# Completion of plumbline in zsh.
_plumbline() {
  local -a found
  found=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null | cut -f1)}")
  compadd -S '' -- "${(@M)found:#*[=/]}"
  compadd -- "${(@)found:#*[=/]}"
}
if [[ $funcstack[1] == _plumbline ]]; then
  _plumbline "$@"
else
  compdef _plumbline plumbline
fi
)");
  if (shell == "fish")
    return std::string(R"(# Completion of plumbline in fish.
function __plumbline_words
  set -l words (commandline -opc) (commandline -ct)
  command $words[1] completion words -- $words[2..-1] 2>/dev/null
end
complete -c plumbline -f -a '(__plumbline_words)'
)");
  return model::wrong_input("SHELL", fmt::format("unknown shell '{}'", shell),
                            model::known_names(shell, {"bash", "zsh", "fish"}));
}

}  // namespace plumbline::cli
