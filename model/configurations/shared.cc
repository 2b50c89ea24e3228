// What several formats have in common: models, number formats, ZeRO, and the arithmetic of batches.
#include "model/configurations/detail/shared.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/base/text_file.h"

namespace plumbline::model::configurations {
namespace {

std::string json_of(const Entry& entry) {
  const auto scalar = [](const std::string& value) {
    std::string lower = lower_case(value);
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

std::optional<FoundModel> find_named_model(
    const std::string& stated, const std::function<Result<Architecture>(const std::string& config)>& load_model) {
  std::string name = lower_case(stated.substr(stated.rfind('/') + 1));
  for (const std::string_view begin : {"meta-", "nvidia-"})
    if (name.starts_with(begin)) name = name.substr(begin.size());
  for (const std::string_view end :
       {"-instruct", "-base", "-chat", "-hf", "-it", "-v0.", "-thinking", "-bf16", "-fp16", "-mcore"})
    name = name.substr(0, name.find(end));
  // Of the same dimensions, by whole words.
  constexpr std::pair<std::string_view, std::string_view> same[] = {{"deepseek-r1-distill-llama", "llama-3"},
                                                                    {"deepseek-r1-distill-qwen", "qwen2.5"},
                                                                    {"deepseek-r1-0528-qwen3", "qwen3"},
                                                                    {"deepseek-r1", "deepseek-v3"},
                                                                    {"deepseek-v3.1", "deepseek-v3"},
                                                                    {"glm-4.6", "glm-4.5"},
                                                                    {"llama-3.1", "llama-3"},
                                                                    {"llama-3.3", "llama-3"},
                                                                    {"minimax-m2.1", "minimax-m2"},
                                                                    {"qwen2.5-7b", "qwen2-7b"}};
  for (const auto& [other, shipped] : same)
    if (name == other || name.starts_with(fmt::format("{}-", other)))
      name = fmt::format("{}{}", shipped, name.substr(other.size()));
  // A folder of this machine, else the model that a folder elsewhere is named after.
  if (stated.starts_with('/'))
    if (const std::string config = stated + "/config.json"; const auto model = load_model(config))
      return FoundModel{{config, "", model->layers}, false};
  constexpr std::size_t longest_name = 100;
  if (name.size() > longest_name) return std::nullopt;
  for (std::string part = name; part.find('-') != std::string::npos; part = part.substr(0, part.rfind('-')))
    if (const auto model = load_model(part))
      return FoundModel{{part, "", model->layers}, part != name || stated.starts_with('/')};
  return std::nullopt;
}

std::optional<NamedModel> named_model(const RuleInput& in, std::string_view key) {
  const std::string stated = in.draft.text(key).value_or("");
  auto found = find_named_model(stated, in.options.load_model);
  if (!found) return std::nullopt;
  if (found->further)
    in.draft.note(Note::Kind::assumed, key,
                  fmt::format("assumed: {} has the dimensions of {}", stated, found->model.shipped));
  return std::move(found->model);
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
        if (text.ends_with(one) || ((one.ends_with('_') || one.ends_with(':')) && contains(command[i].text, one)))
          return i + 1;
    }
    return 0;
  };
  // Scripts ask the machine whether it has NPUs.
  const auto starts = [&end_of](const megatron::Command& command) { return end_of(command) > 0; };
  megatron::Definitions definitions = source.definitions;
  definitions.emplace("DEVICE", "gpu");
  auto script = TRY(megatron::read_script(source.text, {source.path, "", std::move(definitions), {}, starts})
                        .map_error([](Error error) {  // these scripts are not executed
                          const std::size_t executes = error.hint.find("--execute");
                          if (executes != std::string::npos)
                            error.hint.erase(std::min(error.hint.rfind(',', executes), error.hint.size()));
                          return error;
                        }));
  const auto started = std::ranges::find_if(script.commands, starts);
  if (started != script.commands.end()) return Launch{*started, end_of(*started), std::move(script.variables)};
  return wrong_input_at(source.path, 0, "", "starts nothing that is read",
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

void read_deferred_reduction(Draft& draft, std::string_view key) {
  if (draft.flag(key).value_or(true))
    draft.set("parallelism.reduce_after", "run", draft.text(key) ? key : std::string_view("FSDP"));
}

bool names_module(const std::vector<std::string>& modules, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(modules, [&parts](const std::string& module) {
    return std::ranges::any_of(parts, [&module](std::string_view part) { return contains(module, part); });
  });
}

void read_ulysses(const RuleInput& in, std::string_view key) {
  const auto degree = in.draft.integer(key);
  if (!degree || *degree < 2) return;
  in.draft.set("parallelism.context", *degree, key);
  in.draft.set("parallelism.context_method", "all-to-all", key);
}

void spread_evenly(Draft& draft) {
  if (draft.degree("pipeline") > 1) draft.set("schedule.layers_per_stage", "even", "layers are spread evenly");
}

Result<std::optional<std::vector<Entry>>> entries_of_named_file(const std::string& path, std::string_view key,
                                                                Configuration& read) {
  namespace fs = std::filesystem;
  const Entry* named = read.find(key);
  constexpr std::string_view endings[] = {".json", ".yaml", ".yml"};
  const auto ends = [&](std::string_view ending) { return named->value.ends_with(ending); };
  if (named == nullptr || std::ranges::none_of(endings, ends)) return std::nullopt;
  const Entry stated = *named;
  std::error_code ignored;
  constexpr int folders = 4;  // that of the configuration and those above it in a repository
  fs::path folder = fs::absolute(path, ignored).parent_path();
  for (int up = 0; up < folders; ++up, folder = folder.parent_path()) {
    const fs::path file = folder / stated.value;
    if (!fs::is_regular_file(file, ignored)) continue;
    const std::string text = TRY(read_text_file(file.string()));
    const std::string name = file.lexically_normal().string();
    const std::vector<Rename> none;
    std::vector<Entry> entries = TRY(read_yaml({text, name, none})).entries;
    for (Entry& entry : entries) entry.line = stated.line;
    for (Entry& entry : read.entries)
      if (entry.key == key) entry.value = name;
    return entries;
  }
  return std::nullopt;
}

Result<bool> add_deepspeed_file(const std::string& path, std::string_view key, Configuration& read) {
  const auto entries = TRY(entries_of_named_file(path, key, read));
  for (Entry entry : entries.value_or(std::vector<Entry>())) {
    entry.key = fmt::format("deepspeed.{}", entry.key);
    read.entries.push_back(std::move(entry));
  }
  return entries.has_value();
}

bool has_deepspeed_section(const Draft& draft) {
  return std::ranges::any_of(draft.configuration().entries,
                             [](const Entry& entry) { return entry.key.starts_with("deepspeed."); });
}

void read_deepspeed_section_degrees(const RuleInput& in) {
  for (const char* key : {"deepspeed", "deepspeed_config.deepspeed_config_file"})
    if (const auto file = in.draft.text(key); file && has_deepspeed_section(in.draft))
      in.draft.note(Note::Kind::assumed, key, fmt::format("the file of DeepSpeed that is read is {}", *file));
  for (const char* key : {"deepspeed.tensor_parallel.autotp_size", "deepspeed.tensor_parallel.tp_size"})
    if (const auto degree = in.draft.integer(key); degree && *degree > 0)
      in.draft.set("parallelism.tensor", *degree, key);
  read_ulysses(in, "deepspeed.sequence_parallel_size");
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

// What verl, OpenRLHF, NeMo-RL and the trainers on TRL have in common, and GRPO of the latter.
void set_silent(Draft& draft, std::span<const SilentKey> silent) {
  for (const auto& [plan_key, key, value] : silent)
    if (!draft.given(plan_key)) draft.put(plan_key, std::string(value), key);
}

void read_engine(Draft& draft, std::string_view key) {
  const std::string name = draft.text(key).value_or("vllm");
  const bool known = name == "vllm" || name == "sglang" || name == "trtllm";
  draft.set("inference.engine", name == "trtllm" ? "tensorrt-llm" : known ? name : "vllm", key);
  if (!known) draft.not_modeled(key, "the engine is vLLM");
}

bool read_algorithm(Draft& draft, std::string_view filter, bool critic, std::string_view estimator) {
  const bool filters = draft.flag(filter).value_or(false);
  const std::string_view key = filters ? filter : estimator;
  draft.set("rollout.algorithm", filters ? "dapo" : critic ? "ppo" : "grpo", key);
  draft.set("rollout.critic", critic, key);
  return filters;
}

void read_updates(Draft& draft, std::int64_t all, std::string_view key, std::int64_t silent) {
  const std::int64_t update = draft.integer(key).value_or(silent);
  if (update > 0 && all % update == 0) return draft.set("rollout.updates", all / update, key);
  if (!draft.given("rollout.updates")) draft.fail(key, fmt::format("{} are no whole mini-batches of {}", all, update));
}

std::int64_t answers_of(const Draft& draft) {
  return bounded_product({draft.value("rollout.prompts").value_or(0), draft.value("rollout.answers").value_or(0)});
}

void read_micro_batch(Draft& draft, std::int64_t longest, std::optional<std::int64_t> packed,
                      std::optional<std::int64_t> samples, std::string_view key) {
  draft.set("batch.sequence_length", std::max(packed.value_or(0), longest),
            packed ? key : "the longest prompt and answer");
  if (packed || samples) draft.set("batch.micro_batch_size", packed ? 1 : *samples, key);
  std::vector<std::string> missing;
  for (const char* length : {"rollout.prompt_tokens", "rollout.answer_tokens", "rollout.answer_tokens_sd"})
    if (!draft.given(length)) missing.emplace_back(length);
  if (!missing.empty())
    draft.fail("", fmt::format("does not state {}: it has the longest lengths alone", fmt::join(missing, ", ")),
               fmt::format("--set {}=N: lengths in the mean, and the deviation of those of answers",
                           fmt::join(missing, "=N --set ")));
}

namespace {

// What ms-swift and axolotl leave to TRL, or decide themselves: swift/arguments/rlhf_args.py @efd0a543 and
// VllmArguments of swift/trainers/arguments.py @0037257c (modelscope/ms-swift); src/axolotl/utils/schemas/trl.py
// @b6fc46ad and vllm.py @236a4e3c with the defaults of GRPOConfig of huggingface/trl.
struct TrlDefaults {
  double penalty = 0;
  std::int64_t answer_tokens = 0;
  std::string_view mode;
  double colocated_share = 0, server_share = 0;  // of an engine's GPU memory
};
constexpr TrlDefaults of_swift{0.04, 512, "colocate", 0.9, 0.9}, of_axolotl{0, 256, "server", 0.3, 0.9};

const TrlDefaults& trl_defaults(const Draft& draft) { return draft.program() == "axolotl" ? of_axolotl : of_swift; }

// Sets prompts, answers and updates of a step. Batches count answers. One generation is for `steps_per_generation`
// micro-batches of each rank, of which an update takes those that are accumulated; ms-swift's ranks of one sequence
// take each other's micro-batches too (gradient_accumulation_steps * sequence_parallel.world_size of GRPOTrainer).
void read_trl_step(Draft& draft) {
  const std::string_view groups = "num_generations", per_generation = "steps_per_generation",
                         generation = "generation_batch_size", again = "num_iterations";
  const std::int64_t micro = draft.integer("per_device_train_batch_size").value_or(1),
                     accumulated = draft.integer("gradient_accumulation_steps").value_or(1);
  const auto ranks = draft.program() == "axolotl" ? draft.data_parallel() : draft.value("cluster.gpus");
  const std::int64_t at_once = bounded_product({micro, ranks.value_or(0)});
  if (at_once < 1 || accumulated < 1) return;  // what is missing or wrong is refused with the plan
  const auto stated = draft.integer(generation);
  if (stated && *stated % at_once != 0)
    return draft.fail(generation,
                      fmt::format("{} answers are no whole micro-batches of all ranks, {}", *stated, at_once));
  const std::int64_t steps = stated ? *stated / at_once : draft.integer(per_generation).value_or(accumulated);
  const std::string_view key = stated ? generation : per_generation;
  if (steps < 1 || steps % accumulated != 0)
    return draft.fail(key,
                      fmt::format("{} micro-batches of a generation are no whole updates of {}", steps, accumulated));
  const std::int64_t answers = draft.integer(groups).value_or(8), all = bounded_product({at_once, steps});
  if (answers < 1 || all % answers != 0)
    return draft.fail(groups, fmt::format("{} answers of a generation are no whole groups of {}", all, answers),
                      "micro-batch x GPUs x steps_per_generation has to be a multiple");
  draft.set("rollout.prompts", all / answers, "micro-batch x ranks x steps of a generation over answers");
  draft.set("rollout.answers", answers, groups);
  draft.set("rollout.updates", steps / accumulated, key);
  const std::int64_t epochs = draft.integer(again).value_or(1);
  draft.set("rollout.epochs", epochs, again);
  // The policy's own log-probabilities are those of the update where it is the only one.
  draft.set("rollout.old_log_probs", epochs > 1 || steps > accumulated, key);
  if (const auto run = draft.integer("max_steps"))
    if (const std::int64_t updates = bounded_product({steps / accumulated, epochs}); updates > 0 && *run >= updates)
      draft.set("rollout.steps", *run / updates, "max_steps");
}

// Sets the longest sample and the micro-batch. A prompt is cut at max_length, and a sample at what the engine takes.
void read_trl_lengths(Draft& draft) {
  const std::string_view context = "vllm_max_model_len";
  const std::int64_t answer = draft.integer("max_completion_length").value_or(trl_defaults(draft).answer_tokens);
  draft.set("rollout.max_answer_tokens", answer, "max_completion_length");
  const auto prompt = draft.integer("cutoff_len"), whole = draft.integer(context);
  if (!prompt && !whole && !draft.given("batch.sequence_length"))
    draft.note(Note::Kind::assumed, "", "assumed: no prompt is longer than the mean, as no key states the longest");
  constexpr std::int64_t most = 1'000'000'000;  // of a plan's lengths
  const std::int64_t usual = draft.value("rollout.prompt_tokens").value_or(0);
  const std::int64_t both = std::min(most, prompt.value_or(usual)) + std::min(most, answer);
  const std::int64_t longest = !whole ? both : prompt ? std::min(*whole, both) : *whole;
  read_micro_batch(draft, longest, std::nullopt, draft.integer("per_device_train_batch_size").value_or(1),
                   "per_device_train_batch_size");
  draft.note(Note::Kind::assumed, "",
             "assumed: samples are packed into sequences of the longest, so that micro-batches are fewer and fuller");
}

void read_trl_server(Draft& draft) {
  const bool ahead = draft.flag("async_generate").value_or(false);
  const auto ranks = draft.integer("vllm_tensor_parallel_size");
  draft.set("rollout.placement", ahead ? "asynchronous" : "split", ahead ? "async_generate" : "vllm_mode");
  const bool own = draft.program() == "axolotl" && ranks;  // the file has the server's section
  if (own)
    draft.set("rollout.gpus", bounded_product({*ranks, draft.integer("vllm_data_parallel_size").value_or(1)}),
              "vllm_tensor_parallel_size");
  if (draft.given("rollout.gpus")) return;
  draft.fail("vllm_mode", "a server on other GPUs generates the answers, and its command is not here",
             "--set rollout.gpus=N --set rollout.tensor=N state its GPUs and the degree of an engine");
}

void read_trl_colocated(Draft& draft) {
  const bool model = draft.flag("offload_model").value_or(false),
             optimizer = draft.flag("offload_optimizer").value_or(false);
  const std::string_view key = model ? "offload_model" : "offload_optimizer", sleep = "sleep_level";
  draft.set("rollout.offload", model || optimizer, key);
  if (model != optimizer) draft.not_modeled(key, "all that trains is on the host");
  if (draft.integer(sleep).value_or(0) == 0)
    draft.not_modeled(sleep,
                      "engines sleep during the update; there they keep vllm_gpu_memory_utilization of the memory");
}

// Sets the engine; without vLLM transformers generates, which is none.
void read_trl_engine(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view key = "use_vllm", ranks = "vllm_tensor_parallel_size", stages = "vllm_pipeline_parallel_size",
                         experts = "vllm_enable_expert_parallel";
  const TrlDefaults& defaults = trl_defaults(draft);
  const bool other = draft.flag("use_lmdeploy").value_or(false), engine = draft.flag(key).value_or(false) || other;
  if (!engine && !draft.given("inference.engine"))
    return draft.fail(draft.text(key) ? key : "stage",
                      "transformers generates the answers, which is no engine of [inference]",
                      "--set inference.engine=vllm predicts vLLM in its place");
  draft.set("inference.engine", "vllm", key);
  const bool server = engine && !other &&
                      (draft.configuration().find("vllm_server_host") != nullptr ||
                       draft.configuration().find("vllm_server_base_url") != nullptr ||
                       draft.text("vllm_mode").value_or(std::string(defaults.mode)) == "server");
  draft.set("rollout.tensor", draft.integer(ranks).value_or(1), ranks);
  draft.set("rollout.pipeline", draft.integer(stages).value_or(1), stages);
  if (draft.flag(experts).value_or(false))
    draft.set("rollout.expert", draft.value("rollout.tensor").value_or(1), experts);
  draft.set(
      "inference.memory_share",
      draft.number("vllm_gpu_memory_utilization").value_or(server ? defaults.server_share : defaults.colocated_share),
      "vllm_gpu_memory_utilization");
  if (server)
    read_trl_server(draft);
  else
    read_trl_colocated(draft);
  if (!draft.text("reward_model") || draft.given("rollout.reward_model")) return;
  if (const auto model = named_model(in, "reward_model"))
    draft.set("rollout.reward_model", model->shipped, "reward_model");
  else
    draft.not_modeled("reward_model", "a program rewards; set rollout.reward_model");
}

}  // namespace

void read_trl_grpo(const RuleInput& in) {
  Draft& draft = in.draft;
  read_algorithm(draft, "dynamic_sample", false, "stage");
  draft.set("rollout.reference", draft.number("beta").value_or(trl_defaults(draft).penalty) != 0, "beta");
  read_trl_engine(in);
  read_trl_step(draft);
  read_trl_lengths(draft);
}

// The models of torchtitan by name and flavor; those that are not shipped with the dimensions of their registries
// (torchtitan/models/*/__init__.py).
namespace {

// Dense models of grouped queries that are not shipped.
struct DenseFlavor {
  std::string_view model, flavor, type;
  std::int64_t layers, hidden, heads, key_value_heads, head_dim, ffn, vocabulary;
  double rope_theta;
  bool tied;
};
constexpr DenseFlavor dense_flavors[] = {
    {"llama3", "debugmodel", "llama", 6, 256, 16, 16, 16, 768, 2048, 500000, false},
    {"qwen3", "0.6B", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1000000, true},
    {"qwen3", "1.7B", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, 1000000, true},
    {"qwen3", "4B", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 1000000, true},
    {"qwen3", "14B", "qwen3", 40, 5120, 40, 8, 128, 17408, 151936, 1000000, false},
};

// Latent attention and experts of deepseek_v3. torchtitan has no prediction modules.
constexpr std::string_view deepseek_671b = R"({
  "model_type": "deepseek_v3",
  "num_hidden_layers": 61,
  "hidden_size": 7168,
  "intermediate_size": 18432,
  "moe_intermediate_size": 2048,
  "num_attention_heads": 128,
  "num_key_value_heads": 128,
  "q_lora_rank": 1536,
  "kv_lora_rank": 512,
  "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64,
  "v_head_dim": 128,
  "n_routed_experts": 256,
  "n_shared_experts": 1,
  "num_experts_per_tok": 8,
  "first_k_dense_replace": 3,
  "moe_layer_freq": 1,
  "n_group": 8,
  "topk_group": 4,
  "scoring_func": "sigmoid",
  "norm_topk_prob": true,
  "routed_scaling_factor": 2.5,
  "num_nextn_predict_layers": 0,
  "vocab_size": 129280,
  "tie_word_embeddings": false
}
)";

std::string config_of(const DenseFlavor& flavor) {
  nlohmann::ordered_json json;
  json["model_type"] = flavor.type;
  json["num_hidden_layers"] = flavor.layers;
  json["hidden_size"] = flavor.hidden;
  json["intermediate_size"] = flavor.ffn;
  json["num_attention_heads"] = flavor.heads;
  json["num_key_value_heads"] = flavor.key_value_heads;
  json["head_dim"] = flavor.head_dim;
  json["rms_norm_eps"] = flavor.type == "llama" ? 1e-5 : 1e-6;
  json["rope_theta"] = flavor.rope_theta;
  json["tie_word_embeddings"] = flavor.tied;
  json["vocab_size"] = flavor.vocabulary;
  return json.dump(2) + "\n";
}

// Other attention kernels are flavors of their own: "8B_flex".
std::string_view without_attention(std::string_view flavor) {
  for (const std::string_view end : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"})
    if (flavor.ends_with(end)) return flavor.substr(0, flavor.size() - end.size());
  return flavor;
}

bool same_name(std::string_view a, std::string_view b) { return lower_case(a) == lower_case(b); }

}  // namespace

std::optional<NamedModel> torchtitan_model(std::string_view name, std::string_view flavor) {
  const std::string_view plain = without_attention(flavor);
  if (name == "deepseek_v3" && same_name("671B", plain)) return NamedModel{"", std::string(deepseek_671b), 61};
  for (const ShippedModel& one : shipped_models)
    if (one.titan == name && same_name(one.flavor, plain)) return NamedModel{std::string(one.name), "", one.layers};
  for (const DenseFlavor& one : dense_flavors)
    if (one.model == name && same_name(one.flavor, plain)) return NamedModel{"", config_of(one), one.layers};
  return std::nullopt;
}

// MODEL_FLAVORS of torchtitan/models/llama3/flavors.py @10503c1c, qwen3/flavors.py and deepseek_v3/flavors.py
// @0276e6ed.
std::optional<std::int64_t> torchtitan_context(std::string_view name, std::string_view flavor) {
  const bool small = flavor.starts_with("debugmodel");
  if (name == "llama3") return 131072;
  if (name == "qwen3") return small ? 4096 : 40960;
  if (name == "deepseek_v3") return 16384;
  return std::nullopt;
}

std::optional<std::pair<std::string_view, std::string_view>> titan_flavor(std::string_view shipped) {
  const auto* found = std::ranges::find(shipped_models, shipped, &ShippedModel::name);
  if (found == std::end(shipped_models) || found->titan.empty()) return std::nullopt;
  return std::pair{found->titan, found->flavor};
}

std::string torchtitan_flavors() {
  std::string text, last;
  const auto add = [&](std::string_view model, std::string_view flavor) {
    text += fmt::format("{}{}{}",
                        text.empty()    ? ""
                        : model == last ? ", "
                                        : "; ",
                        model == last ? "" : fmt::format("{} ", model), flavor);
    last = model;
  };
  for (const ShippedModel& one : shipped_models)
    if (!one.titan.empty()) add(one.titan, one.flavor);
  for (const DenseFlavor& one : dense_flavors) add(one.model, one.flavor);
  return text;
}

}  // namespace plumbline::model::configurations
