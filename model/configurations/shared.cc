// What several formats have in common: models, number formats, ZeRO, and the arithmetic of batches.
#include "model/configurations/detail/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/configurations/detail/collector.h"

namespace plumbline::model::configurations {
namespace {

std::string json_of(const Entry& entry) {
  const auto scalar = [](const std::string& value) {
    const std::string lower = lower_case(value);
    if (lower == "true" || lower == "false") return lower;
    return parse_number<double>(value) ? value : toml_string(value);
  };
  if (!entry.is_list) return scalar(entry.value);
  std::vector<std::string> items;
  for (const std::string& item : entry.items) items.push_back(scalar(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// Returns what a reference of OmegaConf at a path means: "model.x" of "${model.x}", and of "${.x}" in "model.y". Other
// interpolations have none.
const Entry* referenced(const std::vector<Entry>& entries, std::string_view text, const std::string& at) {
  if (!text.starts_with("${") || text.find('}') != text.size() - 1) return nullptr;
  std::string path(text.substr(2, text.size() - 3)), scope = "." + at;
  const bool relative = path.starts_with('.');
  for (; path.starts_with('.') && !scope.empty(); path.erase(0, 1)) scope.erase(scope.rfind('.'));
  if (relative) path = (scope + "." + path).substr(1);
  const auto found = std::ranges::find(entries, path, &Entry::written);
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

std::optional<NamedModel> named_model(const RuleInput& in, std::string_view key) {
  const std::string stated = in.draft.text(key).value_or("");
  std::string name = lower_case(stated.substr(stated.rfind('/') + 1));
  for (const std::string_view begin : {"meta-", "nvidia-"})
    if (name.starts_with(begin)) name = name.substr(begin.size());
  for (const std::string_view end :
       {"-instruct", "-base", "-chat", "-hf", "-it", "-v0.", "-thinking", "-bf16", "-fp16"})
    name = name.substr(0, name.find(end));
  // Of the same dimensions.
  constexpr std::pair<std::string_view, std::string_view> same[] = {
      {"llama-3.1-", "llama-3-"}, {"llama-3.3-", "llama-3-"}, {"qwen2.5-7b", "qwen2-7b"}};
  for (const auto& [other, shipped] : same)
    if (name.starts_with(other)) name = fmt::format("{}{}", shipped, name.substr(other.size()));
  if (stated.starts_with('/')) name = stated + "/config.json";
  const bool is_folder = name.starts_with('/');
  constexpr std::size_t longest_name = 100;
  if (name.size() > longest_name && !is_folder) return std::nullopt;
  for (std::string part = name; is_folder || part.find('-') != std::string::npos;
       part = part.substr(0, part.rfind('-'))) {
    const auto model = in.options.load_model(part);
    if (model && part != name)
      in.draft.note(Note::Kind::assumed, key, fmt::format("assumed: {} has the dimensions of {}", stated, part));
    if (model) return NamedModel{part, "", model->layers};
    if (is_folder) break;
  }
  return std::nullopt;
}

void read_named_model(const RuleInput& in, std::string_view key) {
  if (!in.draft.text(key) || in.draft.given("model.config")) return;
  if (auto model = named_model(in, key)) return in.use_model(std::move(*model));
  in.draft.fail(key, fmt::format("no shipped model has the name '{}'", *in.draft.text(key)),
                "--model names one, or a config.json");
}

Result<Launch> read_launch(const Source& source, std::span<const std::string_view> launchers) {
  const auto end_of = [launchers](const megatron::Command& command) -> std::size_t {  // 0: it starts none
    std::string text;
    for (std::size_t i = 0; i < command.size(); ++i) {
      text += " " + command[i].text;
      for (const std::string_view one : launchers)
        if (text.ends_with(one) || (one.ends_with('_') && contains(command[i].text, one))) return i + 1;
    }
    return 0;
  };
  // Scripts ask the machine whether it has NPUs.
  const auto starts = [&end_of](const megatron::Command& command) { return end_of(command) > 0; };
  auto script = TRY(megatron::read_script(source.text, {source.path, "", {{"DEVICE", "gpu"}}, {}, starts}));
  const auto started = std::ranges::find_if(script.commands, starts);
  if (started != script.commands.end()) return Launch{*started, end_of(*started), std::move(script.variables)};
  return wrong_input_at(source.path, 0, "", "starts none of the trainings that are read",
                        fmt::format("a script that runs one of: {}", fmt::join(launchers, ", ")));
}

std::vector<Entry> options_of(const megatron::Command& words, std::size_t first, const std::vector<Rename>& renames) {
  std::vector<Entry> entries;
  for (std::size_t i = first; i < words.size(); ++i) {
    const auto open = [](const megatron::Word& word) { return word.unknown || word.condition > 0; };
    if (!words[i].text.starts_with("--")) continue;
    const std::size_t equals = words[i].text.find('=');
    Entry entry{"", words[i].text.substr(0, equals), "", {}, words[i].line, false, open(words[i])};
    std::string key = entry.written.substr(2);
    std::ranges::replace(key, '-', '_');
    if (equals != std::string::npos) entry.items.push_back(words[i].text.substr(equals + 1));
    for (; equals == std::string::npos && i + 1 < words.size() && !words[i + 1].text.starts_with("--"); ++i) {
      entry.items.push_back(words[i + 1].text);
      entry.unread = entry.unread || open(words[i + 1]);
    }
    const std::size_t leaf = key.rfind('.') + 1;
    const bool off = entry.items.empty() && key.substr(leaf).starts_with("no_");
    if (off) key.erase(leaf, 3);
    entry.is_list = entry.items.size() > 1;
    if (!entry.is_list) {
      entry.value = entry.items.empty() ? (off ? "false" : "true") : entry.items.front();
      entry.items.clear();
    }
    if (entry.value == "None") entry.value.clear();
    entry.key = with_renames(key, renames);
    entries.push_back(std::move(entry));
  }
  return entries;
}

void resolve_references(std::vector<Entry>& entries) {
  constexpr int longest_chain = 8;
  for (Entry& entry : entries) {
    std::string at = entry.written;
    for (int i = 0; i < longest_chain; ++i) {
      const Entry* found = referenced(entries, entry.value, at);
      if (found == nullptr || found == &entry) break;
      entry.value = found->value;
      entry.items = found->items;
      entry.is_list = found->is_list;
      at = found->written;
    }
  }
  for (Entry& entry : entries) {
    constexpr std::string_view product = "${mul:";
    if (!entry.value.starts_with(product) || !entry.value.ends_with('}')) continue;
    std::int64_t value = 1;
    const std::string inside = entry.value.substr(product.size(), entry.value.size() - product.size() - 1);
    for (const std::string_view part : split_at(inside, ',')) {
      const Entry* found = referenced(entries, trimmed(part), entry.written);
      const auto number = parse_number<std::int64_t>(found == nullptr ? trimmed(part) : found->value);
      value = number && *number > 0 ? bounded_product({value, *number}) : 0;
    }
    if (value > 0) entry.value = std::to_string(value);
  }
}

void use_section(const RuleInput& in, std::string_view section, std::string_view model_type) {
  if (in.draft.given("model.config")) return;
  std::string json = fmt::format("{{\n  \"model_type\": {}", toml_string(model_type));
  for (const Entry& entry : in.draft.configuration().entries) {
    if (!entry.key.starts_with(section) || entry.is_null() || entry.unread) continue;
    const std::string_view key = std::string_view(entry.key).substr(section.size());
    // Tables of a config.json, such as that of rotary embeddings, decide no cost.
    if (key.find_first_of(".[") != std::string_view::npos || key.starts_with('_') || key == "model_type") continue;
    json += fmt::format(",\n  {}: {}", toml_string(key), json_of(entry));
  }
  const auto layers = in.draft.integer(fmt::format("{}num_hidden_layers", section));
  in.use_model({"", json + "\n}\n", layers.value_or(0)});
}

std::string number_format(const std::string& word) {
  return word == "bfp16" || word == "bfloat16" ? "bf16"
         : word == "float16"                   ? "fp16"
         : word == "float32"                   ? "fp32"
                                               : word;
}

Precision plain_precision(const std::string& format) {
  return format == "fp32" ? Precision::fp32 : format == "fp16" ? Precision::fp16 : Precision::bf16;
}

void set_precision(Draft& draft, Precision gemm, std::string_view origin) {
  draft.set("precision.gemm", to_string(gemm), origin);
  const bool plain = gemm == Precision::fp16 || gemm == Precision::fp32;
  if (!plain) return;
  draft.set("precision.dispatch", to_string(gemm), origin);
  draft.set("precision.combine", to_string(gemm), origin);
}

std::vector<std::int64_t> split_with_ends(std::int64_t layers, std::int64_t stages, std::int64_t first,
                                          std::int64_t last) {
  const std::int64_t all = layers + first + last;
  std::vector<std::int64_t> counts;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::int64_t count = all / stages + (stage < all % stages ? 1 : 0);
    if (stage == 0) count -= first;
    if (stage + 1 == stages) count -= last;
    counts.push_back(count);
  }
  return counts;
}

bool refuse_adapter(Draft& draft, std::string_view key, std::string_view method) {
  if (draft.given("training.method")) return false;
  draft.fail(key, fmt::format("{} is not read", method),
             "--set training.method=lora, training.rank=N and training.targets=[...] state adapters, "
             "training.method=full that all weights train");
  return true;
}

void read_deferred_reduction(Draft& draft, std::string_view key) {
  if (draft.flag(key).value_or(true))
    draft.set("parallelism.reduce_after", "run", draft.text(key) ? key : std::string_view("FSDP"));
}

bool names_module(const std::vector<std::string>& modules, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(modules, [&parts](const std::string& module) {
    return std::ranges::any_of(parts, [&module](std::string_view part) { return contains(module, part); });
  });
}

AdapterLayers read_adapter_layers(const RuleInput& in, std::string_view key) {
  const std::vector<std::string> modules = in.draft.list(key);
  const AdapterLayers layers{
      names_module(modules, {"q_", "k_", "v_", "o_proj", "kv_", "qkv", "query", "out_proj", "attn", "Wqkv"}),
      names_module(modules, {"gate", "up_", "down_", "w1", "w2", "w3", "fc", "dense_", "mlp", "experts"})};
  std::vector<std::string> targets;
  if (layers.attention) targets.emplace_back("attention");
  if (layers.mlp) targets.emplace_back("mlp");
  if (layers.mlp && in.has_experts()) targets.emplace_back("experts");
  if (targets.empty())
    in.draft.fail(key, "no module of attention or MLP is named", "--set training.targets=[...] states them");
  else
    in.draft.set("training.targets", targets, key);
  return layers;
}

void read_adapters(const RuleInput& in, const AdapterKeys& keys) {
  in.draft.set("training.method", keys.method, keys.rank);
  in.draft.set("training.rank", in.draft.integer(keys.rank).value_or(8), keys.rank);
  const auto modules = in.draft.list(keys.targets);
  const bool all = in.draft.text(keys.targets) == "all-linear" || keys.targets.ends_with("match_all_linear");
  if (modules.empty() || all)
    in.draft.set("training.targets", "all-linear", keys.targets);
  else if (!in.draft.given("training.targets"))
    read_adapter_layers(in, keys.targets);
}

void read_ulysses(const RuleInput& in, std::string_view key) {
  const auto degree = in.draft.integer(key);
  if (!degree || *degree < 2) return;
  in.draft.set("parallelism.context", *degree, key);
  price_ulysses(in, key);
}

// Of a token and layer, c ranks send (c - 1) / c of queries, keys, values and outputs forward and of their gradients
// backward (arXiv 2309.14509, section 3.2), and c - 1 times keys and values where these are gathered in both passes and
// their gradients reduced.
void price_ulysses(const RuleInput& in, std::string_view key) {
  Draft& draft = in.draft;
  draft.set("parallelism.context_method", "all-gather", key);
  std::string bytes;
  const auto model = in.architecture();
  if (model && model->attention == AttentionKind::grouped_query && model->key_value_heads > 0) {
    const double groups = static_cast<double>(model->heads) / static_cast<double>(model->key_value_heads);
    bytes =
        fmt::format(", {:.2f} times the bytes", 2 * (groups + 1) / (3 * static_cast<double>(draft.degree("context"))));
  }
  draft.not_modeled(key, "keys and values are gathered; Ulysses sends heads by all-to-all" + bytes);
}

void spread_evenly(Draft& draft) {
  if (draft.degree("pipeline") > 1) draft.set("schedule.layers_per_stage", "even", "layers are spread evenly");
}

std::int64_t read_zero(Draft& draft, const ZeroKeys& keys, std::int64_t missing) {
  draft.set("parallelism.zero_stage", draft.integer(keys.stage).value_or(missing), keys.stage);
  const std::string device = draft.text(keys.optimizer_device).value_or("none");
  if (device == "cpu" || device == "nvme") draft.set("offload.optimizer", true, keys.optimizer_device);
  if (device == "nvme") draft.not_modeled(keys.optimizer_device, "states wait in host memory");
  if (draft.text(keys.parameter_device).value_or("none") != "none")
    draft.not_modeled(keys.parameter_device, "parameters stay on the GPU");
  const auto norm = draft.number(keys.clipping);
  const Entry* stated = draft.configuration().find(keys.clipping);
  const bool of_trainer = stated != nullptr && stated->value == "auto";  // its max_grad_norm, which is 1 by default
  draft.set("optimizer.gradient_clipping", of_trainer || (norm && *norm > 0),
            of_trainer || norm ? keys.clipping : "none is stated");
  return draft.value("parallelism.zero_stage").value_or(missing);
}

void read_zero_buffers(const RuleInput& in, const ZeroKeys& keys, Precision gemm) {
  Draft& draft = in.draft;
  const std::int64_t stage = draft.value("parallelism.zero_stage").value_or(0);
  const bool overlaps = draft.flag(keys.overlap).value_or(stage == 3);
  draft.set("overlap.gradient_reduce", overlaps, keys.overlap);
  draft.set("overlap.parameter_gather", stage == 3 && overlaps, keys.overlap);
  // BF16 without ZeRO accumulates in FP32, every other combination in the format of the model.
  const Precision silent = gemm == Precision::bf16 && stage == 0 ? Precision::fp32 : gemm;
  const auto stated = draft.text(keys.gradients);
  const std::string gradients = stated ? number_format(*stated) : std::string(to_string(silent));
  draft.set("precision.gradients", gradients, keys.gradients);
  if (const auto wire = draft.text(keys.wire)) draft.set("precision.gradient_reduce", number_format(*wire), keys.wire);
  constexpr double silent_bucket = 5e8;
  const double bytes = gradients == "fp32" ? 4 : 2;
  const Entry* bucket = draft.configuration().find(keys.bucket);
  const auto model = bucket != nullptr && bucket->value == "auto" ? in.architecture() : std::nullopt;
  const double hidden = model ? static_cast<double>(model->hidden_size) : 0;
  draft.set("overlap.gradient_bucket_bytes",
            draft.number(keys.bucket).value_or(model ? hidden * hidden : silent_bucket) * bytes, keys.bucket);
}

void read_batch(Draft& draft, const BatchKeys& keys) {
  const auto stated_micro = draft.integer(keys.micro), stated_global = draft.integer(keys.global);
  if (stated_micro) draft.set("batch.micro_batch_size", *stated_micro, keys.micro);
  if (stated_global) draft.set("batch.global_batch_size", *stated_global, keys.global);
  const auto steps = draft.integer(keys.accumulation);
  for (const auto& [key, number] :
       {std::pair{keys.micro, stated_micro}, {keys.global, stated_global}, {keys.accumulation, steps}})
    if (number && *number < 1) return draft.fail(key, fmt::format("{} is not above 0", *number));
  auto micro = draft.value("batch.micro_batch_size");
  const auto global = draft.value("batch.global_batch_size");
  const std::int64_t others = draft.model_parallel();
  const std::int64_t of_rank = bounded_product({micro.value_or(0), steps.value_or(0)});
  if (!draft.given("cluster.gpus") && global && of_rank > 0 && *global % of_rank == 0)
    draft.assume("cluster.gpus", bounded_product({*global / of_rank, others}),
                 "the batch over micro-batch and accumulation, times the other degrees");
  const auto gpus = draft.value("cluster.gpus");
  const auto data = draft.data_parallel();
  if (gpus && !data)
    return draft.fail("", fmt::format("{} GPUs are no multiple of tensor x context x pipeline = {}", *gpus, others),
                      "--gpus states the GPUs, --set parallelism.tensor=N a degree");
  if (!data) return;
  if (stated_micro && stated_global && steps)
    if (const std::int64_t made = bounded_product({*stated_micro, *steps, *data}); *stated_global != made)
      return draft.fail(keys.global,
                        fmt::format("{} is not micro-batch {} x accumulation {} x {} data-parallel ranks = {}",
                                    *stated_global, *stated_micro, *steps, *data, made),
                        fmt::format("correct one of them, or the GPUs ({} now) with --gpus", *gpus));
  if (global && !micro) {
    const std::int64_t shared = bounded_product({*data, steps.value_or(1)});
    if (*global % shared != 0)
      return draft.fail(keys.global, fmt::format("{} does not divide by {} ranks x accumulation {}", *global, *data,
                                                 steps.value_or(1)));
    draft.set("batch.micro_batch_size", *global / shared,
              fmt::format("batch over {} ranks and {} accumulations", *data, steps.value_or(1)));
  }
  const Entry* stated_steps = draft.configuration().find(keys.accumulation);
  const bool open = stated_steps != nullptr && stated_steps->value == "auto";
  if (micro && !global && !open) {
    draft.set("batch.global_batch_size", bounded_product({*micro, steps.value_or(1), *data}),
              fmt::format("micro-batch x {} accumulations x {} ranks", steps.value_or(1), *data));
    if (!steps) draft.note(Note::Kind::assumed, "", "assumed: gradient_accumulation_steps = 1, the program's default");
  }
}

void read_steps(Draft& draft, std::string_view key) {
  const auto steps = draft.integer(key), batch = draft.value("batch.global_batch_size"),
             length = draft.value("batch.sequence_length");
  if (steps && *steps > 0 && batch && length)
    draft.set("run.tokens", static_cast<double>(*steps) * static_cast<double>(*batch) * static_cast<double>(*length),
              key);
}

}  // namespace plumbline::model::configurations
