#include "model/megatron/detail/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/decimal.h"
#include "model/megatron/detail/fields.h"
#include "model/megatron/rules.h"
#include "model/megatron/shell/arithmetic.h"
#include "model/plan/plan_fields.h"

namespace plumbline::model::megatron {
namespace {

// Returns the key with the value that an argument asks for, though it is not taken for the same; "" where none has it.
std::string nearest_setting(std::string_view name, const GivenArgument& argument) {
  constexpr std::pair<std::string_view, std::string_view> keys[] = {
      {"--moe-hybridep-num-sms", "overlap.communication_sms"},
      {"--moe-router-topk-limited-devices", "routing.max_nodes_per_token"}};
  if (name == "--swap-optimizer") return "offload.optimizer=true";
  for (const auto& [argument_name, key] : keys)
    if (name == argument_name && argument.values.size() == 1 && integer(argument.values[0]))
      return fmt::format("{}={}", key, argument.values[0]);
  return name == "--fine-grained-activation-offloading" ? "offload.activations=1" : "";
}

// Whether an argument that no plan has asks for what is priced.
bool is_priced(std::string_view name, const GivenArgument& argument) {
  if (argument.values.empty() || argument.unknown || argument.condition > 0) return false;
  // The layers of hybrid models under their names of 2024 and 2026.
  const std::string& last = argument.values.back();
  if (name == "--spec" && (last == "mamba_stack_spec" || last == "hybrid_stack_spec")) return true;
  if (argument.values.size() != 1) return false;
  const auto number = parse_decimal(argument.values[0]);
  return (name == "--outer-dp-sharding-strategy" && last == "no_shard") ||
         (name == "--context-parallel-algo" && last == "megatron_cp_algo") ||
         (name == "--mlp-type" && last == "standard") ||
         ((name == "--stage" || name == "--loss-type") && (last == "pt" || last.starts_with("sft"))) ||
         (name == "--ds-sequence-parallel-size" && number && number->value() == 1) ||
         (name.ends_with("-dropout") && number && number->value() == 0);
}

std::string program_of(const Launch& launch) { return launch.text.substr(launch.text.find_last_of(" /") + 1); }

// Whether a command of this name starts a program that it is given.
bool starts_programs(std::string_view name) {
  constexpr std::string_view launchers[] = {"torchrun", "python", "python3", "mpirun", "mpiexec", "srun", "deepspeed"};
  return name.starts_with('$') || std::ranges::find(launchers, name) != std::end(launchers);
}

// Whether it stands in no plan.
bool has_no_key(const Argument* known) {
  return known == nullptr || known->meaning == Meaning::no_cost || known->meaning == Meaning::not_modeled;
}

}  // namespace

Result<ImportedScript> Importer::run(const Reading& reading) {
  reading_ = &reading;
  files_ = reading.script.files;
  if (auto error = read_launch()) return tl::unexpected(*error);
  if (auto error = read_rows()) return tl::unexpected(*error);
  read_older_names();
  if (auto error = settle_model()) return tl::unexpected(*error);
  for (const Rule& rule : rules()) rule.read({given_, out_.shape, out_.plan, out_.notes});
  if (auto error = refusal()) return tl::unexpected(*error);
  if (auto error = settle_plan()) return tl::unexpected(*error);
  note_silence();
  note_reading();
  std::ranges::stable_sort(out_.notes, {}, &Note::line);
  out_.files = files_;
  return std::move(out_);
}

Error Importer::problem(std::string_view argument, std::string message, std::string hint) const {
  return placed({ErrorKind::input, std::move(message), "", 0, std::string(argument), std::move(hint)},
                given_.line(argument));
}

Error Importer::placed(Error error, int line) const {
  error.file = files_[static_cast<std::size_t>(line / lines_of_a_file)];
  error.line = line % lines_of_a_file;
  return error;
}

std::optional<Error> Importer::read_launch() {
  const auto more = read_script(options_.more_arguments, {.path = "--args", .definitions = options_.definitions});
  if (!more) return more.error();
  auto launch = find_launch(reading_->script, out_.notes);
  if (!launch) return no_launch(reading_->script);
  launch_ = std::move(*launch);
  for (const Command& command : more->commands)
    for (const Word& word : command) launch_.arguments.push_back({word.text, 0});
  given_ = group_arguments(launch_.arguments, out_.notes);
  if (given_.open()) return not_known("", *given_.open());
  given_.erase(without_);
  const std::string program = program_of(launch_);
  const auto is_named = [words = "_" + program.substr(0, program.find('.')) + "_"](std::string_view part) {
    return words.find(fmt::format("_{}_", part)) != std::string::npos;
  };
  for (const char* encoder : {"bert", "t5", "ict", "pretrain_vision"})
    if (is_named(encoder) && !options_.model)
      return problem("", fmt::format("{} trains an encoder, and models are decoders", program),
                     "--model NAME takes a decoder of its size in its place");
  for (const char* other : {"bert", "t5", "ict", "retro", "vision", "vlm", "multimodal"})
    if (is_named(other))
      out_.notes.push_back({0, fmt::format("{}: a decoder is priced", program), NoteKind::not_modeled});
  out_.plan = megatron_defaults();
  out_.plan.cluster.gpus = launch_.gpus.value_or(0);
  return std::nullopt;
}

Error Importer::no_launch(const Script& script) const {
  constexpr std::string_view message = "no command runs a .py file with arguments of Megatron-LM";
  for (const Command& command : script.commands) {
    const auto open =
        std::ranges::find_if(command, [](const Word& word) { return word.unknown || word.condition > 0; });
    if (script.exit_line == 0 && open != command.end() && starts_programs(command.front().text)) {
      Error error = not_known("", *open);
      error.message = fmt::format("{}; {}", message, error.message);
      return error;
    }
  }
  if (script.exit_line == 0)
    return problem(
        "", std::string(message),
        "--execute runs the script and takes what it starts; a script that it starts can be imported itself");
  return placed(problem("", "the script ends here before it starts a training",
                        "--define the variables that it asks for (1 is its first parameter), or --execute it"),
                script.exit_line);
}

// Names the variables that are empty because the script does not set them.
std::string Importer::remedy_of_empty() const {
  std::vector<std::string> defines;
  for (const Word& word : reading_->script.defaults)
    if (word.text.ends_with('=')) defines.push_back(fmt::format("--define {}VALUE", word.text));
  return fmt::format("{}", fmt::join(defines, ", "));
}

// Notes what the reading rests on: defaults of the script itself, and files that are not read.
void Importer::note_reading() {
  std::vector<std::string> defaults;
  for (const Word& word : reading_->script.defaults)
    defaults.push_back(word.text + (word.text.ends_with('=') ? "''" : ""));
  if (!defaults.empty())
    out_.notes.push_back(
        {0, fmt::format("the script's own defaults hold, --define changes them: {}", fmt::join(defaults, ", "))});
  for (const Word& word : reading_->script.notes) out_.notes.push_back({word.line, word.text});
}

std::optional<Error> Importer::read_rows() {
  for (const auto& [name, argument] : given_.all()) {
    const Argument* known = find_argument(name);
    if (has_no_key(known)) {
      note_unread(name, argument, known);
      continue;
    }
    if (argument.unknown || argument.condition > 0)
      return not_known(
          name, {argument.values.empty() ? name : argument.values.front(), argument.line, true, argument.condition});
    if (!known->key.empty()) lines_[std::string(known->key)] = argument.line;
    if (known->meaning == Meaning::rule) continue;
    const bool is_flag = known->meaning == Meaning::flag;
    if (is_flag ? !argument.values.empty() : argument.values.size() != 1)
      return problem(name,
                     is_flag ? "takes no value" : fmt::format("needs one value, found {}", argument.values.size()),
                     is_flag ? "" : remedy_of_empty());
    const std::string value = is_flag ? "true" : argument.values.front();
    if (!set(known->key, value)) return not_a_number(name, value);
  }
  return std::nullopt;
}

std::optional<Error> Importer::refusal() const {
  const auto note = std::ranges::find(out_.notes, NoteKind::refused, &Note::kind);
  if (note == out_.notes.end()) return std::nullopt;
  return placed(
      {ErrorKind::input, note->text, "", 0, "", "Megatron-LM does not start with it; --args changes arguments"},
      note->line);
}

Error Importer::not_a_number(std::string_view name, const std::string& value) const {
  return problem(name, fmt::format("'{}' is no value for it", value), "expected a number");
}

// Names a word that is not known, with the condition that decides it or the first variable in it that the script does
// not set.
Error Importer::not_known(std::string_view argument, const Word& word) const {
  const auto error = [&](const std::string& message, const std::string& hint) {
    return placed(problem(argument, message, hint), word.line);
  };
  if (word.condition > 0) {
    const Condition& condition = reading_->script.conditions[static_cast<std::size_t>(word.condition - 1)];
    return error(fmt::format("{} ({})", undecided(condition), place_of(files_, condition.line)), remedy(condition));
  }
  const std::string& text = word.text;
  const bool is_command = text.find('`') != std::string::npos ||
                          (text.find("$(") != std::string::npos && text.find("$((") == std::string::npos);
  // A variable may be set to what is not known, such as TP=${TP:-8} behind a file that is not read.
  const auto is_set = [&variables = reading_->script.variables](const std::string& name) {
    const auto found = variables.find(name);
    return found != variables.end() && found->second.find('$') == std::string::npos;
  };
  std::string name;
  for (const char letter : is_command ? std::string() : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_')
      name += letter;
    else if (name.empty() || is_set(name) || std::isdigit(static_cast<unsigned char>(name[0])) != 0)
      name.clear();
    else
      break;
  }
  const Word& unread = reading_->script.unread;
  const std::string why =
      name.empty() || unread.text.empty()
          ? ""
          : fmt::format(": '{}' ({}) is not read and may set {}", unread.text, place_of(files_, unread.line), name);
  return error(
      fmt::format("'{}' is not known{}", text, why),
      fmt::format("{}--execute runs the script", name.empty() ? "" : fmt::format("--define {}=VALUE, or ", name)));
}

void Importer::note_unread(const std::string& name, const GivenArgument& argument, const Argument* known) {
  std::string text = name;
  for (const std::string& value : argument.values) text += " " + value;
  const bool free = known != nullptr && (known->meaning == Meaning::no_cost || is_priced(name, argument));
  if (known == nullptr) {
    const std::string nearest = nearest_argument(name);
    text += nearest.empty() ? ": unknown; it may change the cost"
                            : fmt::format(": unknown; it may change the cost (did you mean '{}'?)", nearest);
  } else if (free) {
    text += ": changes no cost";
  } else {
    text += fmt::format(": not modelled; it can change the cost{}{}", known->note.empty() ? "" : ": ", known->note);
  }
  if (const std::string setting = nearest_setting(name, argument); !setting.empty())
    open_.push_back({argument.line, fmt::format("with what is nearest to {}", name), "", setting});
  out_.notes.push_back({argument.line, std::move(text), free ? NoteKind::no_cost : NoteKind::not_modeled});
}

// Notes defaults of Megatron that often decide a step, where the script does not choose.
void Importer::note_silence() {
  const auto silent = [this](bool applies, std::string_view argument, std::string_view meaning) {
    const std::string_view name = argument.substr(0, argument.find(' '));
    if (!applies || given_.has(name)) return;
    out_.notes.push_back({0, fmt::format("{} is not given: {}", name, meaning)});
    open_.push_back({0, fmt::format("with {}", argument), std::string(argument), ""});
  };
  const Plan& plan = out_.plan;
  const auto& degrees = plan.parallelism;
  const double replica = static_cast<double>(degrees.tensor) * static_cast<double>(degrees.pipeline) *
                         static_cast<double>(degrees.context);
  const bool reduces = static_cast<double>(plan.cluster.gpus) > replica;
  silent(plan.precision.gemm == Precision::fp32, "--bf16", "numbers are FP32");
  silent(reduces && !plan.overlap.gradient_reduce, "--overlap-grad-reduce",
         "gradients are reduced after the backward pass");
  silent(reduces && !plan.overlap.parameter_gather, "--overlap-param-gather",
         "parameters are gathered before the forward pass");
  silent(degrees.tensor > 1 && degrees.sequence && !plan.overlap.tensor, "--tp-comm-overlap",
         "GEMMs wait for tensor-parallel collectives");
  silent(out_.shape.experts && *out_.shape.experts > degrees.expert, "--moe-grouped-gemm",
         "a rank's experts run one after another; they are priced as one grouped GEMM");
  silent(out_.shape.experts && degrees.expert > 1 && plan.stack.dispatcher == "allgather",
         "--moe-token-dispatcher-type alltoall", "every rank gathers all tokens");
}

bool Importer::set(std::string_view key, std::string_view value) {
  bool done = false;
  const auto visit = [&](std::string_view name, auto& field) {
    if (name != key) return;
    if constexpr (requires { set_field(field, value); }) done = set_field(field, value);
  };
  visit_fields(out_.plan, visit);
  visit_shape(out_.shape, visit);
  return done;
}

}  // namespace plumbline::model::megatron
