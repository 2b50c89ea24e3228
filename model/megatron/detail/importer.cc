#include "model/megatron/detail/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "model/base/decimal.h"
#include "model/base/integers.h"
#include "model/base/text.h"
#include "model/megatron/detail/fields.h"
#include "model/megatron/model_shape.h"
#include "model/megatron/rules.h"
#include "model/plan/alternative.h"
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
  if (auto error = begin_rollout()) return tl::unexpected(*error);
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
  for (const auto& [name, misspelt] : given_.all())
    if (!given_.has(argument) && find_argument(name) == nullptr && nearest_argument(name) == argument)
      return placed({ErrorKind::input, std::move(message), "", 0, std::string(argument),
                     fmt::format("did you mean '{}' by '{}'? otherwise {}", argument, name, hint)},
                    misspelt.line);
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
  if (without_ == "--recompute-granularity") given_.erase("--recompute-method");  // which alone means full
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
      {ErrorKind::input, note->text, "", 0, "", "the training does not start with it; --args changes arguments"},
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
  const bool priced =
      known != nullptr && !argument.unknown && argument.condition == 0 && is_priced(name, argument.values);
  const bool free = known != nullptr && (known->meaning == Meaning::no_cost || priced);
  const bool layers = priced && name == "--spec";
  const bool of_engine =
      known == nullptr && (name.starts_with("--sglang-") || name.starts_with("--vllm-") || name.starts_with("--vllm_"));
  if (of_engine) {
    text += fmt::format(": not modelled; it can change the cost: {}",
                        prices_rollout() ? "the engine is as its stack has it" : "what generates is not priced");
  } else if (known == nullptr) {
    const std::string nearest = nearest_argument(name);
    text += nearest.empty() ? ": unknown; it may change the cost"
                            : fmt::format(": unknown; it may change the cost (did you mean '{}'?)", nearest);
  } else if (layers) {
    text += ": its layers are priced";
  } else if (free) {
    text += ": changes no cost";
  } else {
    text += fmt::format(": not modelled; it can change the cost{}{}", known->note.empty() ? "" : ": ", known->note);
  }
  if (const std::string setting = nearest_setting(name, argument); !setting.empty())
    open_.push_back({argument.line, fmt::format("with what is nearest to {}", name), "", setting});
  out_.notes.push_back({argument.line, std::move(text),
                        layers ? NoteKind::assumed
                        : free ? NoteKind::no_cost
                               : NoteKind::not_modeled});
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

// The model and the plan that follow from the arguments of a script.
namespace {

constexpr std::int64_t kLargest = 1'000'000'000;  // limit of a dimension: products of two fit 64 bits
constexpr std::string_view kComment = " plumbline: ", kNotSet = " is not set";

// Vocabularies of known tokenizers; the first is that of pretrain_gpt.py.
constexpr std::pair<std::string_view, std::int64_t> tokenizers[] = {{"GPT2BPETokenizer", 50257},
                                                                    {"Llama2Tokenizer", 32000}};

}  // namespace

// Sets what MindSpeed and Megatron-DeepSpeed state by other arguments than Megatron-LM.
void Importer::read_names_of_forks() {
  ModelShape& shape = out_.shape;
  const auto number = [this](std::string_view name) -> std::int64_t {
    const auto text = given_.value(name);
    const auto value = text ? integer(*text) : std::nullopt;
    const bool whole = value && *value >= 0 && *value <= kLargest;
    if (text && !whole)
      out_.notes.push_back(
          {given_.line(name), fmt::format("{}: '{}' is no whole number", name, *text), NoteKind::refused});
    return whole ? *value : 0;
  };
  if (const std::int64_t heads = number("--num-key-value-heads"); heads > 0) {
    shape.grouped_query = true;
    shape.query_groups = heads;
  }
  const bool deepspeed = given_.has("--deepspeed");
  if (shape.experts == 0 || (deepspeed && shape.experts == 1)) shape.experts.reset();
  if (shape.experts && deepspeed) {
    if (!given_.has("--moe-layer-freq")) shape.expert_layers = "2";
    if (!given_.has("--moe-router-topk")) shape.experts_per_token = 1;
    out_.notes.push_back({given_.line("--num-experts"),
                          fmt::format("--deepspeed: one of {} layers has experts, {} of them for each token",
                                      shape.expert_layers, shape.experts_per_token)});
  }
  for (const char* padded : {"--padded-vocab-size", "--pad-vocab-size-to"})
    if (const std::int64_t size = number(padded); size > 0 && !shape.vocabulary) shape.vocabulary = size;
  if (const auto idle = parse_noop_layers(given_.value("--noop-layers").value_or("")))
    shape.layers -= static_cast<std::int64_t>(idle->size());
  const std::int64_t dense = number("--first-k-dense-replace");
  if (dense > 0 && dense < shape.layers && shape.expert_layers == ModelShape().expert_layers)
    shape.expert_layers = fmt::format("([0]*{}+[1]*{})", dense, shape.layers - dense);
  const std::int64_t shared = number("--n-shared-experts");
  if (shared > 0 && !shape.shared_expert_ffn && shape.expert_ffn && *shape.expert_ffn <= kLargest)
    shape.shared_expert_ffn = shared * *shape.expert_ffn;
  // slime's layers of Qwen3-Next and Qwen3.5, of which their Hugging Face configurations make every fourth one full
  // attention (slime_plugins/models/qwen3_next.py and qwen3_5.py).
  const auto spec = given_.values("--spec");
  if (!spec.empty() && (spec.back() == "get_qwen3_next_spec" || spec.back() == "get_qwen3_5_spec")) {
    shape.attention_variant = "gated_delta_net";
    if (shape.linear_layers.empty()) shape.linear_layers = "4";
    shape.output_gate = true;
    if (!given_.has("--linear-num-value-heads"))
      out_.notes.push_back({given_.line("--spec"),
                            "assumed: linear attention has Megatron's heads and columns; --linear-num-value-heads and "
                            "its kin state those of the model"});
  }
  if (given_.has("--enable-dsa-indexer")) {
    shape.attention_variant = "dsa";
    shape.indexer_heads = shape.indexer_heads.value_or(64);
    shape.indexer_dim = shape.indexer_dim.value_or(128);
    shape.indexer_tokens = shape.indexer_tokens.value_or(2048);
  }
}

void Importer::read_older_names() {
  read_names_of_forks();
  if (given_.has("--use-rotary-position-embeddings")) out_.shape.position = "rope";
  for (const char* norm : {"RMSNorm", "LayerNorm"})
    if (lower_case(out_.shape.normalization) == lower_case(norm)) out_.shape.normalization = norm;
  if (std::string window = given_.value("--window-size").value_or(""); !window.empty()) {
    std::erase(window, '(');
    const auto before = integer(window.substr(0, window.find_first_of(",)")));
    if (before && *before > 0) out_.shape.window = before;
  }
  if (out_.shape.vocabulary) {
    // Its end of a document is a token more.
    const bool null = given_.value("--tokenizer-type") == "NullTokenizer" && *out_.shape.vocabulary < kLargest;
    if (null) ++*out_.shape.vocabulary;
    return;
  }
  // These programs have a tokenizer of their own (args_defaults of their call of pretrain).
  const bool has_own = std::ranges::any_of(std::array{"pretrain_gpt.py", "pretrain_mamba.py", "pretrain_hybrid.py"},
                                           [this](const char* program) { return launch_.text.ends_with(program); });
  const std::string_view of_program = has_own ? tokenizers[0].first : "";
  const std::string type = given_.value("--tokenizer-type").value_or(std::string(of_program));
  for (const auto& [name, size] : tokenizers) {
    if (type != name) continue;
    out_.shape.vocabulary = size;
    out_.notes.push_back(
        {given_.line("--tokenizer-type"), fmt::format("--tokenizer-type {}: vocabulary of {} assumed", name, size)});
  }
}

// The lengths of prompts and answers, which no script has.
namespace {

constexpr std::string_view mean_prompt = "rollout.prompt_tokens", longest_answer = "rollout.max_answer_tokens",
                           answer_lengths[] = {mean_prompt, "rollout.answer_tokens", "rollout.answer_tokens_sd"};
constexpr std::string_view state_lengths =
    "--set rollout.prompt_tokens=N --set rollout.answer_tokens=N --set rollout.answer_tokens_sd=N state the lengths in "
    "the mean, and the deviation of those of answers, for the whole step with its generation";

}  // namespace

// Whether an engine generates what is trained on.
bool Importer::generates() const {
  if (launch_.swift) return given_.value("--rlhf-type") == "grpo";
  const bool text = given_.value("--loss-type").value_or("").starts_with("sft") || given_.has("--debug-train-only");
  return launch_.actors && given_.has("--rollout-batch-size") && !text;
}

bool Importer::prices_rollout() const {
  return generates() &&
         std::ranges::all_of(answer_lengths, [this](std::string_view key) { return overridden(key).has_value(); });
}

// Returns the number that an override gives a key, rounded up; 0 for other text.
std::optional<std::int64_t> Importer::overridden(std::string_view key) const {
  std::optional<std::int64_t> last;
  for (const std::string_view text : options_.overrides) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || trimmed(text.substr(0, equals)) != key) continue;
    const auto number = parse_decimal(trimmed(text.substr(equals + 1)));
    const bool whole = number && number->value() >= 0 && number->value() <= static_cast<double>(kLargest);
    last = whole ? static_cast<std::int64_t>(std::ceil(number->value())) : 0;
  }
  return last;
}

// Gives the plan [rollout] where the lengths of its samples are stated, or notes that an update alone is priced.
std::optional<Error> Importer::begin_rollout() {
  if (!generates()) return std::nullopt;
  if (!prices_rollout() && launch_.swift)
    return problem("--rlhf-type", "the lengths of what grpo generates are not in the script, its longest alone",
                   std::string(state_lengths));
  if (!prices_rollout()) {
    out_.notes.push_back(
        {given_.line("--rollout-batch-size"),
         fmt::format("--rollout-batch-size: a step of the training is priced, its rollout is not: {}", state_lengths)});
    return std::nullopt;
  }
  auto& rollout = out_.plan.rollout;
  rollout.given = out_.plan.inference.given = true;
  rollout.prompt_tokens = overridden(mean_prompt).value_or(0);
  rollout.max_answer_tokens = overridden(longest_answer).value_or(0);
  rollout.placement = program_of(launch_).ends_with("_async.py") ? "asynchronous" : "split";
  return std::nullopt;
}

std::optional<Error> Importer::require(std::string_view argument, std::int64_t value) const {
  if (value > 0) return std::nullopt;
  if (given_.has("--rollout-batch-size") && argument == "--seq-length")
    return problem(
        argument, "is not in the script: its samples are as long as they are generated",
        fmt::format("{}state their mean, prompt and answer, with --args \"--seq-length N\"{}",
                    generates() ? fmt::format("{}; ", state_lengths) : "", generates() ? " for an update alone" : ""));
  return problem(argument, "is not in the script, or not above 0",
                 fmt::format("add it with --args \"{} N\"", argument));
}

// Sets the layers of a hybrid model: those of the pattern, else those of the shares that older versions have. There
// pretrain_mamba.py without either has layers of Mamba-2 alone.
std::optional<Error> Importer::settle_layers() {
  ModelShape& shape = out_.shape;
  constexpr std::string_view name = "--hybrid-layer-pattern", attention = "--hybrid-attention-ratio",
                             mlp = "--hybrid-mlp-ratio", modules = "--mtp-hybrid-override-pattern";
  const bool shares = given_.has(attention) || given_.has(mlp) || launch_.text.ends_with("pretrain_mamba.py");
  std::string text = given_.value(name).value_or("");
  if (!given_.has(name) && !shares) return std::nullopt;
  if (!given_.has(name)) {
    const auto share = [this](std::string_view argument) {
      return parse_number<double>(given_.value(argument).value_or("0")).value_or(-1);
    };
    text = hybrid_layers_of_shares(shape.layers, share(attention), share(mlp));
    if (text.empty()) return problem(given_.has(attention) ? attention : mlp, "are no shares of the layers", "");
    out_.notes.push_back({given_.line(attention), fmt::format("layers by their shares: {}", text)});
  }
  if (const auto module = given_.value(modules); module && text.find('/') == std::string::npos)
    for (std::int64_t i = 0; i < std::min(shape.prediction_layers.value_or(0), shape.layers); ++i)
      text += "/" + *module;
  const auto pattern = parse_hybrid_pattern(text);
  if (!pattern) return problem(name, fmt::format("'{}' is no pattern of layers", text), "M, G, *, +, D, - and E");
  if (const auto taken = take_hybrid_layers(*pattern, shape); !taken)
    return placed({ErrorKind::infeasible, taken.error().message, "", 0, std::string(name), taken.error().hint},
                  given_.line(name));
  if (pattern->predictions > 0 && !shape.prediction_layers)
    out_.notes.push_back({given_.line(name),
                          fmt::format("{}: not modelled; it can change the cost: prediction modules '{}' are left out",
                                      name, pattern->prediction),
                          NoteKind::not_modeled});
  return std::nullopt;
}

// Sets the model: that of the script, or the given one.
std::optional<Error> Importer::settle_model() {
  out_.plan.model.config = options_.config;
  if (options_.model) {
    note_differences();
    out_.shape = *options_.model;
    return std::nullopt;
  }
  ModelShape& shape = out_.shape;
  constexpr std::string_view or_model = "add it with --args, or name a model with --model";
  if (auto error = settle_layers()) return error;
  // What states the dimensions in place of them.
  for (const char* named : {"--model", "--load"})
    if (shape.layers < 1 && launch_.swift && given_.has(named)) {
      auto found = options_.find_model ? options_.find_model(*given_.value(named)) : std::nullopt;
      if (found) {
        out_.notes.push_back(
            {given_.line(named),
             fmt::format("{} {}: the model is {}, by its name{}", named, *given_.value(named), found->config,
                         found->further ? ", which goes on: as a further training it has the same dimensions" : "")});
        out_.plan.model.config = std::move(found->config);
        shape = std::move(found->shape);
        return std::nullopt;
      }
      return problem(named, fmt::format("the dimensions of {} are not in the script", *given_.value(named)),
                     "name a shipped model or its config.json with --model");
    }
  for (const auto& [argument, value] : {std::pair{"--num-layers", shape.layers},
                                        {"--hidden-size", shape.hidden_size},
                                        {"--num-attention-heads", shape.heads}}) {
    if (value < 1 || value > kLargest)
      return problem(argument, "is not in the script, or out of range", std::string(or_model));
  }
  if (!shape.vocabulary || *shape.vocabulary < 1) {
    return problem("--vocab-size", "the vocabulary is in the tokenizer, not in the script",
                   "give it with --args \"--vocab-size N\", or name a model with --model");
  }
  if (auto error = pad_vocabulary()) return error;
  auto config = config_of(shape);
  if (!config) {
    Error error = config.error();
    error.file = path_;
    return error;
  }
  // Values that cannot be read back, such as a dimension out of range, are rejected here, not by the next command.
  if (const auto back = shape_of(config->json, path_, {}); !back) return back.error();
  for (const std::string& text : config->notes) out_.notes.push_back({0, text});
  out_.config = std::move(*config);
  return std::nullopt;
}

std::optional<Error> Importer::pad_vocabulary() {
  std::int64_t multiple = 0;
  std::int64_t& size = *out_.shape.vocabulary;
  const bool too_large = __builtin_mul_overflow(out_.shape.vocabulary_multiple,
                                                std::max<std::int64_t>(1, out_.plan.parallelism.tensor), &multiple) ||
                         size > kLargest || multiple > kLargest;
  if (too_large || multiple < 1) return problem("--make-vocab-size-divisible-by", "is out of range", "");
  const std::int64_t padded = ceil_div(size, multiple) * multiple;
  if (padded != size) {
    out_.notes.push_back(
        {given_.line("--vocab-size"), fmt::format("the vocabulary of {} is padded to {}", size, padded)});
  }
  size = padded;
  return std::nullopt;
}

void Importer::note_differences() {
  const FieldTexts model = texts_of(*options_.model);
  visit_shape(out_.shape, [&](std::string_view key, const auto& field) {
    const std::string& of_model = model.find(key)->second;
    const std::string of_script = text_of_field(field);
    if (!lines_.contains(key) || key == "shape.vocabulary_multiple" || of_model.empty() || of_model == of_script)
      return;
    out_.notes.push_back(
        {lines_.find(key)->second, fmt::format("{} is {} in the script and {} in the model, which holds",
                                               key.substr(key.find('.') + 1), of_script, of_model)});
  });
}

namespace {

// Returns the plan's text without the batch that follows from its rollout.
std::string stated_text(const Plan& plan) {
  std::string text = to_toml(plan);
  const std::size_t batch = plan.rollout.given ? text.find("\nglobal_batch_size = ") : std::string::npos;
  if (batch != std::string::npos) text.erase(batch, text.find('\n', batch + 1) - batch);
  return text;
}

}  // namespace

// Sets the plan: its rules, comments and overrides are applied over the arguments.
std::optional<Error> Importer::settle_plan() {
  const auto& rollout = out_.plan.rollout;
  if (rollout.given && rollout.max_answer_tokens < 1)
    return problem("--rollout-max-response-len", "is not in the script: it has no longest answer",
                   fmt::format("--set {}=N", longest_answer));
  if (rollout.given && rollout.placement != "colocated" && !rollout.gpus && !overridden("rollout.gpus"))
    return problem(launch_.swift ? "--vllm-mode" : "--rollout-num-gpus",
                   "the script does not state the GPUs of the engines, which have their own", "--set rollout.gpus=N");
  if (auto error = require("--seq-length", out_.plan.batch.sequence_length)) return error;
  if (auto error = require("--micro-batch-size", out_.plan.batch.micro_batch_size)) return error;
  out_.plan.cluster.topology = default_topology;
  std::vector<std::string> overrides;
  for (const Word& comment : reading_->comments) {
    const std::size_t equals = comment.text.find(" = ");
    if (!comment.text.starts_with(kComment)) continue;
    if (comment.text.ends_with(kNotSet)) unset(comment.text.substr(kComment.size()));
    if (equals == std::string::npos) continue;
    const std::string key = comment.text.substr(kComment.size(), equals - kComment.size());
    overrides.push_back(key + "=" + comment.text.substr(equals + 3));
    lines_[key] = comment.line;
  }
  if (options_.topology) overrides.push_back(fmt::format("cluster.topology=\"{}\"", *options_.topology));
  const bool stages = !out_.plan.schedule.layers_per_stage.counts.empty();
  const std::string layers = stages ? plan_values(out_.plan).at("schedule.layers_per_stage") : "";
  overrides = with_layers_of_launch(overrides, options_.overrides, layers);
  const auto sets = [&overrides](std::string_view key) {
    return std::ranges::any_of(overrides, [key](const std::string& text) { return text.starts_with(key); });
  };
  if (out_.plan.cluster.gpus < 1 && !sets("cluster.gpus=")) return no_gpus();
  if (!sets("batch.global_batch_size=")) {
    if (auto error = require("--global-batch-size", out_.plan.batch.global_batch_size)) return error;
  }
  if (!sets("cluster.topology=")) {
    out_.notes.push_back(
        {0, fmt::format("a script does not name its cluster: {} assumed, --topology takes another", default_topology)});
  }
  // The plan is read like any other, so that ranges are checked in one place.
  const auto plan = read_plan(stated_text(out_.plan), path_, overrides);
  if (!plan) return at_script(plan.error());
  out_.plan = *plan;
  return std::nullopt;
}

// Names the launcher's number that is missing, and the variable that would give it.
Error Importer::no_gpus() const {
  if (launch_.open.condition > 0) return not_known("", launch_.open);
  const std::string& open = launch_.open.text;
  const std::string message = open.empty() ? "" : fmt::format(": '{}' is known where it runs, not in the script", open);
  const std::string defines = remedy_of_empty();
  return placed(problem("", "the number of GPUs is not in the script" + message,
                        !launch_.open_name.empty() ? fmt::format("--define {}=N, or --gpus N", launch_.open_name)
                        : defines.empty()          ? "--gpus N, or --define the variables of the launcher"
                                                   : "--gpus N, or " + defines),
                launch_.open.line);
}

void Importer::unset(const std::string& comment) {
  const std::string key = comment.substr(0, comment.size() - kNotSet.size());
  visit_fields(out_.plan, [&key](std::string_view name, auto& field) {
    if constexpr (requires { field.reset(); }) {
      if (name == key) field.reset();
    }
  });
}

Error Importer::at_script(Error error) const {
  const auto line = lines_.find(error.key);
  const bool of_user = std::ranges::any_of(
      options_.overrides, [&error](const std::string& text) { return text.starts_with(error.key + "="); });
  return of_user ? error : placed(std::move(error), line == lines_.end() ? 0 : line->second);
}

}  // namespace plumbline::model::megatron
