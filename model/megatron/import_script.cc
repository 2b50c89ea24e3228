#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <span>
#include <utility>

#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/megatron/detail/importer.h"

namespace plumbline::model::megatron {
namespace {

using Number = std::optional<std::int64_t>;

constexpr std::string_view slime_nodes = "--actor-num-nodes", slime_gpus = "--actor-num-gpus-per-node";

bool is_number(std::string_view word) {
  return word.size() > 1 && (std::isdigit(static_cast<unsigned char>(word[1])) != 0 || word[1] == '.');
}
bool is_name(std::string_view word) { return word.starts_with('-') && word.size() > 1 && !is_number(word); }

// Returns the value of an option, "--nodes=4", "--nodes 4", "-N 4" or "-N4"; the last one counts.
std::optional<std::string> option(const Command& words, std::initializer_list<std::string_view> names) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i].text;
    for (const std::string_view name : names) {
      if (word == name && i + 1 < words.size()) value = words[i + 1].text;
      const bool is_short = name.size() == 2 && word.size() > 2 && word.starts_with(name) && is_number(word.substr(1));
      if (is_short) value = word.substr(2);
      if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
        value = word.substr(name.size() + 1);
    }
  }
  return value;
}

// Parses "4", the upper end of torchrun's "2:4", and the count of Slurm's "gpu:h100:8".
Number count(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const std::size_t colon = text->rfind(':');
  return integer(colon == std::string::npos ? *text : text->substr(colon + 1));
}

Number product(Number left, Number right) {
  std::int64_t result = 0;
  if (!left || !right || __builtin_mul_overflow(*left, *right, &result)) return std::nullopt;
  return result;
}

Number variable(const Script& script, std::string_view name) {
  const auto found = script.variables.find(name);
  return found == script.variables.end() ? std::nullopt : integer(found->second);
}

Number slurm_nodes(const Command& words) { return count(option(words, {"-N", "--nodes"})); }
Number slurm_tasks_per_node(const Command& words) { return count(option(words, {"--ntasks-per-node"})); }
Number slurm_gpus_per_node(const Command& words) {
  return count(option(words, {"--gpus-per-node", "--gres", "--gpus-per-task"}));
}

Number first_of(std::initializer_list<Number> numbers) {
  for (const Number& number : numbers)
    if (number) return number;
  return std::nullopt;
}

// Whether the program is slime's, which starts its processes itself.
bool starts_actors(const Command& arguments) {
  return option(arguments, {slime_nodes}).has_value() || option(arguments, {slime_gpus}).has_value();
}

Number count_gpus(const Command& launcher, const Command& arguments, const Script& script) {
  if (starts_actors(arguments))
    return product(count(option(arguments, {slime_nodes}).value_or("1")),
                   count(option(arguments, {slime_gpus}).value_or("8")));
  const Number nodes = first_of(
      {count(option(launcher, {"--nnodes", "--num_nodes"})), slurm_nodes(launcher), variable(script, "SLURM_NNODES")});
  const bool torch = option(launcher, {"--nproc_per_node", "--nproc-per-node", "--num_gpus"}).has_value();
  if (torch) {
    const Number processes = first_of({count(option(launcher, {"--nproc_per_node", "--nproc-per-node", "--num_gpus"})),
                                       slurm_gpus_per_node(launcher), variable(script, "SLURM_GPUS_PER_NODE")});
    const bool has_nodes = option(launcher, {"--nnodes", "--num_nodes"}).has_value();
    return first_of({product(processes, nodes       ? nodes
                                        : has_nodes ? Number()
                                                    : Number(1)),
                     variable(script, "WORLD_SIZE")});
  }
  const Number tasks = first_of(
      {count(option(launcher, {"-n", "-np", "--ntasks", "--num_processes"})), variable(script, "SLURM_NTASKS")});
  const Number per_node = first_of({slurm_tasks_per_node(launcher), variable(script, "SLURM_NTASKS_PER_NODE"),
                                    slurm_gpus_per_node(launcher), variable(script, "SLURM_GPUS_PER_NODE")});
  return first_of({tasks, product(nodes, per_node), variable(script, "WORLD_SIZE"),
                   product(variable(script, "NPROC_PER_NODE"), first_of({variable(script, "NNODES"), Number(1)}))});
}

// Returns the name of the variable that holds the value, or that it is: "GPUS" of "$GPUS" and of "${GPUS}".
std::string name_of(const std::string& value, const Script& script) {
  for (const auto& [name, text] : script.variables)
    if (text == value) return name;
  if (!value.starts_with('$')) return "";
  std::string name = value.substr(value.starts_with("${") ? 2 : 1);
  if (name.ends_with('}')) name.pop_back();
  const bool plain = std::ranges::all_of(
      name, [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; });
  return plain ? name : "";
}

// Options that state how many processes a launcher starts: those that count_gpus() reads.
constexpr std::string_view count_options[] = {"--nproc_per_node",
                                              "--nproc-per-node",
                                              "--num_gpus",
                                              "--nnodes",
                                              "--num_nodes",
                                              "--nodes",
                                              "-N",
                                              "--ntasks-per-node",
                                              "--gpus-per-node",
                                              "--gres",
                                              "--gpus-per-task",
                                              "--ntasks",
                                              "--num_processes",
                                              "-np",
                                              "-n"};

// Whether the word is --NAME=VALUE of an option that states no such number.
bool is_other_option(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  return name.size() < word.size() && name.starts_with("--") && name.find_first_of("$`") == std::string_view::npos &&
         std::ranges::find(count_options, name) == std::end(count_options);
}

// Returns the first word of the launcher that may be an option or not, as a condition decides that is not known.
std::optional<Word> undecided_option(const Command& launcher) {
  for (std::size_t i = 0; i < launcher.size(); ++i) {
    const bool value = i > 0 && launcher[i - 1].text.starts_with('-');
    const bool named = launcher[i].unknown && (value || launcher[i].text.starts_with('-'));
    if (launcher[i].condition > 0 && !named && !is_other_option(launcher[i].text)) return launcher[i];
  }
  return std::nullopt;
}

// Sets the first number of the launcher that the script does not decide.
void name_open_number(const Command& launcher, const Script& script, Launch& launch) {
  for (const std::string_view name : count_options) {
    const auto value = option(launcher, {name});
    if (!value || count(value)) continue;
    const auto word = std::ranges::find_if(launcher, [name](const Word& one) { return one.text.starts_with(name); });
    const int condition = word->condition > 0 || word + 1 == launcher.end() ? word->condition : word[1].condition;
    launch.open = {fmt::format("{} {}", name, *value), word->line, true, condition};
    launch.open_name = name_of(*value, script);
    return;
  }
}

// Returns the text without what Python's numbers may have between digits: 220_000_000.
std::string without_groups(std::string text) {
  const auto digit = [](char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; };
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!digit(text[i]) && (text[i] != '_' || i == 0 || i + 1 == text.size() || !digit(text[i - 1]))) return text;
  std::erase(text, '_');
  return text;
}

// Whether a word that is not known is a value of the argument; elsewhere it may hold any arguments.
bool takes_unknown(std::string_view name, const GivenArgument& argument, const Word& word) {
  const Argument* known = find_argument(name);
  const bool path = word.text.find('/') != std::string::npos && word.text.find_first_of(" \t\n") == std::string::npos;
  const bool free = known != nullptr && known->meaning == Meaning::no_cost;
  if (name.ends_with("data-path") || (path && free)) return true;
  return !name.empty() && argument.values.empty() && (known == nullptr || known->meaning != Meaning::flag);
}

// Whether the two words are ms-swift's command for Megatron with its verb.
bool is_swift(std::string_view word, std::string_view verb) {
  return word.substr(word.rfind('/') + 1) == "megatron" && (verb == "sft" || verb == "pt" || verb == "rlhf");
}

// Returns ms-swift's verb for Megatron that a program is behind the word before it, or as the file behind that verb;
// empty for other programs.
std::string_view swift_verb(std::string_view before, std::string_view program) {
  if (is_swift(before, program)) return program;
  constexpr std::string_view folder = "swift/cli/_megatron/", ending = ".py";
  const std::size_t at = program.rfind(folder);
  if (at == std::string_view::npos || !program.ends_with(ending)) return {};
  const std::string_view verb = program.substr(at + folder.size(), program.size() - at - folder.size() - ending.size());
  return is_swift("megatron", verb) ? verb : std::string_view();
}

// Returns the position of the program: a .py file, the module behind python's or torchrun's -m, or ms-swift's verb.
std::optional<std::size_t> program_word(const Command& command) {
  bool python = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string_view word = command[i].text;
    const std::string_view next = i + 1 < command.size() ? std::string_view(command[i + 1].text) : "";
    const std::string_view name = word.substr(word.rfind('/') + 1);
    if (word.ends_with(".py")) return i;
    if (python && word == "-m" && next.find("torch.distributed") == std::string_view::npos &&
        next.find("accelerate") == std::string_view::npos && next.find("deepspeed") == std::string_view::npos)
      return i + 1 < command.size() ? std::optional(i + 1) : std::nullopt;
    if (is_swift(word, next)) return i + 1;
    python = python || name.starts_with("python") || name == "torchrun";
  }
  return std::nullopt;
}

std::optional<std::size_t> find_program(const Command& command) {
  if (command.empty() || command[0].text == "echo" || command[0].text == "printf") return std::nullopt;
  const auto program = program_word(command);
  if (!program) return std::nullopt;
  const bool trains =
      std::any_of(command.begin() + static_cast<std::ptrdiff_t>(*program), command.end(), [](const Word& word) {
        const Argument* known = find_argument(known_name(std::string_view(word.text).substr(0, word.text.find('='))));
        return known != nullptr && known->meaning != Meaning::no_cost;
      });
  return trains ? program : std::nullopt;
}

using Defaults = std::span<const std::pair<std::string_view, std::string_view>>;

// What ms-swift gives Megatron Core where its command does not decide (MegatronArguments of
// swift/megatron/arguments/megatron_args.py @006938be; bf16 is the type of most checkpoints), and what slime does
// (_set_default_megatron_args of slime/backends/megatron_utils/arguments.py).
constexpr std::pair<std::string_view, std::string_view> swift_defaults[] = {{"--micro-batch-size", "1"},
                                                                            {"--global-batch-size", "16"},
                                                                            {"--bf16", ""},
                                                                            {"--recompute-granularity", "selective"},
                                                                            {"--attention-backend", "flash"},
                                                                            {"--cross-entropy-loss-fusion", ""},
                                                                            {"--use-distributed-optimizer", ""},
                                                                            {"--moe-grouped-gemm", ""},
                                                                            {"--moe-token-dispatcher-type", "alltoall"},
                                                                            {"--expert-tensor-parallel-size", "1"}};
constexpr std::pair<std::string_view, std::string_view> swift_preferences[] = {{"--rlhf-type", "dpo"}};
constexpr std::pair<std::string_view, std::string_view> slime_defaults[] = {
    {"--micro-batch-size", "1"}, {"--bf16", ""}, {"--use-distributed-optimizer", ""}};

// Puts a program's defaults before the arguments, so that those that are given win.
void add_defaults(Launch& launch, std::string_view whose, Defaults of_program, std::vector<Note>& notes) {
  const auto gives = [&launch](std::string_view name) {
    return std::ranges::any_of(launch.arguments, [name](const Word& word) {
      std::string written = word.text.substr(0, word.text.find('='));
      std::ranges::replace(written, '_', '-');
      return written == name || known_name(written) == name;
    });
  };
  Command defaults;
  const std::string type = option(launch.arguments, {"--torch_dtype", "--torch-dtype"}).value_or("bfloat16");
  if (type == "float16") defaults.push_back({"--fp16", 0});
  for (const auto& [name, value] : of_program) {
    const bool other_format = name == "--bf16" && (gives("--fp16") || type != "bfloat16");
    const bool no_dispatch = name == "--moe-token-dispatcher-type" && !gives("--expert-model-parallel-size");
    if (gives(name) || other_format || no_dispatch) continue;
    defaults.push_back({std::string(name), 0});
    if (!value.empty()) defaults.push_back({std::string(value), 0});
  }
  if (!defaults.empty()) notes.push_back({0, fmt::format("{} defaults: {}", whose, text_of(defaults))});
  launch.arguments.insert(launch.arguments.begin(), defaults.begin(), defaults.end());
}

}  // namespace

bool is_training(const Command& command) { return find_program(command).has_value(); }

Definitions slurm_definitions(std::string_view script, const Definitions& given) {
  Command header;
  for (const std::string_view line : lines_of(script)) {
    if (!trimmed(line).empty() && !line.starts_with('#')) break;  // as sbatch does
    if (!line.starts_with("#SBATCH")) continue;
    std::string words(line.substr(7));
    std::ranges::replace(words, '\t', ' ');
    for (const std::string_view word : split_at(words, ' '))
      if (!word.empty()) header.push_back({std::string(word), 0});
  }
  Definitions names = given;
  const auto define = [&names](std::initializer_list<const char*> same, Number value) {
    for (const char* name : same)
      if (const auto found = names.find(name); found != names.end()) value = integer(found->second);
    for (const char* name : same)
      if (value) names.try_emplace(name, std::to_string(*value));
    return value;
  };
  const Number nodes = define({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, slurm_nodes(header));
  const Number tasks = define({"SLURM_NTASKS_PER_NODE"}, slurm_tasks_per_node(header));
  define({"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}, slurm_gpus_per_node(header));
  define({"SLURM_NTASKS"}, first_of({count(option(header, {"-n", "--ntasks"})), product(nodes, tasks)}));
  return names;
}

std::string text_of(const Command& command) {
  std::string text;
  for (const Word& word : command) text += (text.empty() ? "" : " ") + word.text;
  return text;
}

std::optional<Launch> find_launch(const Script& script, std::vector<Note>& notes) {
  std::optional<Launch> launch;
  for (const Command& command : script.commands) {
    const auto program = find_program(command);
    if (!program) continue;
    if (launch) {
      notes.push_back(
          {command[*program].line,
           fmt::format("a further training is left out: '{}'",
                       text_of({command.begin(), command.begin() + static_cast<std::ptrdiff_t>(*program) + 1}))});
      continue;
    }
    const auto split = command.begin() + static_cast<std::ptrdiff_t>(*program);
    const Command launcher(command.begin(), split);
    launch.emplace();
    launch->text = text_of({command.begin(), split + 1});
    launch->arguments.assign(split + 1, command.end());
    const std::string_view verb = launcher.empty() ? "" : swift_verb(launcher.back().text, split->text);
    launch->swift = !verb.empty();
    if (launch->swift) add_defaults(*launch, "ms-swift's", swift_defaults, notes);
    if (verb == "rlhf") add_defaults(*launch, "ms-swift's", swift_preferences, notes);
    launch->actors = starts_actors(launch->arguments);
    if (launch->actors) add_defaults(*launch, "slime's", slime_defaults, notes);
    if (const auto open = undecided_option(launcher))
      launch->open = *open;
    else if (launch->gpus = count_gpus(launcher, launch->arguments, script); !launch->gpus)
      name_open_number(launcher, script, *launch);
  }
  return launch;
}

Given group_arguments(const Command& words, std::vector<Note>& notes) {
  Given given;
  std::string name;
  GivenArgument current;
  const auto finish = [&] {
    const bool is_switch = current.values == std::vector<std::string>{"true"};
    if (is_switch && find_argument(name) != nullptr) current.values.clear();
    for (std::string& value : current.values) value = without_groups(std::move(value));
    if (current.condition == 0 && current.values == std::vector<std::string>{"false"})
      given.erase(name);
    else if (!name.empty())
      given.put(name, current);
  };
  for (const Word& word : words) {
    const std::string_view written = std::string_view(word.text).substr(0, word.text.find('='));
    const bool open = word.unknown && written.find_first_of("$`") != std::string_view::npos;
    if (is_name(word.text) && !open) {
      finish();
      name = known_name(written);
      current = {{}, word.line, word.unknown, word.condition};
      if (written.size() < word.text.size()) current.values.push_back(word.text.substr(written.size() + 1));
    } else if (name.empty() && !word.unknown) {
      notes.push_back({word.line, fmt::format("'{}' belongs to no argument", word.text)});
    } else if (word.unknown && (is_name(word.text) || !takes_unknown(name, current, word))) {
      given.put_open(word);
    } else {
      current.values.push_back(word.text);
      current.unknown = current.unknown || word.unknown;
      current.condition = current.condition > 0 ? current.condition : word.condition;
    }
  }
  finish();
  return given;
}

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
