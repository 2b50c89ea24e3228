#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/integers.h"
#include "model/megatron/arguments.h"
#include "model/megatron/detail/fields.h"
#include "model/megatron/detail/launch.h"
#include "model/megatron/detail/readings.h"
#include "model/megatron/import.h"
#include "model/megatron/rules.h"
#include "model/megatron/shell/arithmetic.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::string_view kDefaultTopology = "h100-dgx";
constexpr std::int64_t kLargest = 1'000'000'000;  // limit of a dimension: products of two fit 64 bits
constexpr std::string_view kComment = " plumbline: ", kNotSet = " is not set";

// Vocabularies of known tokenizers.
constexpr std::pair<std::string_view, std::int64_t> tokenizers[] = {{"GPT2BPETokenizer", 50257},
                                                                    {"Llama2Tokenizer", 32000}};

class Importer {
 public:
  Importer(const std::string& path, const ImportOptions& options) : path_(path), options_(options) {}

  Result<ImportedScript> run(const Script& script) {
    files_ = script.files;
    if (auto error = read_launch(script)) return tl::unexpected(*error);
    if (auto error = read_rows()) return tl::unexpected(*error);
    read_older_names();
    if (auto error = settle_model()) return tl::unexpected(*error);
    for (const Rule& rule : rules()) rule.read({given_, out_.shape, out_.plan, out_.notes});
    if (auto error = settle_plan(script)) return tl::unexpected(*error);
    note_silence();
    note_reading(script);
    std::ranges::stable_sort(out_.notes, {}, &Note::line);
    out_.files = files_;
    return std::move(out_);
  }

 private:
  Error problem(std::string_view argument, std::string message, std::string hint) const {
    const int line = given_.line(argument);
    return {ErrorKind::input,       std::move(message),    files_[static_cast<std::size_t>(line / lines_of_a_file)],
            line % lines_of_a_file, std::string(argument), std::move(hint)};
  }

  std::optional<Error> read_launch(const Script& script) {
    auto launch = find_launch(script, out_.notes);
    if (!launch) return no_launch(script);
    const auto more = read_script(options_.more_arguments, {.path = "--args", .definitions = options_.definitions});
    if (!more) return more.error();
    for (const Command& command : more->front().commands) {
      for (const Word& word : command) launch->arguments.push_back({word.text, 0});
    }
    given_ = group_arguments(launch->arguments, out_.notes);
    out_.plan = megatron_defaults();
    out_.plan.cluster.gpus = launch->gpus.value_or(0);
    return std::nullopt;
  }

  Error no_launch(const Script& script) const {
    if (script.exit_line == 0)
      return problem("", "no command runs a .py file with arguments of Megatron-LM",
                     "a script that starts another one is imported by that one, with --define and --args");
    Error error = problem("", "the script ends here before it starts a training",
                          "--define the variables that it asks for; --define 1=... is its first parameter");
    error.file = files_[static_cast<std::size_t>(script.exit_line / lines_of_a_file)];
    error.line = script.exit_line % lines_of_a_file;
    return error;
  }

  // Notes what the reading rests on: defaults of the script itself, and files that are not read.
  void note_reading(const Script& script) {
    std::string defaults;
    for (const Word& word : script.defaults) {
      defaults += (defaults.empty() ? "" : ", ") + word.text + (word.text.ends_with('=') ? "''" : "");
    }
    if (!defaults.empty())
      out_.notes.push_back({0, fmt::format("the script's own defaults hold, --define changes them: {}", defaults)});
    for (const Word& word : script.skipped)
      out_.notes.push_back({word.line, fmt::format("'{}' is not read: nothing that it sets is known", word.text)});
  }

  std::optional<Error> read_rows() {
    for (const auto& [name, argument] : given_.all()) {
      const Argument* known = find_argument(name);
      if (known == nullptr || known->meaning == Meaning::no_cost || known->meaning == Meaning::not_modeled) {
        note_unread(name, argument, known);
        continue;
      }
      if (!known->key.empty()) lines_[std::string(known->key)] = argument.line;
      if (known->meaning == Meaning::rule) {
        if (auto error = unknown_value(name, argument)) return error;
        continue;
      }
      const bool is_flag = known->meaning == Meaning::flag;
      if (is_flag ? !argument.values.empty() : argument.values.size() != 1)
        return problem(
            name, is_flag ? "takes no value" : fmt::format("needs one value, found {}", argument.values.size()), "");
      const std::string value = is_flag ? "true" : argument.values.front();
      if (!set(known->key, value)) return not_a_number(name, value);
    }
    return std::nullopt;
  }

  Error not_a_number(std::string_view name, const std::string& value) const {
    const std::size_t dollar = value.find('$');
    return problem(
        name, fmt::format("'{}' is no value for it", value),
        dollar == std::string::npos ? "expected a number" : "the script does not set it; --define NAME=VALUE does");
  }

  // A variable without a value must not be taken for a missing argument.
  std::optional<Error> unknown_value(const std::string& name, const GivenArgument& argument) const {
    for (const std::string& value : argument.values) {
      if (value.starts_with('$')) return not_a_number(name, value);
    }
    return std::nullopt;
  }

  void note_unread(const std::string& name, const GivenArgument& argument, const Argument* known) {
    std::string text = name;
    for (const std::string& value : argument.values) text += " " + value;
    if (known == nullptr || known->meaning != Meaning::no_cost) out_.unread.push_back(text);
    if (known == nullptr) {
      const std::string nearest = nearest_argument(name);
      text += nearest.empty() ? ": unknown; it may change the cost"
                              : fmt::format(": unknown; it may change the cost (did you mean '{}'?)", nearest);
    } else if (known->meaning == Meaning::no_cost) {
      text += ": changes no cost";
    } else {
      text += fmt::format(": not modelled; it can change the cost{}{}", known->note.empty() ? "" : ": ", known->note);
    }
    const bool free = known != nullptr && known->meaning == Meaning::no_cost;
    out_.notes.push_back({argument.line, std::move(text), free ? NoteKind::no_cost : NoteKind::not_modeled,
                          known == nullptr ? "" : alternative_of(name, argument)});
  }

  // Returns the key that has what an argument asks for, though it is not taken for the same.
  std::string alternative_of(std::string_view name, const GivenArgument& argument) const {
    constexpr std::pair<std::string_view, std::string_view> keys[] = {
        {"--moe-hybridep-num-sms", "overlap.communication_sms"},
        {"--moe-router-topk-limited-devices", "routing.max_nodes_per_token"}};
    for (const auto& [argument_name, key] : keys)
      if (name == argument_name && argument.values.size() == 1 && integer(argument.values[0]))
        return fmt::format("{}={}", key, argument.values[0]);
    return name == "--fine-grained-activation-offloading" ? "offload.activations=1" : "";
  }

  // Notes defaults of Megatron that often decide a step, where the script does not choose.
  void note_silence() {
    const auto silent = [this](bool applies, std::string_view argument, std::string_view meaning, const char* other) {
      if (applies && !given_.has(argument))
        out_.notes.push_back({0, fmt::format("{} is not given: {}", argument, meaning), NoteKind::assumed, other});
    };
    const Plan& plan = out_.plan;
    const auto& degrees = plan.parallelism;
    const double replica = static_cast<double>(degrees.tensor) * static_cast<double>(degrees.pipeline) *
                           static_cast<double>(degrees.context);
    const bool reduces = static_cast<double>(plan.cluster.gpus) > replica;
    silent(reduces && !plan.overlap.gradient_reduce, "--overlap-grad-reduce",
           "gradients are reduced after the backward pass", "overlap.gradient_reduce=true");
    silent(reduces && !plan.overlap.parameter_gather, "--overlap-param-gather",
           "parameters are gathered before the forward pass", "overlap.parameter_gather=true");
    silent(degrees.tensor > 1 && degrees.sequence && !plan.overlap.tensor, "--tp-comm-overlap",
           "GEMMs wait for tensor-parallel collectives", "overlap.tensor=true");
    silent(out_.shape.experts && degrees.expert > 1 && plan.stack.dispatcher == "allgather",
           "--moe-token-dispatcher-type", "every rank gathers all tokens", "stack.dispatcher=\"alltoall\"");
  }

  bool set(std::string_view key, std::string_view value) {
    bool done = false;
    const auto visit = [&](std::string_view name, auto& field) {
      if (name != key) return;
      if constexpr (requires { set_field(field, value); }) done = set_field(field, value);
    };
    visit_fields(out_.plan, visit);
    visit_shape(out_.shape, visit);
    return done;
  }

  void read_older_names() {
    if (given_.has("--use-rotary-position-embeddings")) out_.shape.position = "rope";
    if (const auto epsilon = given_.value("--layernorm-epsilon")) set("shape.norm_epsilon", *epsilon);
    if (out_.shape.vocabulary) {
      // Its end of a document is a token more.
      const bool null = given_.value("--tokenizer-type") == "NullTokenizer" && *out_.shape.vocabulary < kLargest;
      if (null) ++*out_.shape.vocabulary;
      return;
    }
    for (const auto& [name, size] : tokenizers) {
      if (given_.value("--tokenizer-type") != name) continue;
      out_.shape.vocabulary = size;
      out_.notes.push_back(
          {given_.line("--tokenizer-type"), fmt::format("--tokenizer-type: vocabulary of {} assumed", size)});
    }
  }

  std::optional<Error> require(std::string_view argument, std::int64_t value) const {
    if (value > 0) return std::nullopt;
    return problem(argument, "is not in the script, or not above 0",
                   fmt::format("add it with --args \"{} N\"", argument));
  }

  // Sets the model: that of the script, or the given one.
  std::optional<Error> settle_model() {
    out_.plan.model.config = options_.config;
    if (options_.model) {
      note_differences();
      out_.shape = *options_.model;
      return std::nullopt;
    }
    ModelShape& shape = out_.shape;
    constexpr std::string_view or_model = "add it with --args, or name a model with --model";
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

  std::optional<Error> pad_vocabulary() {
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

  void note_differences() {
    std::map<std::string, std::string, std::less<>> model;
    visit_shape(*options_.model,
                [&](std::string_view key, const auto& field) { model[std::string(key)] = text_of_field(field); });
    visit_shape(out_.shape, [&](std::string_view key, const auto& field) {
      const std::string& of_model = model[std::string(key)];
      const std::string of_script = text_of_field(field);
      if (!lines_.contains(key) || key == "shape.vocabulary_multiple" || of_model.empty() || of_model == of_script)
        return;
      out_.notes.push_back(
          {lines_.find(key)->second, fmt::format("{} is {} in the script and {} in the model, which holds",
                                                 key.substr(key.find('.') + 1), of_script, of_model)});
    });
  }

  // Sets the plan: its rules, comments and overrides are applied over the arguments.
  std::optional<Error> settle_plan(const Script& script) {
    if (auto error = require("--seq-length", out_.plan.batch.sequence_length)) return error;
    if (auto error = require("--micro-batch-size", out_.plan.batch.micro_batch_size)) return error;
    out_.plan.cluster.topology = kDefaultTopology;
    std::vector<std::string> overrides;
    for (const Word& comment : script.comments) {
      const std::size_t equals = comment.text.find(" = ");
      if (!comment.text.starts_with(kComment)) continue;
      if (comment.text.ends_with(kNotSet)) unset(comment.text.substr(kComment.size()));
      if (equals == std::string::npos) continue;
      const std::string key = comment.text.substr(kComment.size(), equals - kComment.size());
      overrides.push_back(key + "=" + comment.text.substr(equals + 3));
      lines_[key] = comment.line;
    }
    if (options_.topology) overrides.push_back(fmt::format("cluster.topology=\"{}\"", *options_.topology));
    overrides.insert(overrides.end(), options_.overrides.begin(), options_.overrides.end());
    const auto sets = [&overrides](std::string_view key) {
      return std::ranges::any_of(overrides, [key](const std::string& text) { return text.starts_with(key); });
    };
    if (out_.plan.cluster.gpus < 1 && !sets("cluster.gpus=")) {
      return problem("", "the number of GPUs is not in the script",
                     "--define the variables of the launcher, or --set cluster.gpus=N");
    }
    if (!sets("batch.global_batch_size=")) {
      if (auto error = require("--global-batch-size", out_.plan.batch.global_batch_size)) return error;
    }
    if (!sets("cluster.topology=")) {
      out_.notes.push_back({0, fmt::format("a script does not name its cluster: {} assumed, --topology takes another",
                                           kDefaultTopology)});
    }
    // The plan is read like any other, so that ranges are checked in one place.
    const auto plan = read_plan(to_toml(out_.plan), path_, overrides);
    if (!plan) return at_script(plan.error());
    out_.plan = *plan;
    return std::nullopt;
  }

  void unset(const std::string& comment) {
    const std::string key = comment.substr(0, comment.size() - kNotSet.size());
    visit_fields(out_.plan, [&key](std::string_view name, auto& field) {
      if constexpr (requires { field.reset(); }) {
        if (name == key) field.reset();
      }
    });
  }

  Error at_script(Error error) const {
    const auto line = lines_.find(error.key);
    const bool of_user = std::ranges::any_of(
        options_.overrides, [&error](const std::string& text) { return text.starts_with(error.key + "="); });
    if (of_user) return error;
    const int at = line == lines_.end() ? 0 : line->second;
    error.file = files_[static_cast<std::size_t>(at / lines_of_a_file)];
    error.line = at % lines_of_a_file;
    return error;
  }

  std::string path_;
  const ImportOptions& options_;
  std::vector<std::string> files_;
  Given given_;
  std::map<std::string, int, std::less<>> lines_;  // the line of each key's argument
  ImportedScript out_;
};

// Returns the line of the first byte that is no UTF-8; 0: there is none.
int line_without_utf8(std::string_view text) {
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first == '\n') ++line;
    const std::size_t length = first < 0x80              ? 1
                               : (first >> 5) == 0b110   ? 2
                               : (first >> 4) == 0b1110  ? 3
                               : (first >> 3) == 0b11110 ? 4
                                                         : 0;
    if (length == 0 || at + length > text.size()) return line;
    for (std::size_t i = 1; i < length; ++i)
      if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) return line;
    at += length;
  }
  return 0;
}

}  // namespace

Result<ImportedScript> import_script(std::string_view text, const std::string& path, const ImportOptions& options) {
  if (const int line = line_without_utf8(text); line > 0)
    return wrong_input_at(path, line, "", "is not UTF-8", "save the script as UTF-8");
  ShellInputs inputs{path, options.folder, slurm_definitions(text), options.find_file};
  for (const auto& [name, value] : options.definitions) inputs.definitions[name] = value;
  const auto readings = TRY(read_script(text, inputs));
  std::vector<Reading> plans;
  for (const Script& script : readings) {
    std::vector<Note> ignored;
    if (readings.size() > 1 && !find_launch(script, ignored)) continue;
    plans.push_back({&script, Importer(path, options).run(script)});
  }
  if (plans.empty()) return Importer(path, options).run(readings.front());
  if (auto error = difference(plans)) return tl::unexpected(*error);
  return std::move(plans.front().imported);
}

}  // namespace plumbline::model::megatron
