
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "cli/data.h"
#include "cli/import/detail/execution.h"
#include "cli/import/detail/import.h"
#include "cli/inputs.h"
#include "cli/inputs_reader.h"
#include "cli/outputs.h"
#include "model/architecture/load_architecture.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/configurations/configuration.h"
#include "model/configurations/import.h"
#include "model/megatron/arguments.h"
#include "model/megatron/import.h"
#include "reports/text/table.h"
#include "sim/predict/predictor.h"
#include "sim/serving/serving.h"
#include "topologies/topology.h"

namespace plumbline::cli {
namespace {

constexpr double least_share = 0.0005;  // of the step, that is listed: it rounds to 0.1 %

struct Estimate {
  double step_s = 0, token_s = 0;
  bool fits = false;
};

// Returns the step in closed form, or why the plan cannot be laid out.
model::Result<Estimate> estimate(InputsReader& reader, model::Plan plan, const std::string& config) {
  if (!config.empty()) plan.model.config = config;
  const auto inputs = TRY(reader.of_plan(plan));
  if (model::is_deployment(plan)) {
    const auto rates = TRY(sim::ServingPredictor(inputs).rates(inputs.plan));
    return Estimate{rates.tpot_s, 1 / rates.output_tokens_per_s_per_gpu, true};
  }
  const auto predicted = TRY(sim::Predictor(inputs).closed_form(inputs.plan));
  const auto& batch = inputs.plan.batch;
  const double tokens = static_cast<double>(batch.global_batch_size) * static_cast<double>(batch.sequence_length);
  return Estimate{predicted.step.time_s, predicted.step.time_s / tokens, predicted.fits};
}

// Returns "KEY = VALUE, ..." of what the alternative has otherwise.
std::string changes(const model::Plan& plan, const model::Plan& other) {
  constexpr std::size_t most_named = 3;
  const auto before = plan_values(plan), after = plan_values(other);
  std::vector<std::string> named;
  for (const auto& [key, value] : after)
    if (const auto found = before.find(key); found == before.end() || found->second != value)
      named.push_back(fmt::format("{} = {}", key, value));
  for (const auto& [key, value] : before)
    if (!after.contains(key)) named.push_back(fmt::format("{} is not set", key));
  const std::size_t more = named.size() - std::min(named.size(), most_named);
  named.resize(std::min(named.size(), most_named));
  return fmt::format("{}{}", fmt::join(named, ", "), more > 0 ? fmt::format(", and {} more", more) : "");
}

// Whether the alternative differs in what generates alone, whose time is no part of an update's.
bool is_of_generation(const model::Plan& plan, const model::Plan& other) {
  if (!plan.rollout.given) return false;
  constexpr std::string_view samples[] = {"rollout.prompts",       "rollout.answers", "rollout.prompt_tokens",
                                          "rollout.answer_tokens", "rollout.updates", "rollout.max_answer_tokens",
                                          "rollout.epochs"};
  const auto generates = [&samples](std::string_view key) {
    const bool part = key.starts_with("rollout.") || key.starts_with("inference.");
    return part && std::ranges::find(samples, key) == std::end(samples);
  };
  const auto before = plan_values(plan), after = plan_values(other);
  if (before == after) return false;
  const auto outside = [&generates](const auto& these, const auto& those) {
    return std::ranges::any_of(these, [&](const auto& entry) {
      const auto found = those.find(entry.first);
      const bool same = found != those.end() && found->second == entry.second;
      return !same && !generates(entry.first);
    });
  };
  return !outside(before, after) && !outside(after, before);
}

struct Row {
  double effect = 0;
  std::string text;
};

void print_row(const Row& row) {
  constexpr std::size_t columns = 80, indent = 13;
  const std::vector<std::string> lines = reports::wrap(row.text, columns - indent);
  for (std::size_t i = 0; i < lines.size(); ++i)
    fmt::print(stderr, "{:>{}}  {}\n", i == 0 ? fmt::format("{:+.1f} %", 100 * row.effect) : "", indent - 2, lines[i]);
}

namespace fs = std::filesystem;
namespace megatron = model::megatron;

// Returns the shipped model that a name of Hugging Face has.
std::optional<megatron::NamedShape> shape_of_name(const std::string& name) {
  const auto found = model::configurations::find_named_model(name, &load_model);
  const auto path = found ? resolve_model("", found->model.shipped) : std::string();
  const auto text = path ? model::read_text_file(*path) : std::string();
  if (!found || !path || !text) return std::nullopt;
  const auto shape = megatron::nearest_shape_of(*text, *path, {});
  if (!shape) return std::nullopt;
  return megatron::NamedShape{found->model.shipped, *shape, found->further};
}

model::Result<void> name_model(const ImportArguments& arguments, megatron::ImportOptions& options) {
  if (arguments.model.empty()) {
    if (!is_beside_files(arguments.out))
      return model::wrong_input("--output", "the model of the script needs a file next to the plan",
                                "name the plan's file, or a model with --model");
    options.config = fs::path(adjacent_config(arguments.out)).filename().string();
    options.find_model = &shape_of_name;
    return {};
  }
  const auto path = TRY(resolve_model("", arguments.model));
  const auto text = TRY(model::read_text_file(path));
  options.model = TRY(megatron::nearest_shape_of(text, path, {}));
  options.config = named_model(arguments.model);
  return {};
}

// Finds what a script sources or asks for: any file by a path relative to the script's folder, and what lies in that
// folder; of others nothing is known.
megatron::FoundFile find_near(const fs::path& folder, const std::string& path) {
  using megatron::FileKind;
  std::error_code failed;
  const fs::path whole = (folder / path).lexically_normal();
  const auto [end, ignored] = std::ranges::mismatch(folder, whole);
  const bool inside = end == folder.end();
  if (!inside && fs::path(path).is_absolute()) return {};
  if (fs::is_directory(whole, failed)) return {FileKind::folder, ""};
  if (!fs::is_regular_file(whole, failed)) return {inside ? FileKind::none : FileKind::unknown, ""};
  const auto text = model::read_text_file(whole.string());
  return text ? megatron::FoundFile{FileKind::file, *text} : megatron::FoundFile();
}

model::Result<megatron::ImportOptions> options_of(const ImportArguments& arguments) {
  megatron::ImportOptions options;
  options.definitions = TRY(definitions_of(arguments));
  options.more_arguments = arguments.more_arguments;
  options.overrides = arguments.overrides;
  if (arguments.gpus) options.overrides.push_back(fmt::format("cluster.gpus={}", *arguments.gpus));
  if (!arguments.topology.empty()) options.topology = arguments.topology;
  std::error_code failed;
  const fs::path folder = fs::absolute(arguments.file, failed).lexically_normal().parent_path();
  options.folder = folder.string();
  options.find_file = [folder](const std::string& path) { return find_near(folder, path); };
  TRY(name_model(arguments, options));
  return options;
}

// Returns the words of an argument; the test runner splits "[a b]" too.
std::vector<std::string> words_of(const model::configurations::Entry& entry) {
  if (entry.is_list) return entry.items;
  if (entry.is_null()) return {};
  if (!entry.value.starts_with('[') || !entry.value.ends_with(']')) return {entry.value};
  std::string inside = entry.value.substr(1, entry.value.size() - 2);
  std::ranges::replace(inside, ',', ' ');
  std::vector<std::string> words;
  for (const std::string_view word : model::split_at(inside, ' '))
    if (!word.empty()) words.emplace_back(word);
  return words;
}

// Returns the MODEL_ARGS of a functional test of Megatron-LM as arguments of its program.
model::Result<megatron::Command> command_of_test(const std::string& text, const std::string& path) {
  constexpr std::string_view section = "MODEL_ARGS.";
  const std::vector<model::configurations::Rename> none;
  const auto file = TRY(model::configurations::read_yaml({text, path, none, "", {}}));
  megatron::Command command = {{"python", 1}, {"pretrain_gpt.py", 1}};
  const std::size_t program = command.size();
  for (const model::configurations::Entry& entry : file.entries) {
    if (!entry.written.starts_with(section)) continue;
    command.push_back({entry.written.substr(section.size()), entry.line});
    if (megatron::known_name(command.back().text) == "--hybrid-layer-pattern") command[1].text = "pretrain_hybrid.py";
    for (std::string& word : words_of(entry)) command.push_back({std::move(word), entry.line});
  }
  if (command.size() == program)
    return model::wrong_input_at(path, 0, "", "has no MODEL_ARGS, as functional tests of Megatron-LM do",
                                 "import the script that starts the training");
  return command;
}

// Executes the script on a node of the cluster that the plan is for.
model::Result<megatron::ImportedScript> import_executed(const ImportArguments& arguments, const std::string& text,
                                                        const megatron::ImportOptions& options) {
  const auto cluster = TRY(find_topology(options.topology.value_or(std::string(megatron::default_topology)), {}));
  const auto execution =
      TRY(execute({.script = arguments.file,
                   .arguments = {arguments.files.begin() + 1, arguments.files.end()},
                   .environment = options.definitions,
                   .gpus_per_node = cluster.fabric.gpus_per_host(),
                   .deadline = std::chrono::milliseconds(std::llround(arguments.deadline_s * 1000))}));
  return megatron::import_execution(execution, text, arguments.file, options);
}

// Prints what the step rests on: what is assumed, and what is not modelled. Arguments without a cost are counted.
void print_megatron_notes(const ImportArguments& arguments, const megatron::ImportedScript& imported) {
  std::size_t free = 0;
  for (const megatron::Note& note : imported.notes) {
    const bool no_cost = note.kind == megatron::NoteKind::no_cost;
    if (no_cost) ++free;
    if (!no_cost || arguments.verbose)
      fmt::print(stderr, "{}: {}\n", megatron::place_of(imported.files, note.line), model::printable(note.text));
  }
  if (free > 0 && !arguments.verbose)
    fmt::print(stderr, "{}: {} argument{} no cost (--verbose lists {})\n", arguments.file, free,
               free == 1 ? " changes" : "s change", free == 1 ? "it" : "them");
}

void decide_kernels(const ImportArguments& arguments, megatron::ImportedScript& imported) {
  for (const KernelChange& change : take_gpu_kernels(arguments.overrides, imported.plan))
    imported.notes.insert(imported.notes.begin(), {0, change.note});
  for (model::PlanAlternative& other : imported.alternatives) take_gpu_kernels(arguments.overrides, other.plan);
}

void print_effects(const ImportArguments& arguments, const megatron::ImportedScript& imported) {
  const auto place = [&imported](int line) {
    return line < megatron::lines_of_a_file ? fmt::format("line {}", line) : megatron::place_of(imported.files, line);
  };
  const std::string config = imported.config ? fs::absolute(adjacent_config(arguments.out)).string() : "";
  print_decisions({imported.plan, imported.alternatives, place, config, arguments.verbose});
}

}  // namespace

void print_decisions(const Decisions& decisions) {
  if (decisions.alternatives.empty()) return;
  InputsReader reader(Purpose::stated);
  const auto now = estimate(reader, decisions.plan, decisions.config);
  if (!now) {
    model::Error error = now.error();
    if (error.file == decisions.plan.file) error.file.clear();  // its lines are those of the plan, not of that file
    return fmt::print(stderr, "the plan is not predicted: {}\n", to_string(error));
  }
  std::vector<Row> rows;
  std::vector<std::string> small, alone, generation;
  for (const model::PlanAlternative& alternative : decisions.alternatives) {
    const std::string what =
        alternative.text + (alternative.line > 0 ? fmt::format(" ({})", decisions.place(alternative.line)) : "");
    if (is_of_generation(decisions.plan, alternative.plan)) {
      generation.push_back(what);
      continue;
    }
    const auto other = estimate(reader, alternative.plan, decisions.config);
    if (!other) {
      alone.push_back(what);
      continue;
    }
    const double effect = other->token_s / now->token_s - 1;
    if (!decisions.all && std::abs(effect) < least_share && other->fits == now->fits)
      small.push_back(what);
    else
      rows.push_back({effect, fmt::format("{}: {}{}", what, changes(decisions.plan, alternative.plan),
                                          other->fits == now->fits ? ""
                                          : other->fits            ? "; fits in memory"
                                                                   : "; does not fit in memory")});
  }
  std::ranges::stable_sort(rows, std::greater(), [](const Row& row) { return std::abs(row.effect); });
  if (model::is_deployment(decisions.plan))
    fmt::print(stderr, "decides the GPU time of an output token, a TPOT of {} by components (each change alone):\n",
               reports::duration(now->step_s));
  else
    fmt::print(stderr, "decides {}, {} in closed form (time per token, each change alone):\n",
               decisions.plan.rollout.given ? "an update" : "the step", reports::duration(now->step_s));
  for (const Row& row : rows) print_row(row);
  if (!small.empty())
    fmt::print(stderr, "{}", reports::wrapped(fmt::format("by less than 0.1 %: {}", fmt::join(small, ", ")), 2));
  if (!generation.empty())
    fmt::print(stderr, "{}",
               reports::wrapped(
                   fmt::format("of the step's other parts, which simulate shows: {}", fmt::join(generation, ", ")), 2));
  if (!alone.empty())
    fmt::print(stderr, "{}", reports::wrapped(fmt::format("not possible alone: {}", fmt::join(alone, ", ")), 2));
}

std::vector<KernelChange> take_gpu_kernels(const model::Device& device, const std::vector<std::string>& overrides,
                                           model::Plan& plan) {
  std::vector<KernelChange> changes;
  const bool asked =
      std::ranges::any_of(overrides, [](const std::string& text) { return text.starts_with("attention.kernel="); });
  if (plan.attention.kernel == "fused" && lacks(device, "cudnn") && lacks(device, "flash2") && !asked) {
    plan.attention.kernel = "unfused";
    changes.push_back({"attention.kernel=\"unfused\"",
                       fmt::format("{} runs neither FlashAttention nor cuDNN's attention: attention.kernel = "
                                   "\"unfused\"",
                                   device.name)});
  }
  return changes;
}

std::vector<KernelChange> take_gpu_kernels(const std::vector<std::string>& overrides, model::Plan& plan) {
  const auto topology = find_topology(plan.cluster.topology, topologies::variation_of(plan));
  if (!topology) return {};
  return take_gpu_kernels(topology->cluster.device, overrides, plan);
}

model::Result<megatron::Definitions> definitions_of(const ImportArguments& arguments) {
  megatron::Definitions definitions;
  if (arguments.format == "megatron" && !arguments.execute && arguments.files.size() > 1) {
    const auto parameters = megatron::script_parameters(TRY(model::read_text_file(arguments.file)));
    if (arguments.files.size() - 1 > parameters.size())
      return model::wrong_input(
          "FILE", fmt::format("'{}' is one argument too many for the script", arguments.files[parameters.size() + 1]),
          parameters.empty() ? "it reads none of its own; --execute runs one that passes all of them on"
                             : fmt::format("it takes {}", fmt::join(parameters, " ")));
    for (std::size_t place = 1; place < arguments.files.size(); ++place)
      definitions[std::to_string(place)] = arguments.files[place];
  }
  for (const std::string& text : arguments.definitions) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return model::wrong_input("--define", fmt::format("'{}' is not NAME=VALUE", text),
                                "for example --define NNODES=16");
    definitions[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return definitions;
}

// Adds what the script takes on its command line to the error of one that lacks such an argument.
model::Error with_parameters(model::Error error, const ImportArguments& arguments) {
  const auto text = model::read_text_file(arguments.file);
  const auto parameters = text ? megatron::script_parameters(*text) : std::vector<std::string>();
  if (arguments.files.size() > 1 || parameters.empty() || !model::contains(error.message, "'$")) return error;
  error.hint += fmt::format("{}the script takes {}, which stand behind --: -- {}", error.hint.empty() ? "" : "; ",
                            parameters.size() == 1 ? "an argument" : fmt::format("{} arguments", parameters.size()),
                            fmt::join(parameters, " "));
  return error;
}

// Writes the model's config.json next to the plan; prints to stderr what the step rests on.
model::Result<void> import_megatron_script(const ImportArguments& arguments, const MegatronScript& script) {
  const auto options = TRY(options_of(arguments));
  auto imported = TRY(script.import(options).map_error(
      [&](model::Error error) { return with_parameters(std::move(error), arguments); }));
  for (const std::string& file : imported.files) {
    TRY(refuse_own_input(arguments.out, file));
    TRY(refuse_own_input(arguments.out, (fs::path(options.folder) / file).string()));
  }
  decide_kernels(arguments, imported);
  imported.notes.insert(imported.notes.begin(), script.notes.begin(), script.notes.end());
  if (imported.config) {
    const std::string path = adjacent_config(arguments.out);
    TRY(write_adjacent_config(arguments.out, imported.config->json));
    fmt::print(stderr, "{}: the model as a config.json of type {}\n", path, imported.config->model_type);
  }
  if (!imported.plan.stack.name) imported.plan.stack.name = script.stack;
  for (model::PlanAlternative& other : imported.alternatives)
    if (!other.plan.stack.name) other.plan.stack.name = script.stack;
  TRY(write_output(arguments.out, to_toml(imported.plan)));
  print_effects(arguments, imported);
  print_megatron_notes(arguments, imported);
  return {};
}

model::Result<void> import_megatron(const ImportArguments& arguments) {
  const std::string text = TRY(model::read_text_file(arguments.file));
  const bool yaml = arguments.file.ends_with(".yaml") || arguments.file.ends_with(".yml");
  if (yaml && arguments.files.size() > 1)
    return model::wrong_input("FILE", fmt::format("'{}' is one file too many", arguments.files[1]),
                              "a script takes arguments behind --");
  if (!yaml)
    return import_megatron_script(arguments, {[&](const megatron::ImportOptions& options) {
                                    return arguments.execute ? import_executed(arguments, text, options)
                                                             : megatron::import_script(text, arguments.file, options);
                                  }});
  if (arguments.execute) return model::wrong_input("--execute", "the file is no script", "leave it out");
  const megatron::Command command = TRY(command_of_test(text, arguments.file));
  const std::string note = fmt::format("the arguments are taken for those of {}", command[1].text);
  const auto import = [&](const megatron::ImportOptions& options) {
    return megatron::import_script(megatron::Script{.commands = {command}}, arguments.file, options);
  };
  return import_megatron_script(arguments, {.import = import, .notes = {{0, note}}});
}

}  // namespace plumbline::cli
