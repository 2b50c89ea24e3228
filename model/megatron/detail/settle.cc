// The model and the plan that follow from the arguments of a script.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/integers.h"
#include "model/base/text.h"
#include "model/megatron/detail/fields.h"
#include "model/megatron/detail/importer.h"
#include "model/megatron/detail/stages.h"
#include "model/megatron/hybrid.h"
#include "model/megatron/shell/arithmetic.h"
#include "model/plan/alternative.h"
#include "model/plan/plan_fields.h"

namespace plumbline::model::megatron {
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

std::optional<Error> Importer::require(std::string_view argument, std::int64_t value) const {
  if (value > 0) return std::nullopt;
  if (given_.has("--rollout-batch-size") && argument == "--seq-length")
    return problem(argument, "is not in the script: its samples are as long as they are generated",
                   "state their mean, prompt and answer, with --args \"--seq-length N\"");
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
    if (shape.layers < 1 && launch_.swift && given_.has(named))
      return problem(named, fmt::format("the dimensions of {} are not in the script", *given_.value(named)),
                     "name a shipped model or its config.json with --model");
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

// Sets the plan: its rules, comments and overrides are applied over the arguments.
std::optional<Error> Importer::settle_plan() {
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
  const auto plan = read_plan(to_toml(out_.plan), path_, overrides);
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
