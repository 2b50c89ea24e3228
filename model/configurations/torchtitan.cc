// torchtitan's train.toml: names and defaults of torchtitan/config/job_config.py (pytorch/torchtitan, 2024 to 2025).
// Its registries of Python functions, and what they dump as JSON: config/configs.py @0014ac2c, trainer.py @003fe280,
// models/common/moe_sharding.py @004616c3 and distributed/activation_checkpoint.py of 2026.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <system_error>

#include "model/base/text_file.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow torchtitan_rows[] = {
#include "model/configurations/detail/keys/torchtitan.def"
};

struct TitanSchedule {
  std::string_view name, kind;  // kind: empty: refused, for the reason in `note`
  std::int64_t chunks;          // of a rank, where no key decides
  std::string_view note;        // what the prediction has otherwise
  std::string_view other = {};  // a kind that bounds it from the other side
};
constexpr TitanSchedule titan_schedules[] = {
    {"1F1B", "1f1b", 1, ""},
    {"GPipe", "gpipe", 1, ""},
    {"Interleaved1F1B", "interleaved", 2, ""},
    {"ZBVZeroBubble", "zb-v", 2, ""},
    {"DualPipeV", "dualpipev", 2, ""},
    {"InterleavedZeroBubble", "interleaved", 2, "its weight gradients fill bubbles that the prediction counts", "zb-v"},
    {"LoopedBFS", "", 2,
     "it keeps the activations of all micro-batches, and no schedule here does with several stages"},
};

namespace fs = std::filesystem;

// Returns the file of a module that a registry imports: in its own folder, or another registry or recipe of the same
// tree of packages; empty where it is neither.
fs::path file_of(std::string_view module, const fs::path& folder) {
  constexpr std::string_view registry = "config_registry.py";
  const std::size_t dots = std::min(module.find_first_not_of('.'), module.size());
  std::string name(module.substr(dots));
  std::ranges::replace(name, '.', '/');
  fs::path from = folder;
  for (std::size_t i = 1; i < dots; ++i) from = from.parent_path();
  for (std::error_code ignored; !name.empty(); from = from.parent_path()) {
    fs::path file = from / (name + ".py");
    const bool reads = dots > 0 || file.parent_path() == folder || file.filename() == registry ||
                       module.starts_with("torchtitan_recipes.");
    if (reads && fs::is_regular_file(file, ignored)) return file;
    if (dots > 0 || !from.has_relative_path()) break;
  }
  return {};
}

// Files of Python as one text, each behind those that it imports, whose functions it calls.
struct Registry {
  std::string text;
  std::vector<PythonModule> modules;
  std::map<fs::path, std::size_t> known;  // indices of modules

  void add(const fs::path& file, std::string_view source) {
    constexpr std::size_t most_files = 50, largest_file = 1 << 20;
    PythonModule module{0, file.parent_path().filename().string(), {}};
    for (std::string_view line : lines_of(source)) {
      line = trimmed(line);
      if (!line.starts_with("from ") || line.find(" import ") == std::string_view::npos) continue;
      const std::string_view name = trimmed(line.substr(5, line.find(" import ") - 5));
      const fs::path other = file_of(name, file.parent_path());
      std::error_code ignored;
      if (other.empty() || fs::file_size(other, ignored) > largest_file || open.size() >= most_files) continue;
      if (open.insert(other).second)
        if (const auto imported = read_text_file(other.string())) add(other, *imported + "\n");
      if (known.contains(other)) module.imports[std::string(name)] = known.at(other);
    }
    module.begin = text.size();
    known[file] = modules.size();
    modules.push_back(std::move(module));
    text += source;
  }

  std::set<fs::path> open;  // files that are read, or are being read
};

// Gives what the releases of the end of 2026 call the model the names of the registries before them.
void rename_built_model(const Source& source, Configuration& read) {
  for (Entry& entry : read.entries) {
    if (entry.key != "model" && !entry.written.starts_with("model.") && !entry.written.starts_with("model[")) continue;
    entry.written.insert(std::string_view("model").size(), "_spec");
    entry.key = with_renames(without_indices(entry.written), source.renames);
  }
}

// Returns the policy of a class of activation checkpointing; its own name where it is none.
std::string policy_of(const std::string& name) {
  const auto is = [&name](std::string_view part) { return name.find(part) != std::string::npos; };
  return name.empty()                                                  ? "none"
         : is("SelectiveActivationRemat")                              ? "regions"
         : is("Selective") || name.starts_with("ActivationCheckpoint") ? "selective"
         : is("MemoryBudget")                                          ? "memory_budget"
         : is("Full")                                                  ? "full"
                                                                       : name;
}

// Reads what is not TOML, and gives classes the keys that earlier releases had in their place.
Result<Configuration> read_titan(const Source& source) {
  const bool python = is_python(source.text);
  if (!python && !trimmed(source.text).starts_with('{')) return read_toml(source);
  std::error_code ignored;
  Registry registry;
  const fs::path file = fs::absolute(source.path, ignored).lexically_normal();
  registry.open.insert(file);
  if (python) registry.add(file, source.text);
  const Source whole{registry.text, source.path, source.renames, source.function, registry.modules};
  auto read = TRY(python ? read_python(whole) : read_yaml(source));
  const Entry* model = read.find("model");
  if (model != nullptr && model->value == kModelBuilder) rename_built_model(source, read);
  for (Entry& entry : read.entries) {
    if (entry.key == "model_spec" && !entry.items.empty()) {
      entry.key = "model.flavor";
      entry.value = entry.items.front();
    } else if (entry.key == "activation_checkpoint") {
      entry.key = "activation_checkpoint.mode";
      entry.value = policy_of(entry.value);
    } else if (entry.key.starts_with("transforms[].inner_attention")) {
      entry.key = "transforms[].inner_attention";  // a class by its name, or by that of the class that it replaces
      entry.unread = false;
    } else if (entry.key == "transforms[].dispatcher") {
      entry.unread = false;
    }
  }
  // A section without fields states nothing, but for what is off without it.
  std::erase_if(read.entries, [](const Entry& entry) {
    return entry.value.ends_with("Config") && entry.value.find('.') == std::string::npos && entry.items.empty() &&
           !entry.unread && entry.key != "compile" && entry.key.find('.') == std::string::npos;
  });
  // A dump has the fields of the class alone.
  const Entry* policy = read.find("activation_checkpoint.determinism_check");
  if (policy != nullptr && read.find("activation_checkpoint.mode") == nullptr)
    read.entries.push_back({"activation_checkpoint.mode",
                            "activation_checkpoint",
                            read.find("activation_checkpoint.force_recompute_mm_shapes_by_fqns") != nullptr
                                ? "selective"
                            : read.find("activation_checkpoint.memory_budget") != nullptr ? "memory_budget"
                                                                                          : "full",
                            {},
                            policy->line});
  return read;
}

// Returns whether a file is of a release with registries.
bool of_registry(const Draft& draft) {
  const Entry* flavor = draft.configuration().find("model.flavor");
  return flavor != nullptr && flavor->written.starts_with("model_spec");
}

// Returns whether a file is of the releases of the end of 2026, whose models are built by build_model_config.
bool builds_model(const Draft& draft) { return draft.configuration().find("model_spec.max_context_length") != nullptr; }

// Returns whether a component, the model or the loss, is compiled: all where none is named. The newest releases compile
// where there is a section.
bool compiles(Draft& draft, std::string_view component) {
  const bool section = std::ranges::any_of(draft.configuration().entries, [](const Entry& entry) {
    return entry.key.starts_with("compile.") || (entry.key == "compile" && !entry.is_null());
  });
  if (!draft.flag("compile.enable").value_or(builds_model(draft) && section)) return false;
  const auto components = draft.list("compile.components");
  return components.empty() || std::ranges::find(components, component) != components.end();
}

void read_model(const RuleInput& in) {
  Draft& draft = in.draft;
  if (draft.given("model.config")) return;
  const auto flavor = draft.text("model.flavor");
  if (!flavor) return;
  const std::string name = draft.text("model.name").value_or("llama3");
  if (auto model = torchtitan_model(name, *flavor)) return in.use_model(std::move(*model));
  draft.fail("model.flavor", fmt::format("'{}' of {} is no flavor of torchtitan that is known", *flavor, name),
             fmt::format("known: {}; --model names another model", torchtitan_flavors()));
}

// Sets the GPUs where all degrees are stated, and what FSDP, HSDP and DDP are.
void read_mesh(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::int64_t tensor = draft.integer("parallelism.tensor_parallel_degree").value_or(1);
  draft.set("parallelism.tensor", tensor, "parallelism.tensor_parallel_degree");
  const auto sequence = draft.flag("parallelism.enable_sequence_parallel");
  if (draft.degree("tensor") > 1)
    draft.set("parallelism.sequence", sequence.value_or(true),
              sequence ? "parallelism.enable_sequence_parallel" : "with tensor parallelism");
  const auto divided = draft.integer("parallelism.expert_tensor_parallel_degree");
  if (draft.degree("expert") > 1)
    draft.set("parallelism.expert_tensor", divided.value_or(1), "parallelism.expert_tensor_parallel_degree");
  else if (draft.degree("tensor") > 1 && in.has_experts())
    draft.set("parallelism.expert_tensor", draft.degree("tensor"), "without an expert degree");
  const std::int64_t replicas = draft.integer("parallelism.data_parallel_replicate_degree").value_or(1);
  const std::int64_t shards = draft.integer("parallelism.data_parallel_shard_degree").value_or(-1);
  const std::int64_t others = draft.model_parallel();
  if (replicas < 1 || shards == 0 || shards < -1)
    return draft.fail("parallelism.data_parallel_shard_degree", "degrees are at least 1, or -1 for what is left");
  if (shards > 0 && !draft.given("cluster.gpus"))
    draft.set("cluster.gpus", bounded_product({replicas, shards, others}), "the product of the degrees");
  const auto data = draft.data_parallel();
  const auto gpus = draft.value("cluster.gpus");
  if (gpus && (!data || *data % replicas != 0 || (shards > 0 && *data != replicas * shards)))
    return draft.fail("parallelism.data_parallel_shard_degree",
                      fmt::format("{} GPUs are not replicas {} x shards {} x tensor {} x context {} x pipeline {}",
                                  *gpus, replicas, shards > 0 ? std::to_string(shards) : "(the rest)",
                                  draft.degree("tensor"), draft.degree("context"), draft.degree("pipeline")),
                      "the product of the degrees is the number of GPUs");
  if (!data) return;
  const std::int64_t sharded = *data / replicas * draft.degree("context");
  if (sharded == 1) return draft.set("parallelism.zero_stage", std::int64_t{0}, "DDP: nothing is sharded");
  draft.set("parallelism.zero_stage", std::int64_t{3}, fmt::format("FSDP over {}", sharded));
  if (replicas > 1)
    draft.set("parallelism.shard_group", sharded, fmt::format("HSDP: {} replicas of {} shards", replicas, sharded));
  const std::string reshard = draft.text("parallelism.fsdp_reshard_after_forward").value_or("default");
  const bool again = reshard == "always" || (reshard == "default" && draft.degree("pipeline") == 1);
  draft.set("parallelism.reshard_after_forward", again, "parallelism.fsdp_reshard_after_forward");
  // Stages of PyTorch's pipelines sum gradients unsharded and reduce them after their last micro-batch
  // (backward_maybe_with_nosync() and perform_reduce_grad() of torch/distributed/pipelining/stage.py).
  const std::string_view deferred = "parallelism.fsdp_defer_gradient_reduction";
  const bool piped = draft.degree("pipeline") > 1;
  if (draft.flag(deferred).value_or(false) || piped)
    draft.set("parallelism.reduce_after", "step", piped ? "with a pipeline" : deferred);
}

// Returns the layers of each stage that the file lists by the names of its modules; none where it lists no stages.
std::vector<std::int64_t> listed_layers(const Draft& draft) {
  std::vector<std::int64_t> counts;
  for (const Entry& stage : draft.configuration().entries)
    if (stage.key == "parallelism.module_fqns_per_model_part[]")
      counts.push_back(
          std::ranges::count_if(stage.items, [](const std::string& module) { return module.starts_with("layers."); }));
  return counts;
}

void read_pipeline(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::int64_t ranks = draft.degree("pipeline");
  if (ranks <= 1) return;
  const auto each_rank = read_torch_schedule(draft, "parallelism.pipeline_parallel_schedule",
                                             compiles(draft, "model") ? "compile.enable" : "");
  if (!each_rank) return;
  if (draft.text("parallelism.pipeline_parallel_expert_parallel_overlap") == "false" &&
      draft.word("schedule.kind") == "dualpipev")
    draft.not_modeled("parallelism.pipeline_parallel_expert_parallel_overlap", "DualPipeV's pairs overlap");
  const auto layers = in.layers();
  if (!layers) return;
  const std::int64_t first = draft.integer("parallelism.pipeline_parallel_first_stage_less_layers").value_or(1);
  const std::int64_t last = draft.integer("parallelism.pipeline_parallel_last_stage_less_layers").value_or(1);
  const auto each = draft.integer("parallelism.pipeline_parallel_layers_per_stage");
  const std::vector<std::int64_t> listed = listed_layers(draft);
  const auto parts = static_cast<std::int64_t>(listed.size());
  if (parts % ranks != 0)
    return draft.fail("parallelism.module_fqns_per_model_part",
                      fmt::format("{} stages do not divide over {} ranks", parts, ranks));
  std::int64_t chunks = parts > 0 ? parts / ranks : *each_rank;
  if (parts == 0 && each && *each > 0) chunks = ((*layers + first + last + *each - 1) / *each + ranks - 1) / ranks;
  const bool interleaved = draft.word("schedule.kind") == "interleaved";
  if ((each || parts > 0) && chunks != *each_rank && !interleaved)
    return draft.fail(
        parts > 0 ? "parallelism.module_fqns_per_model_part" : "parallelism.pipeline_parallel_layers_per_stage",
        fmt::format("gives {} stages a rank, {} has {}", chunks,
                    draft.text("parallelism.pipeline_parallel_schedule").value_or("1F1B"), *each_rank));
  if (interleaved) draft.set("schedule.virtual_stages", chunks, "stages of a rank");
  if (parts > 0) return draft.set("schedule.layers_per_stage", listed, "parallelism.module_fqns_per_model_part");
  const std::int64_t stages = bounded_product({ranks, chunks});
  if (stages > *layers + 2 || first < 0 || last < 0)
    return draft.fail("parallelism.pipeline_parallel_degree", fmt::format("{} stages for {} layers", stages, *layers));
  draft.set("schedule.layers_per_stage", split_with_ends(*layers, stages, first, last),
            "embedding and head count as layers of the ends");
}

// Releases since the end of August 2026 count tokens, and a pipeline's micro-batches of a replica.
void read_titan_batch(Draft& draft) {
  constexpr std::string_view tokens_key = "training.num_tokens_per_microbatch_per_dp_rank";
  constexpr std::string_view step_key = "training.num_tokens_per_train_step", length_key = "training.seq_len";
  const Entry* context = draft.configuration().find(length_key);
  const bool counts_tokens = draft.configuration().find(tokens_key) != nullptr ||
                             draft.configuration().find(step_key) != nullptr ||
                             (context != nullptr && context->written.find("max") != std::string::npos);
  const bool pipeline = draft.degree("pipeline") > 1;
  const std::string_view global_key = counts_tokens ? step_key : "training.global_batch_size";
  const std::string_view micro_key = counts_tokens ? tokens_key
                                     : pipeline    ? "parallelism.pipeline_parallel_microbatch_size"
                                                   : "training.local_batch_size";
  const std::int64_t length = draft.integer(length_key).value_or(2048);
  const std::int64_t micro_tokens = draft.integer(tokens_key).value_or(16384);
  std::int64_t local = draft.integer("training.local_batch_size").value_or(8);
  std::int64_t micro = pipeline ? draft.integer(micro_key).value_or(1) : local;
  std::int64_t wanted = draft.integer(global_key).value_or(-1);
  draft.set("batch.sequence_length", length, length_key);
  if (counts_tokens) {
    if (length < 1 || micro_tokens % length != 0 || (wanted > 0 && wanted % length != 0)) {
      const bool of_micro = length < 1 || micro_tokens % length != 0;
      return draft.fail(
          !of_micro                                           ? global_key
          : draft.configuration().find(tokens_key) != nullptr ? tokens_key
                                                              : length_key,
          fmt::format("{} tokens are no whole sequences of {} tokens", of_micro ? micro_tokens : wanted, length));
    }
    micro = micro_tokens / length;
    local = micro * (pipeline ? draft.integer("parallelism.num_pp_microbatches").value_or(1) : 1);
    if (wanted > 0) wanted /= length;
  }
  draft.set("batch.micro_batch_size", micro, micro_key);
  if (local < 1 || micro < 1 || local % micro != 0)
    return draft.fail(counts_tokens ? micro_key : "training.local_batch_size",
                      fmt::format("{} is no multiple of the micro-batch of {}", local, micro));
  const auto data = draft.data_parallel();
  if (!data) return;
  const std::int64_t once = bounded_product({local, *data});
  const std::int64_t global = wanted > 0 ? wanted : once;
  if (global % once != 0)
    return draft.fail(
        global_key,
        fmt::format("{} is no multiple of local batch {} x data-parallel degree {} = {}", global, local, *data, once),
        "gradients accumulate over whole local batches");
  draft.set("batch.global_batch_size", global,
            wanted > 0 ? std::string(global_key) : fmt::format("local batch {} x {} replicas", local, *data));
  if (pipeline && global > once)
    draft.not_modeled(global_key, "the pipeline drains after each local batch, here once a step");
  read_steps(draft, "training.steps");
}

// Returns the part of a layer's gate and up projection whose FLOPs are those of every second GEMM of the layer, in the
// order q, k, v, attention's output, gate, up, down: k, attention's output and up. Nothing for layers of other GEMMs.
std::optional<double> second_gemms(const Architecture& model) {
  const bool plain = model.attention == AttentionKind::grouped_query && model.mlp == MlpKind::swiglu &&
                     model.experts.routed_experts == 0 && model.intermediate_size > 0;
  if (!plain) return std::nullopt;
  const auto columns = static_cast<double>((model.heads + model.key_value_heads) * model.head_dim);
  const auto width = static_cast<double>(model.intermediate_size);
  return (columns + width) / (2 * width);
}

// Returns the converters of a model. A registry's dump names no classes.
std::vector<std::string> converters_of(const Draft& draft) {
  std::vector<std::string> converters = draft.list("model.converters");
  if (of_registry(draft) && converters.empty() && draft.configuration().find("quantize.linear.float8.filter_fqns"))
    converters = {draft.text("quantize.linear.float8.recipe_name").value_or("float8")};
  return converters;
}

bool has_word(std::string_view converter, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return converter.find(word) != converter.npos; });
}
bool is_float8(std::string_view converter) { return has_word(converter, {"float8", "Float8", "wise"}); }
bool is_grouped(std::string_view converter) { return has_word(converter, {"Group", "grouped"}); }

// Whether linear layers multiply by aten._scaled_mm, which is none of the operators whose results op keeps
// (_op_sac_save_list of torchtitan/distributed/activation_checkpoint.py).
bool scales_linear_layers(const Draft& draft) {
  return std::ranges::any_of(converters_of(draft), [](const std::string& converter) {
    return is_float8(converter) && !is_grouped(converter);
  });
}

// Of regions, torchtitan keeps the results of all GEMMs but those of experts' gate and up, of attention and of what is
// sent (SelectiveActivationRematConfig of torchtitan/distributed/activation_checkpoint.py of September 2026). Of op, it
// keeps the results of attention and of every second GEMM, and computes everything else again.
// Gate and up projection are one GEMM here: so many layers compute them again that the FLOPs are the same.
void read_operators(const RuleInput& in, bool regions) {
  Draft& draft = in.draft;
  const std::string_view option = regions ? "activation_checkpoint.mode" : "activation_checkpoint.selective_ac_option";
  draft.set("recompute.policy", "selective", "activation_checkpoint.mode");
  if (draft.given("recompute.operators")) return;
  std::vector<std::string> kept_experts = {"mlp", "swiglu", "rmsnorm"}, all = {"mlp", "swiglu", "rmsnorm", "moe"};
  if (regions) kept_experts.erase(kept_experts.begin()), all.erase(all.begin());
  if (in.has_experts()) {
    if (draft.degree("expert") == 1) return draft.set("recompute.operators", all, option);
    return draft.assume(
        "recompute.operators", all,
        "GEMMs of experts run again, as torchtitan keeps none of them; it keeps what was dispatched and "
        "combined, which is sent again here",
        toml_of(kept_experts));
  }
  if (!regions && !scales_linear_layers(draft)) return keep_second_gemms(in, option, "selective_ac_option = op");
  draft.set("recompute.operators", kept_experts, option);
  if (!regions)
    draft.note(Note::Kind::assumed, option,
               "selective_ac_option = op: no result of a float8 GEMM is kept; gate and up run again in every layer, "
               "those of attention do not here");
}

void read_recompute(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view key = "activation_checkpoint.mode";
  const auto mode = draft.text(key);
  const std::string_view saved_key = "activation_checkpoint.save_regions";
  const Entry* saved = draft.configuration().find(saved_key);
  const std::string word = saved == nullptr ? mode.value_or("selective") : saved->items.empty() ? "full" : "regions";
  constexpr std::string_view stop_key = "activation_checkpoint.early_stop";
  const auto stop = draft.flag(stop_key);
  if ((stop || of_registry(draft)) && !compiles(draft, "model"))
    draft.set("recompute.early_stop", stop.value_or(false), stop_key);
  if (word == "none" || word == "full") return draft.set("recompute.policy", word, saved == nullptr ? key : saved_key);
  if (word == "regions") {
    if (saved != nullptr && saved->items.front() != "*")
      draft.not_modeled(saved_key, "all but the experts' first GEMM is kept of the results of GEMMs");
    return read_operators(in, true);
  }
  if (word != "selective") {
    draft.set("recompute.policy", "none", key);
    return draft.not_modeled(key, "nothing is recomputed");
  }
  const std::string_view option = "activation_checkpoint.selective_ac_option";
  const std::string which = draft.text(option).value_or(of_registry(draft) ? "op" : "2");
  if (which == "op") return read_operators(in, false);
  const auto every = parse_number<std::int64_t>(which);
  if (!every || *every < 1) return draft.fail(option, fmt::format("'{}' is neither op nor a number", which));
  draft.set("recompute.policy", "full", key);
  const auto layers = in.layers();
  if (*every == 1 || !layers) return;
  draft.set("recompute.layers", *layers / draft.stages() / *every,
            fmt::format("one of {} layers of each stage", *every));
}

void read_filters(Draft& draft, std::string_view key) {
  for (const std::string& name : draft.list(key)) {
    if (name == "output" || name == "router.gate" || name == "lm_head" || name.starts_with("auto_filter")) continue;
    return draft.not_modeled(key, "every linear layer of a block has precision.gemm");
  }
}

void read_precision(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string param = draft.text("training.mixed_precision_param").value_or("bfloat16");
  const std::string reduce = draft.text("training.mixed_precision_reduce").value_or("float32");
  Precision gemm = param == "float32" ? Precision::fp32 : Precision::bf16;
  std::string_view origin = "training.mixed_precision_param";
  std::optional<Precision> experts;
  for (const std::string& converter : converters_of(draft)) {
    if (has_word(converter, {"LoRA"})) {
      if (refuse_adapter(draft, "model.converters", converter)) return;
      continue;
    }
    const auto format = has_word(converter, {"mx", "MX"}) ? std::optional(Precision::mxfp8)
                        : is_float8(converter)            ? std::optional(Precision::fp8_tensor)
                        : has_word(converter, {"NVFP4"})  ? std::optional(Precision::nvfp4)
                                                          : std::nullopt;
    if (!format)
      draft.not_modeled("model.converters", "only float8, mx and nvfp4 change a GEMM");
    else if (is_grouped(converter))
      experts = format;
    else
      gemm = *format;
    origin = "model.converters";
  }
  // Converters of linear layers leave the experts as they are.
  for (const std::string_view names : {"quantize.grouped_mm.float8.fqns", "quantize.grouped_mm.mx.fqns"})
    if (!experts && !draft.list(names).empty()) experts = gemm;
  if (const Precision format = experts.value_or(Precision::bf16); format != gemm && in.has_experts())
    if (gemm != Precision::fp32) draft.set("precision.experts", to_string(format), origin);
  if (gemm == Precision::fp8_tensor &&
      draft.text("quantize.linear.float8.recipe_name").value_or("tensorwise") != "tensorwise")
    draft.set("precision.scaling", "row", "quantize.linear.float8.recipe_name");
  if (gemm == Precision::fp8_tensor) read_filters(draft, "quantize.linear.float8.filter_fqns");
  if (gemm == Precision::mxfp8) read_filters(draft, "quantize.linear.mx.filter_fqns");
  set_precision(draft, gemm, origin);
  draft.set("precision.gradients", "fp32", "gradients of sharded FP32 parameters");
  draft.set("precision.gradient_reduce", reduce == "bfloat16" ? "bf16" : "fp32", "training.mixed_precision_reduce");
}

// The head and its loss run in chunks of tokens, eight unless stated, gradient included: ChunkedLossWrapper and
// ChunkedCELoss of torchtitan/components/loss.py @00a388d9.
void read_loss(Draft& draft) {
  const std::string name = draft.text("loss").value_or("");
  if (name.find("Chunk") != std::string::npos)
    draft.set("loss.chunks", draft.integer("loss.num_chunks").value_or(8), "loss.num_chunks");
  else if (!name.empty() && name.find("CrossEntropy") == std::string::npos)
    draft.not_modeled("loss", "the loss is the cross-entropy of all words");
  if (compiles(draft, "loss") && !compiles(draft, "model"))
    draft.set("loss.kernel", "fused", "compile.components");  // of a model that is not compiled
}

// Registries have PyTorch's scaled_dot_product_attention unless they state another one, those that build their models
// FlexAttention (attn_backend of torchtitan/models/llama3/flavors.py @10503c1c).
void read_attention(Draft& draft) {
  const std::string_view key = "model_spec.attn_backend";
  std::string backend = draft.text(key).value_or(builds_model(draft) ? "flex" : "sdpa");
  const std::string flavor = draft.text("model.flavor").value_or("");
  for (const std::string_view one : {"flex", "varlen"})  // flavors of their own before
    if (flavor.ends_with(fmt::format("_{}", one)) || flavor.ends_with(fmt::format("_{}_attn", one))) backend = one;
  if (backend == "flex" || backend == "varlen")
    draft.set("attention.kernel", backend == "flex" ? "triton" : "flash2", key);
  else if (backend != "sdpa")
    draft.not_modeled(key, "kernels of attention are those of the stack");
}

// Changes of a model that is built, torchtitan/config/transform @0fe24f63.
void read_transforms(Draft& draft) {
  const std::string_view key = "transforms";
  for (const std::string& name : draft.list(key)) {
    const auto is = [&name](std::string_view part) { return name.find(part) != std::string::npos; };
    if (is("LoRA")) {
      if (refuse_adapter(draft, key, name)) return;
    } else if (is("AsyncTensorParallel"))
      draft.set("overlap.tensor", draft.degree("tensor") > 1, key);
    else if (is("DistMoe"))
      draft.not_modeled(key, "experts are sent by stack.dispatcher, and computed by kernels of the profile");
    else if (!is("ContextParallel") && !is("TokenDispatcher"))
      draft.not_modeled(key, fmt::format("{} is not priced", name));
  }
  if (const auto format = draft.text("transforms[].expert_precision"); format && *format != "bf16")
    draft.set("precision.experts", *format, "transforms[].expert_precision");
  if (const auto attention = draft.text("transforms[].inner_attention"); attention && draft.degree("context") > 1) {
    const bool ring = attention->find("Ring") != std::string::npos;
    draft.set("parallelism.context_method", ring ? "ring" : "all-gather", "transforms[].inner_attention");
    if (!ring && attention->find("AllGather") == std::string::npos)
      draft.not_modeled("transforms[].inner_attention", "keys and values are gathered");
  }
  if (const auto sender = draft.text("transforms[].dispatcher"); sender && draft.degree("expert") > 1) {
    const auto is = [&sender](std::string_view part) { return sender->find(part) != std::string::npos; };
    draft.set("stack.dispatcher",
              is("Hybrid")   ? "hybridep"
              : is("DeepEP") ? "deepep"
                             : "alltoall",
              "transforms[].dispatcher");
    if (!is("Hybrid") && !is("DeepEP") && !is("AllToAll"))
      draft.not_modeled("transforms[].dispatcher", "experts are sent by an all-to-all");
  }
}

void read_rest(Draft& draft) {
  const bool compiled = compiles(draft, "model");
  const std::string_view stack = !compiled            ? "pytorch-fsdp-eager"
                                 : of_registry(draft) ? "torchtitan-2026"
                                                      : "torchtitan-compile";
  draft.set("stack.name", stack, "compile.enable");
  const std::string_view async = "parallelism.enable_async_tensor_parallel";
  const bool asynchronous = draft.flag(async).value_or(false);
  if (asynchronous && compiled) draft.set("overlap.tensor", draft.degree("tensor") > 1, async);
  if (asynchronous && !compiled) draft.not_modeled(async, "it needs the compiled model, and is off without");
  if (draft.text("model_spec.tp_gemm_backend") == "dist_gemm") {
    const std::string_view key = "model_spec.tp_gemm_backend";
    draft.set("overlap.tensor", draft.degree("tensor") > 1, key);
    // The sum of the projections' gradients is one product (pytorch/torchtitan pull request 4162).
    draft.set("overlap.tensor_gradients", true, key);
  }
  if (draft.degree("context") > 1) {
    const std::string_view balancer = "parallelism.context_parallel_load_balancer";
    if ((draft.configuration().find(balancer) != nullptr || builds_model(draft)) && !draft.text(balancer))
      draft.not_modeled(balancer, "every rank has the same share of attention");
    const std::string_view key = "parallelism.context_parallel_rotate_method";
    draft.set("parallelism.context_method", draft.text(key).value_or("allgather") == "alltoall" ? "ring" : "all-gather",
              key);
  }
  if (draft.degree("expert") > 1) {
    const std::string_view key = "parallelism.expert_parallel_comm_backend";
    std::string backend = draft.text(key).value_or("standard");
    std::erase(backend, '_');
    draft.set("stack.dispatcher", backend == "standard" ? "alltoall" : backend, key);
  }
  if (const auto norm = draft.number("training.max_norm"))
    draft.set("optimizer.gradient_clipping", *norm > 0, "training.max_norm");
  if (draft.flag("training.enable_cpu_offload").value_or(false)) {
    draft.set("offload.optimizer", true, "training.enable_cpu_offload");
    draft.not_modeled("training.enable_cpu_offload", "parameters and gradients stay on the GPU");
  }
  if (draft.text("training.dtype") == "bfloat16")
    draft.not_modeled("training.dtype", "master weights and optimizer states are FP32");
  read_loss(draft);
  read_attention(draft);
  read_transforms(draft);
  if (builds_model(draft) && !draft.flag("training.disable_cuda_graphs").value_or(false) &&
      (draft.degree("expert") == 1 || draft.text("model_spec.non_blocking_capacity_factor")))
    draft.set("stack.graphs", std::vector<std::string>{"full_iteration"}, "training.disable_cuda_graphs");
  if (draft.text("optimizer.optimizers[].moment_dtype") == "bfloat16" ||
      draft.text("optimizer.implementation") == "fused_opt_states_bf16")
    draft.set("precision.optimizer_moments", "bf16", "optimizer.optimizers[].moment_dtype");
  for (const std::string& name : draft.list("optimizer.optimizers"))
    if (!name.starts_with("Adam")) draft.not_modeled("optimizer.optimizers", "the optimizer is Adam");
  const std::string container = draft.text("optimizer").value_or("adamw");
  if (container.find("InBackward") != std::string::npos)
    draft.not_modeled("optimizer", "the optimizer runs after the backward pass");
  else if (container.find("adam") == std::string::npos && container != "OptimizersContainer.Config")
    draft.not_modeled("optimizer", "the optimizer is Adam");
  const std::string optimizer = draft.text("optimizer.name").value_or("AdamW");
  if (optimizer != "AdamW" && optimizer != "Adam") draft.not_modeled("optimizer.name", "the optimizer is Adam");
  if (!draft.text("optimizer.implementation").value_or("fused").starts_with("fused"))
    draft.not_modeled("optimizer.implementation", "the fused optimizer is priced");
}

void torchtitan_rules(const RuleInput& in) {
  read_model(in);
  read_mesh(in);
  read_pipeline(in);
  read_titan_batch(in.draft);
  read_recompute(in);
  read_precision(in);
  read_rest(in.draft);
}

}  // namespace

std::string_view titan_schedule(std::string_view kind) {
  const auto* found = std::ranges::find(titan_schedules, kind, &TitanSchedule::kind);
  return found == std::end(titan_schedules) ? "" : found->name;
}

std::optional<std::int64_t> read_torch_schedule(Draft& draft, std::string_view key, std::string_view compiled) {
  const std::string name = draft.text(key).value_or("1F1B");
  const auto* known = std::ranges::find_if(
      titan_schedules, [&](const TitanSchedule& one) { return lower_case(one.name) == lower_case(name); });
  if (known == std::end(titan_schedules)) {
    std::vector<std::string> names;
    for (const TitanSchedule& one : titan_schedules) names.emplace_back(one.name);
    draft.fail(key, fmt::format("no schedule is known by the name '{}'", name), known_names(name, names));
    return std::nullopt;
  }
  if (known->kind.empty() && !draft.given("schedule.kind")) {
    draft.fail(key, fmt::format("{} is not predicted: {}", name, known->note),
               "--set schedule.kind=interleaved has about its time, with less memory than it needs");
    return std::nullopt;
  }
  if (known->kind.empty() || known->other.empty()) {
    draft.set("schedule.kind", known->kind, key);
  } else {
    draft.assume("schedule.kind", known->kind, fmt::format("the nearest to {}: {}", name, known->note), known->other);
  }
  // _check_torch_compile_compatibility() of torch/distributed/pipelining/schedules.py (pytorch/pytorch pull request
  // 162511), which the schedules call that have weight gradients of their own.
  if (!compiled.empty() && (known->name.ends_with("ZeroBubble") || known->name == "DualPipeV"))
    draft.note(
        Note::Kind::assumed, compiled,
        fmt::format("assumed: {} runs with {}: PyTorch refuses it where layers are compiled, whose backward pass "
                    "it cannot split; --set stack.name=pytorch-fsdp-eager has none compiled",
                    known->name, compiled));
  return known->chunks;
}

void keep_second_gemms(const RuleInput& in, std::string_view key, std::string_view words) {
  Draft& draft = in.draft;
  draft.set("recompute.operators", std::vector<std::string>{"mlp", "swiglu", "rmsnorm"}, key);
  const auto model = in.architecture();
  const auto share = model ? second_gemms(*model) : std::nullopt;
  if (!share)
    return draft.note(Note::Kind::assumed, key,
                      fmt::format("{}: norms, gates and the GEMMs before them run again in every layer; {} recomputes "
                                  "every second GEMM, which is less",
                                  words, draft.program()));
  const double each = static_cast<double>(model->layers) / static_cast<double>(draft.stages());
  draft.set("recompute.layers", static_cast<std::int64_t>(std::lround(*share * each)), key);
  draft.note(Note::Kind::assumed, key,
             fmt::format("{}: every second GEMM runs again; gate and up run again in {:.0f} of {:.0f} layers of a "
                         "stage, which are as many FLOPs",
                         words, *share * each, each));
}

ConfigurationFormat torchtitan() {
  return {"torchtitan",
          "torchtitan",
          &read_titan,
          {{"model_spec.name", "model.name"},
           {"model_spec.flavor", "model.flavor"},
           {"model_spec.package", "model.name"},
           {"model_spec.moe_comm_backend", "parallelism.expert_parallel_comm_backend"},
           {"model_spec.converters", "model.converters"},
           {"model_spec.converters[].", "quantize.linear.float8."},
           {"model_converters.converters", "model.converters"},
           {"model_converters.converters[].", "quantize.linear.float8."},
           {"validator.", "validation."},
           {"optim.optimizer.", "optimizer."},
           {"optim.optimizer", "optimizer"},
           {"optim.max_norm", "training.max_norm"},
           {"compile.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
           {"parallelism.pipeline_parallel_module_fqns_per_model_part", "parallelism.module_fqns_per_model_part"},
           {"training.batch_size", "training.local_batch_size"},
           {"training.max_context_length", "training.seq_len"},
           {"training.compile", "compile.enable"},
           {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
           {"training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"},
           {"training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"},
           {"training.data_parallel_degree", "parallelism.data_parallel_shard_degree"},
           {"experimental.pipeline_parallel_", "parallelism.pipeline_parallel_"},
           {"experimental.context_parallel_", "parallelism.context_parallel_"},
           {"experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
           {"experimental.enable_compiled_autograd", "parallelism.enable_compiled_autograd"},
           {"float8.moe_fqns", "quantize.grouped_mm.float8.fqns"},
           {"float8.", "quantize.linear.float8."},
           {"mx.moe_fqns", "quantize.grouped_mm.mx.fqns"},
           {"mx.", "quantize.linear.mx."},
           {"quantize.dense.", "quantize.linear."},
           {"quantize.moe.", "quantize.grouped_mm."}},
          table_of(torchtitan_rows),
          &torchtitan_rules};
}

}  // namespace plumbline::model::configurations
