// Recipes of NeMo 2 and Megatron-Bridge as YAML and of Bridge as Python, and megatron_gpt_config.yaml of NeMo 1. Fields
// that have the name of an argument of Megatron are read as that; the table has the others.
#include <algorithm>
#include <array>
#include <map>
#include <type_traits>

#include "model/base/integers.h"
#include "model/configurations/detail/shared.h"
#include "model/megatron/model_shape.h"
#include "model/megatron/rules.h"
#include "model/plan/alternative.h"

namespace plumbline::model::configurations {

// How a recipe trains: what it sets under a name of Megatron-Core is an argument of Megatron, and read by its rules.
namespace {

constexpr std::string_view kVirtualStages = "--num-virtual-stages-per-pipeline-rank";

// Returns Megatron's argument of a key, such as --ddp-bucket-size of ddp.bucket_size.
std::string argument_of(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> renamed[] = {
      {"fp8", "--fp8-format"},
      {"fp4", "--fp4-format"},
      {"bucket_size", "--ddp-bucket-size"},
      {"num_moe_experts", "--num-experts"},
      {"gated_linear_unit", "--swiglu"},
      {"rotary_percentage", "--rotary-percent"},
      {"activations_checkpoint_granularity", "--recompute-granularity"},
      {"virtual_pipeline_model_parallel_size", kVirtualStages},
      {"num_layers_in_first_pipeline_stage", "--decoder-first-pipeline-num-layers"},
      {"num_layers_in_last_pipeline_stage", "--decoder-last-pipeline-num-layers"}};
  for (const std::string_view section : {"model.", "ddp.", "optimizer.", "precision.", "comm_overlap.", "train."}) {
    if (!key.starts_with(section)) continue;
    const std::string_view field = key.substr(section.size());
    const auto* found = std::ranges::find(renamed, field, &std::pair<std::string_view, std::string_view>::first);
    return found == std::end(renamed) ? megatron::known_name(fmt::format("--{}", field)) : std::string(found->second);
  }
  return "";
}

// What a recipe gives Megatron's rules, and by which keys.
struct NemoArguments {
  megatron::Given given;
  std::map<std::string, std::string, std::less<>> keys;  // of the recipe, by argument

  void put(const std::string& name, std::string_view key, std::vector<std::string> values = {}, int line = 0) {
    given.put(name, megatron::GivenArgument{std::move(values), line});
    keys[name] = key;
  }
};

NemoArguments arguments_of(const Draft& draft) {
  NemoArguments out;
  for (const Entry& entry : draft.configuration().entries) {
    const std::string name = argument_of(entry.key);
    std::vector<std::string> values = entry.items;
    if (!entry.is_list && !entry.unread && !entry.value.empty())
      values = name == "--recompute-modules" ? draft.list(entry.key) : std::vector{entry.value};
    if (megatron::find_argument(name) == nullptr || nemo_row(entry.key) != megatron_row(entry.key)) continue;
    if (draft.configuration().find(entry.key) != &entry) continue;
    for (std::string& value : values) {
      for (const std::string_view type : {"torch.", "AttnBackend."})
        if (value.starts_with(type)) value.erase(0, type.size());
      value = number_format(value);
    }
    if (values.empty() || values.front() == "false" || values.front() == "False") continue;
    if (values.front() == "true" || values.front() == "True") values.clear();
    out.put(name, entry.key, std::move(values), entry.line);
  }
  return out;
}

// Gives the formats of NeMo's and of Megatron-Bridge's words, and returns the key that decides that of gradients. With
// Bridge's common base the recipe of precision is bf16_mixed where none is stated.
std::string_view give_precision(Draft& draft, bool has_base, NemoArguments& out) {
  constexpr std::pair<std::string_view, std::string_view> recipes[] = {
      {"mxfp8", "mxfp8"},          {"fp8_mx", "mxfp8"},     {"fp8_delayed", "delayed"}, {"fp8_ds", "delayed"},
      {"subchannel", "blockwise"}, {"fp8_sc", "blockwise"}, {"block", "blockwise"},     {"fp8", "tensorwise"}};
  const std::string bridge = draft.text("mixed_precision").value_or("");
  std::string_view key = draft.text("precision.precision") ? "precision.precision"
                         : bridge.empty()                  ? "trainer.precision"
                                                           : "mixed_precision";
  const std::string word = draft.text(key).value_or("");
  const bool stated = out.given.has("--bf16") || out.given.has("--fp16");  // also as fields of the model
  const bool open = word.empty() && !stated && !draft.flag("precision.bf16") && !draft.flag("precision.fp16");
  if (open && !has_base) draft.note(Note::Kind::assumed, "", "assumed: bf16: the file states no precision");
  if (word.starts_with("16") || word.starts_with("fp16"))
    out.put("--fp16", key);
  else if (open || (!word.empty() && !word.starts_with("32") && word != "fp32"))
    out.put("--bf16", key);
  const auto* recipe =
      std::ranges::find_if(recipes, [&](const auto& one) { return bridge.find(one.first) != std::string::npos; });
  if (bridge.find("nvfp4") != std::string::npos) {
    out.put("--fp4-format", key, {"e2m1"});
  } else if (recipe != std::end(recipes)) {
    out.put("--fp8-format", key, {"hybrid"});
    out.put("--fp8-recipe", key, {std::string(recipe->second)});
    // But for blocks of scales Bridge's recipes store parameters in FP8 (training/mixed_precision.py @05097809).
    if (recipe->second != "blockwise" && !draft.flag("precision.fp8_param_gather") &&
        !draft.flag("precision.fp8_param"))
      out.put("--fp8-param-gather", key);
  }
  // Where there is a plugin or recipe of precision, it decides over the section of DDP, with FP32 as its default, but
  // in _perf_precision() (perf_recipes/_common.py @007282ea).
  constexpr std::string_view tuned[] = {"bf16", "fp8_cs", "fp8_ds", "fp8_mx", "nvfp4"};
  const bool decides =
      has_base || !bridge.empty() || draft.text("precision.precision") || draft.text("precision.grad_reduce_in_fp32");
  const std::string_view reduce = decides ? "precision.grad_reduce_in_fp32" : "ddp.grad_reduce_in_fp32";
  const bool otherwise = decides && std::ranges::find(tuned, bridge) == std::end(tuned);
  const bool wide = draft.flag(reduce).value_or(otherwise), half = out.given.has("--fp16");
  if (wide && half) out.put("--accumulate-allreduce-grads-in-fp32", reduce);
  if (!wide && out.given.has("--bf16")) out.put("--grad-reduce-in-bf16", reduce);
  return reduce;
}

// Sets what Megatron's rules make of the arguments, but for the batch and the length of the run.
void set_by_rules(const RuleInput& in, const NemoArguments& arguments, std::string_view gradients) {
  constexpr std::string_view taken =
      "schedule. precision. recompute. overlap. attention. loss. routing. stack. parallelism.zero_stage "
      "parallelism.expert_ parallelism.shard_group parallelism.context_method";
  constexpr std::string_view always[] = {"precision.gemm", "precision.gradients", "recompute.policy",
                                         "parallelism.zero_stage"};
  Draft& draft = in.draft;
  Plan plan = megatron::megatron_defaults();
  plan.loss = Plan().loss;  // NeMo fuses it
  plan.cluster.gpus = draft.value("cluster.gpus").value_or(0);
  plan.parallelism.tensor = draft.degree("tensor");
  plan.parallelism.context = draft.degree("context");
  plan.parallelism.pipeline = draft.degree("pipeline");
  const bool laid_out = draft.given("schedule.layers_per_stage");
  if (laid_out) plan.schedule.layers_per_stage.counts = {1};  // no even split is asked
  plan.overlap.gradient_reduce = arguments.given.has("--overlap-grad-reduce");
  megatron::ModelShape shape;
  if (in.has_experts()) shape.experts = 1;
  shape.layers = in.layers().value_or(0);
  std::vector<megatron::Note> notes;
  for (const megatron::Rule& rule : megatron::rules()) rule.read({arguments.given, shape, plan, notes});
  for (const megatron::Note& note : notes) {
    if (note.kind == megatron::NoteKind::refused)
      draft.fail({ErrorKind::input, note.text, draft.configuration().file, note.line, "",
                  note.text.starts_with("--num-layers:")
                      ? "as Megatron refuses it; --set schedule.layers_per_stage=[...] states the layers of each"
                      : "as Megatron refuses it"});
    else
      draft.notes().push_back(
          {note.kind == megatron::NoteKind::not_modeled ? Note::Kind::not_modeled : Note::Kind::assumed, note.line,
           note.text});
  }
  const auto before = plan_values(Plan()), after = plan_values(plan);
  for (const auto& [key, value] : after) {
    if (std::ranges::none_of(split_at(taken, ' '), [&key](std::string_view one) { return key.starts_with(one); }))
      continue;
    if (laid_out && key == "schedule.layers_per_stage") continue;
    std::string origin;
    for (const auto& [name, source] : arguments.keys)
      if (origin.empty() && megatron::find_argument(name)->key == key && name != "--fp8-recipe") origin = source;
    if (key == "precision.gradients") origin = gradients;
    if (key == "schedule.kind")
      origin = arguments.keys.contains(kVirtualStages) ? arguments.keys.find(kVirtualStages)->second : "";
    if (key == "stack.dispatcher" && !in.has_experts()) origin.clear();
    const auto silent = before.find(key);
    const bool same = silent != before.end() && silent->second == value;
    if (!same || !origin.empty() || std::ranges::find(always, key) != std::end(always))
      draft.put(key, value, origin.empty() ? key : origin);
  }
}

// Recipes of Bridge count embedding and head as layers where a model's own do not divide over its stages, as those of
// Qwen3 235B and of Llama 3.1 405B's fine-tuning do (recipes/qwen/qwen3_moe.py, recipes/llama/llama3.py).
void count_ends_of_base(const RuleInput& in, const Entry& base, NemoArguments& arguments) {
  Draft& draft = in.draft;
  const auto layers = in.layers();
  const std::int64_t chunks = draft.integer("model.virtual_pipeline_model_parallel_size").value_or(1);
  const std::int64_t stages = bounded_product({draft.degree("pipeline"), std::max<std::int64_t>(1, chunks)});
  const bool states =
      draft.given("schedule.layers_per_stage") ||
      std::ranges::any_of(draft.configuration().entries, [](const Entry& entry) {
        return !entry.is_null() && (entry.key.ends_with("_pipeline_split") || entry.key.ends_with("_pipeline_stage") ||
                                    entry.key.ends_with("_parallel_layout"));
      });
  if (!layers || states || *layers % stages == 0 || (*layers + 2) % stages != 0) return;
  for (const char* key : {"model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split"})
    arguments.put(argument_of(key), base.key);
  draft.note(Note::Kind::assumed, base.key,
             fmt::format("assumed: embedding and head count as layers, as {} of Bridge has it: {} layers do not divide "
                         "over {} stages, {} do",
                         base.key, *layers, stages, *layers + 2));
}

// Only Megatron-Core of 2026 replays whole iterations.
void read_nemo_rest(Draft& draft, const NemoArguments& arguments) {
  const std::vector<std::string> scopes = arguments.given.values("--cuda-graph-scope");
  for (const char* key : {"model.tp_comm_overlap", "model.ub_tp_comm_overlap", "comm_overlap.tp_comm_overlap",
                          "trainer.callbacks[].tp_comm_overlap"})
    if (draft.flag(key).value_or(false) && draft.degree("tensor") > 1) draft.set("overlap.tensor", true, key);
  for (const char* key : {"trainer.gradient_clip_val", "optimizer.clip_grad"})
    if (const auto norm = draft.number(key)) draft.set("optimizer.gradient_clipping", *norm > 0, key);
  // A function of Bridge returns the optimizer, whose name begins with how it is divided.
  const Entry* made = draft.configuration().find("optimizer");
  const bool by_function = made != nullptr && made->value.find("muon") != std::string::npos;
  if (by_function || draft.text("optimizer.optimizer").value_or("adam").find("muon") != std::string::npos)
    draft.set("optimizer.kind", "muon", by_function ? made->key : "optimizer.optimizer");
  else if (draft.text("optimizer.optimizer").value_or("adam") != "adam")
    draft.not_modeled("optimizer.optimizer", "the optimizer is Adam");
  const bool replays = arguments.given.value("--cuda-graph-impl") == "full_iteration" ||
                       std::ranges::find(scopes, "full_iteration") != scopes.end();
  draft.set("stack.name", replays ? "megatron-core-2026" : "megatron-core-2025",
            fmt::format("{} runs Megatron-Core", draft.program()));
  for (const char* key : {"trainer.max_steps", "train.train_iters"}) read_steps(draft, key);
}

}  // namespace

const KeyRow* megatron_row(std::string_view key) {
  const KeyRow* row = megatron::find_argument(argument_of(key));
  if (row == nullptr || row->meaning != Meaning::rule) return row;
  for (const std::string_view other : {"shape.", "batch.", "run."})  // not by the rules that are read here
    if (row->key.starts_with(other)) return nullptr;
  return row;
}

void read_nemo_training(const RuleInput& in) {
  NemoArguments arguments = arguments_of(in.draft);
  // Recipes of Bridge begin as _pretrain_common() or _sft_common() (recipes/common.py @0eca073e); the optimizer of both
  // is distributed_fused_adam_with_cosine_annealing() (recipes/utils/optimizer_utils.py @0d7a394c).
  const auto begins_as = [&in](std::string_view kind) -> const Entry* {
    const auto& entries = in.draft.configuration().entries;
    const auto found = std::ranges::find_if(entries, [&](const Entry& one) {
      return std::ranges::any_of(std::array{"config", "common", "recipe"}, [&](std::string_view word) {
        return one.key.ends_with(fmt::format("_{}_{}()", kind, word));
      });
    });
    return found == entries.end() ? nullptr : &*found;
  };
  const Entry *const pretraining = begins_as("pretrain"), *const tuning = begins_as("finetune"),
                     *const base = pretraining ? pretraining
                                   : tuning    ? tuning
                                               : begins_as("sft");
  // Of NeMo 2's recipes, these have a section of DDP that overlaps.
  const bool overlaps =
      pretraining != nullptr &&
      (!pretraining->key.ends_with("_recipe()") ||
       std::ranges::any_of(std::array{"llama", "mixtral", "deepseek", "mistral", "nemotron3_", "nemotron4_",
                                      "nemotron5_hybrid", "gemma2"},
                           [&](std::string_view family) { return pretraining->key.starts_with(family); }));
  for (const char* key : {"ddp.use_distributed_optimizer", "ddp.overlap_grad_reduce", "ddp.overlap_param_gather"})
    if (base != nullptr && (overlaps || std::string_view(key).ends_with("optimizer")) &&
        in.draft.configuration().find(key) == nullptr)
      arguments.put(argument_of(key), base->key);
  if (base != nullptr) count_ends_of_base(in, *base, arguments);
  if (base != nullptr)
    in.draft.note(Note::Kind::assumed, base->key,
                  fmt::format("assumed: what {} leaves open of precision, distributed optimizer and overlaps is that "
                              "of the base of its kind",
                              base->key));
  // NeMo 2's callback overlaps gradients and parameters of data-parallel ranks, unless its arguments turn that off
  // (nemo/lightning/pytorch/callbacks/megatron_comm_overlap.py).
  for (const Entry& entry : in.draft.configuration().entries)
    if (entry.key == "trainer.callbacks[]._target_" && entry.value.ends_with("MegatronCommOverlapCallback"))
      for (const std::string field : {"overlap_grad_reduce", "overlap_param_gather"})
        if (in.draft.flag("trainer.callbacks[]." + field).value_or(true))
          arguments.put(argument_of("ddp." + field), entry.key);
  if (in.draft.text("model.optim.name") == "distributed_fused_adam")
    arguments.put("--use-distributed-optimizer", "model.optim.name");
  const std::string_view gradients = give_precision(in.draft, base != nullptr, arguments);
  set_by_rules(in, arguments, gradients);
  read_nemo_rest(in.draft, arguments);
}

// The model of a NeMo recipe: a class of NeMo, or the fields of Megatron-Core's TransformerConfig.
namespace {

// A class of NeMo 2, and its model; those of Megatron-Bridge are called Llama3ModelProvider8B.
struct ConfigClass {
  std::string_view name;
  const ShippedModel* model;
};

// Returns "llama38b" of Llama3Config8B and Llama3ModelProvider8B.
std::string plain_name(std::string_view name) {
  std::string plain = lower_case(name);
  std::erase(plain, '_');
  for (const std::string_view word : {"modelprovider", "provider", "config"})
    if (const std::size_t at = plain.find(word); at != std::string::npos) plain.erase(at, word.size());
  return plain;
}

// Returns the class, or that of a recipe such as llama3_8b_pretrain_config(), by the longest name with which it begins.
std::optional<ConfigClass> class_of(std::string_view target) {
  std::optional<ConfigClass> best;
  std::size_t length = 0;
  const std::string name = plain_name(target.substr(target.rfind('.') + 1));
  for (const ShippedModel& model : shipped_models) {
    for (const std::string_view one : split_at(model.classes, ' ')) {
      const std::string plain = plain_name(one);
      if (!name.starts_with(plain) || plain.size() <= length) continue;
      // A size behind the name is that of another model: nemotron_3_nano_4b.
      const std::size_t end = std::min(name.find_first_not_of("0123456789", plain.size()), name.size());
      if (end > plain.size() && name.substr(end, 1) == "b") continue;
      best = {one, &model};
      length = plain.size();
    }
  }
  return best;
}

// Keys of a config.json that a recipe changes of its class.
constexpr std::pair<std::string_view, std::string_view> config_keys_of_shape[] = {
    {"shape.layers", "num_hidden_layers"},  {"shape.hidden_size", "hidden_size"},
    {"shape.heads", "num_attention_heads"}, {"shape.query_groups", "num_key_value_heads"},
    {"shape.vocabulary", "vocab_size"},     {"shape.ffn_hidden_size", "intermediate_size"}};

void use_shipped(const RuleInput& in, NamedModel named) {
  const std::string name = named.shipped;
  named.layers = in.draft.integer("model.num_layers").value_or(named.layers);
  in.use_model(std::move(named));
  for (const Entry& entry : in.draft.configuration().entries) {
    const KeyRow* row = nemo_row(entry.key);
    if (row == nullptr || !row->key.starts_with("shape.") || row->meaning == Meaning::rule || !in.draft.text(entry.key))
      continue;
    const auto* key =
        std::ranges::find(config_keys_of_shape, row->key, &std::pair<std::string_view, std::string_view>::first);
    const auto number = key == std::end(config_keys_of_shape) ? std::nullopt : in.draft.integer(entry.key);
    if (number)
      in.draft.set(fmt::format("model.{}", key->second), *number, entry.key);
    else
      in.draft.not_modeled(entry.key, fmt::format("the model is that of {}", name));
  }
}

template <class Field>
void set_shape(Draft& draft, std::string_view key, Field& field) {
  if constexpr (requires { field.has_value(); }) {
    if (draft.text(key)) set_shape(draft, key, field.emplace());
  } else if constexpr (std::is_same_v<Field, bool>) {
    field = draft.flag(key).value_or(field);
  } else if constexpr (std::is_same_v<Field, std::int64_t>) {
    field = draft.integer(key).value_or(field);
  } else if constexpr (std::is_same_v<Field, double>) {
    field = draft.number(key).value_or(field);
  } else {
    const auto items = draft.list(key);
    field = draft.text(key).value_or(items.empty() ? field : fmt::format("[{}]", fmt::join(items, ",")));
  }
}

// Sets the vocabulary as Megatron pads it.
void pad_vocabulary(Draft& draft, megatron::ModelShape& shape) {
  if (!shape.vocabulary) shape.vocabulary = draft.value("model.vocab_size");
  if (!shape.vocabulary && draft.text("model.tokenizer.type") == "GPT2BPETokenizer") {
    shape.vocabulary = 50257;
    draft.note(Note::Kind::assumed, "model.tokenizer.type", "assumed: a vocabulary of 50257: GPT2BPETokenizer");
  }
  const std::int64_t multiple =
      bounded_product({draft.integer("model.make_vocab_size_divisible_by").value_or(128), draft.degree("tensor")});
  if (shape.vocabulary && *shape.vocabulary > 0 && multiple > 0)
    shape.vocabulary = bounded_product({(*shape.vocabulary - 1) / multiple + 1, multiple});
}

// Sets the layers of a hybrid model's pattern, which has the older name in recipes of 2025.
void take_pattern(Draft& draft, megatron::ModelShape& shape) {
  for (const char* key : {"model.hybrid_layer_pattern", "model.hybrid_override_pattern"}) {
    const auto text = draft.text(key);
    if (!text) continue;
    const auto pattern = megatron::parse_hybrid_pattern(*text);
    if (!pattern) return draft.fail(key, fmt::format("'{}' is no pattern of layers", *text), "M, G, *, +, D, - and E");
    if (const auto taken = megatron::take_hybrid_layers(*pattern, shape); !taken)
      return draft.fail(key, taken.error().message, "--model names a model");
    if (pattern->predictions > 0 && !shape.prediction_layers)
      draft.not_modeled(key, fmt::format("prediction modules '{}' are left out", pattern->prediction));
    return;
  }
}

}  // namespace

void read_nemo_model(const RuleInput& in) {
  Draft& draft = in.draft;
  if (draft.given("model.config")) return;
  std::optional<ConfigClass> named;
  for (const char* key : {"config_class", "model._target_"})
    if (const auto target = draft.text(key); target && !named) named = class_of(*target);
  for (const Entry& entry : draft.configuration().entries)
    if (!named && entry.key.ends_with("()")) named = class_of(entry.key);
  const bool described = draft.text("model.num_layers") && draft.text("model.hidden_size");  // in a dump, whole
  if (named && !described) return use_shipped(in, {std::string(named->model->name), "", named->model->layers});
  if (const std::string_view key = "hf_model"; draft.text(key) && !described) {
    if (auto model = named_model(in, key)) return use_shipped(in, std::move(*model));
    return draft.fail(key, fmt::format("no shipped model has the name '{}'", *draft.text(key)),
                      "--model names one, or a config.json");
  }
  if (!draft.text("model.num_layers") && !draft.text("model.hidden_size")) return;  // named with what else is missing
  megatron::ModelShape shape;
  for (const Entry& entry : draft.configuration().entries)
    if (const KeyRow* row = nemo_row(entry.key); row != nullptr && row->meaning != Meaning::rule)
      megatron::visit_shape(shape, [&](std::string_view name, auto& field) {
        if (name == row->key) set_shape(draft, entry.key, field);
      });
  // Learned positions are as many as a sequence has tokens (max_sequence_length of NeMo's GPTConfig).
  if (shape.max_positions == 0) shape.max_positions = draft.value("batch.sequence_length").value_or(0);
  // Bridge's HybridModelProvider has other defaults than Megatron (models/hybrid/hybrid_provider.py).
  const bool hybrid = draft.text("model.hybrid_layer_pattern") || draft.text("model.hybrid_override_pattern");
  if (hybrid && !draft.text("model.position_embedding_type")) shape.position = "none";
  if (const Entry* activation = draft.configuration().find("model.activation_func"))
    shape.squared_relu = activation->value.ends_with("squared_relu");
  shape.grouped_query = draft.text("model.num_query_groups").has_value();
  std::string norm = draft.text("model.normalization").value_or(hybrid ? "RMSNorm" : "LayerNorm");
  shape.normalization = norm.starts_with("rms") || norm.starts_with("RMS") ? "RMSNorm" : "LayerNorm";
  if (const auto activation = draft.text("model.activation")) shape.gated = activation->ends_with("swiglu");
  shape.untied = !draft.flag("model.share_embeddings_and_output_weights").value_or(!hybrid);
  shape.no_linear_bias = !draft.flag("model.add_bias_linear").value_or(draft.flag("model.bias").value_or(!hybrid));
  take_pattern(draft, shape);
  pad_vocabulary(draft, shape);
  for (const auto& [key, number] : {std::pair{"model.num_layers", shape.layers},
                                    {"model.hidden_size", shape.hidden_size},
                                    {"model.num_attention_heads", shape.heads},
                                    {"model.vocab_size", shape.vocabulary.value_or(0)}})
    if (number < 1 || number > 1'000'000'000)
      return draft.fail(key, "is missing or out of range",
                        "--model names a model, --set model.vocab_size=N the vocabulary");
  const auto config = megatron::config_of(shape);
  if (!config) return draft.fail(config.error());
  for (const std::string& note : config->notes) draft.note(Note::Kind::assumed, "", note);
  in.use_model({"", config->json, shape.layers});
}

namespace {

using enum Meaning;

constexpr KeyRow nemo_rows[] = {
#include "model/configurations/detail/keys/nemo.def"
};

// Returns the module that a file of Python imports a function from; those of which it imports all where it names none.
std::string module_of(std::string_view text, std::string_view function) {
  std::string all, module;
  bool open = false;  // names in parentheses go on in the next line
  for (std::string_view names : lines_of(text)) {
    names = trimmed(names);
    if (!open) {
      const std::size_t import = names.find(" import ");
      if (!names.starts_with("from ") || import == std::string_view::npos) continue;
      module = trimmed(names.substr(5, import - 5));
      names = trimmed(names.substr(import + 8));
    }
    open = (open || names.starts_with('(')) && names.find(')') == std::string_view::npos;
    if (names.find(function) != std::string_view::npos) return module;
    if (names == "*") all += (all.empty() ? "" : " or ") + module;
  }
  return all.empty() ? "another file" : all;
}

// A recipe of another file has degrees that this one may leave to it.
void require_degrees_of_base(Draft& draft) {
  for (const Entry& entry : draft.configuration().entries) {
    const bool of_bridge = entry.key.ends_with("_config()") && entry.key.find('.') == std::string::npos;
    if (!of_bridge && !entry.key.ends_with("_recipe()")) continue;
    std::string open;
    for (const std::string_view part : {"moe", "_a3b", "_a22b", "deepseek", "kimi", "gpt_oss", "mixtral", "glm",
                                        "moonlight", "minimax", "nemotron_3"})
      if (open.empty() && entry.key.find(part) != std::string::npos && !draft.given("parallelism.expert"))
        open = "parallelism.expert";
    for (const std::string degree : {"parallelism.context", "parallelism.pipeline", "parallelism.tensor"})
      if (!draft.given(degree)) open = degree;
    if (!open.empty())
      draft.fail(entry.key,
                 fmt::format("sets {}, which this file leaves to it, and is defined in {}, which is not read", open,
                             entry.value),
                 fmt::format("--set {}=N states what it sets", open));
  }
}

// Names the model of Bridge's AutoBridge.from_hf_pretrained("NAME").to_megatron_provider(), which has no other words.
void name_hf_model(Entry& entry) {
  constexpr std::string_view call = "AutoBridge.from_hf_pretrained(";
  const std::size_t begin = entry.value.find(call);
  if (begin == std::string::npos) return;
  const std::size_t quote =
      entry.value.find_first_not_of(" \t\r\n", begin + call.size());  // it may be in the next line
  if (quote >= entry.value.size() || (entry.value[quote] != '"' && entry.value[quote] != '\'')) return;
  const std::size_t end = entry.value.find(entry.value[quote], quote + 1);
  if (end == std::string::npos) return;
  entry.key = "hf_model";
  entry.value = entry.value.substr(quote + 1, end - quote - 1);
  entry.unread = false;
}

// Does what a recipe's call of apply_flex_dispatcher_backend() does on the GPUs that it is for (Bridge
// training/flex_dispatcher_backend.py @183c5c02).
void apply_flex_dispatcher(Configuration& read) {
  const auto call = std::ranges::find_if(
      read.entries, [](const Entry& one) { return one.value.starts_with("apply_flex_dispatcher_backend("); });
  if (call == read.entries.end()) return;
  const std::string key = "model.moe_flex_dispatcher_backend";
  const Entry* stated = read.find(key);
  std::string backend = stated == nullptr ? "" : stated->value;
  for (const char* name : {"deepep", "hybridep"})
    if (call->value.find(name) != std::string::npos) backend = name;
  if (backend != "deepep" && backend != "hybridep") return;
  const int line = call->line;
  read.entries.erase(call);
  const std::pair<std::string, std::string> applied[] = {
      {key, backend}, {"model.moe_token_dispatcher_type", "flex"}, {"model.moe_shared_expert_overlap", "false"}};
  for (const auto& [name, value] : applied) {
    std::erase_if(read.entries, [&name](const Entry& one) { return one.key == name; });
    read.entries.push_back({name, name, value, {}, line});
  }
}

// Recipes of Bridge state what each stage holds as a list of words, which Megatron's argument has as "Ett|tt|tL".
void write_layout(Configuration& read) {
  constexpr std::pair<std::string_view, char> letters[] = {
      {"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};
  const std::string key = "model.pipeline_model_parallel_layout";
  std::string layout;
  std::optional<int> line;
  for (const Entry& stage : read.entries) {
    if (stage.key != key + "[]") continue;
    if (line) layout += '|';
    line = std::max(line.value_or(0), stage.line);
    for (const std::string& word : stage.items) {
      const auto* found = std::ranges::find(letters, word, &std::pair<std::string_view, char>::first);
      if (stage.unread || found == std::end(letters)) return;
      layout += found->second;
    }
  }
  if (!line) return;
  std::erase_if(read.entries, [&key](const Entry& one) { return one.key.starts_with(key); });
  read.entries.push_back({key, key, std::move(layout), {}, *line});
}

Result<Configuration> read_nemo(const Source& source) {
  auto read = TRY(is_python(source.text) ? read_bridge(source) : read_yaml(source));
  resolve_references(read.entries);
  apply_flex_dispatcher(read);
  write_layout(read);
  for (Entry& entry : read.entries) {
    if (entry.value == "???") entry.value.clear();
    if (entry.key == "model" && entry.unread) name_hf_model(entry);
    // A type of PyTorch is a word in YAML, and a name that Python is not run for.
    if (entry.value.starts_with("torch.") && entry.value.find_first_of("([ ") == std::string::npos)
      entry.unread = false;
    // llm.llama3_8b.pretrain_recipe() becomes llama3_8b_pretrain_recipe().
    if (const std::size_t dot = entry.key.rfind('.'); entry.key.ends_with("_recipe()") && dot != std::string::npos) {
      entry.value = entry.key.substr(0, dot);
      entry.key[dot] = '_';
      entry.key.erase(0, entry.key.rfind('.') + 1);
    }
    if (entry.key.ends_with("_config()"))
      entry.value = module_of(source.text, std::string_view(entry.key).substr(0, entry.key.size() - 2));
    if (entry.key == "mixed_precision" && !entry.items.empty()) entry.value = entry.items.front();  // of a function
  }
  return read;
}

// Takes the cluster of the GPU that a recipe's name goes on with: h100_bf16_config.
void assume_cluster(Draft& draft, std::string_view name) {
  constexpr std::string_view known[] = {"h100", "h200", "b200", "b300", "gb200", "gb300"},
                             unknown[] = {"vr200", "r100"};
  const std::string_view gpu = name.substr(0, name.find('_'));
  if (draft.given("cluster.topology")) return;
  if (std::ranges::find(unknown, gpu) != std::end(unknown))
    return draft.fail("def", fmt::format("is for the GPU {}, of which no cluster is known here", gpu),
                      "--topology names one of another GPU, or a file");
  if (std::ranges::find(known, gpu) == std::end(known)) return;
  const char* const machine = gpu.starts_with("gb") ? "nvl72" : gpu == "h100" ? "dgx" : "hgx";
  draft.assume("cluster.topology", fmt::format("{}-{}", gpu, machine), "the recipe's name has its GPU");
}

void read_nemo_degrees(const RuleInput& in) {
  Draft& draft = in.draft;
  const auto nodes = draft.integer("trainer.num_nodes").value_or(1);
  const std::int64_t devices = draft.integer("trainer.devices").value_or(0);  // -1: all that there are
  if (devices > 0) draft.set("cluster.gpus", nodes * devices, "trainer.devices x trainer.num_nodes");
  const std::string recipe = draft.text("def").value_or("");
  if (const std::size_t end = recipe.find("gpu_"); end != std::string::npos && end > 0) {
    const std::size_t begin = recipe.find_last_not_of("0123456789", end - 1) + 1;
    if (const auto gpus = parse_number<std::int64_t>(std::string_view(recipe).substr(begin, end - begin)))
      draft.set("cluster.gpus", *gpus, "def");
    assume_cluster(draft, std::string_view(recipe).substr(end + std::string_view("gpu_").size()));
  }
  const auto sequence = draft.flag("model.sequence_parallel");
  const bool of_recipe = std::ranges::any_of(draft.configuration().entries,
                                             [](const Entry& one) { return one.key.ends_with("_recipe()"); });
  if (draft.degree("tensor") > 1 && sequence.value_or(false))
    draft.set("parallelism.sequence", true, "model.sequence_parallel");
  else if (draft.degree("tensor") > 1 && !sequence && of_recipe)
    draft.assume("parallelism.sequence", true, "recipes of NeMo with a tensor degree have it", "false");
}

// Reads LoRA, whose class has a rank of 32 and all linear layers (nemo/collections/llm/peft/lora.py, and
// megatron/bridge/peft/lora.py). Returns whether the training is one that is predicted.
bool read_nemo_adapter(const RuleInput& in) {
  Draft& draft = in.draft;
  const Entry* scheme = draft.configuration().find("peft_scheme");
  const bool none = scheme != nullptr && (scheme->is_null() || lower_case(scheme->value) == "none");
  const bool named = draft.configuration().find("peft._target_") != nullptr;
  bool adapts = false;
  for (const Entry& entry : draft.configuration().entries) {
    const bool names = entry.key == "peft" || entry.key == "peft._target_";
    if (entry.key.starts_with("peft.") && !named && refuse_adapter(draft, entry.key, "an adapter")) return false;
    if (!names || (entry.value.empty() && entry.items.empty())) continue;
    const std::string name = lower_case(entry.value.substr(entry.value.rfind('.') + 1));
    if (name == "none") continue;
    if (name != "lora" && refuse_adapter(draft, entry.key, entry.value)) return false;
    adapts = true;
  }
  for (const Entry& entry : draft.configuration().entries) {
    const bool unread = entry.key.ends_with("_peft_config()") || entry.key.ends_with("_peft_common()") ||
                        (!none && (entry.key.ends_with("finetune_recipe()") || entry.key.ends_with("peft_scheme")));
    if (!unread) continue;
    if (refuse_adapter(draft, entry.key, scheme != nullptr && !none ? scheme->value : "an adapter")) return false;
    adapts = true;
  }
  if (!adapts) return true;
  draft.set("training.rank", draft.integer("peft.dim").value_or(32), "peft.dim");
  draft.set("training.method", "lora", "peft");
  if (draft.list("peft.target_modules").empty())
    draft.set("training.targets", "all-linear", "peft.target_modules");
  else if (!draft.given("training.targets"))
    read_adapter_layers(in, "peft.target_modules");
  return true;
}

void nemo_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  constexpr std::string_view of_automodel = "step_scheduler.local_batch_size";
  if (draft.configuration().find(of_automodel) != nullptr)
    return draft.fail(of_automodel, "is a key of NeMo AutoModel", "import automodel reads it");
  if (const auto length = draft.integer("model.seq_length"); length && !draft.given("batch.sequence_length"))
    draft.set("batch.sequence_length", *length, "model.seq_length");
  read_nemo_model(in);
  if (!read_nemo_adapter(in)) return;
  read_nemo_degrees(in);
  require_degrees_of_base(draft);
  read_nemo_training(in);
}

}  // namespace

const KeyRow* nemo_row(std::string_view key) {
  static const ConfigurationFormat format = nemo();
  return format.row(key);
}

ConfigurationFormat nemo() {
  return {"nemo",
          "NeMo",
          &read_nemo,
          {{"num_nodes", "trainer.num_nodes"},
           {"num_gpus_per_node", "trainer.devices"},
           {"model.config._target_", "config_class"},
           {"model.config.", "model."},
           {"model_config.", "model."},
           {"trainer.strategy.ddp.", "ddp."},
           {"trainer.strategy.", "model."},
           {"trainer.plugins.", "precision."},
           {"ddp_config.", "ddp."},
           {"train_config.", "train."},
           {"data.", "train."},
           {"dataset.sequence_length", "train.seq_length"},
           {"dataset.", "train."},
           {"dataset_config.", "train."},
           {"optim.config.", "optimizer."},
           {"optimizer_config.", "optimizer."},
           {"comm_overlap_config.", "comm_overlap."},
           {"mixed_precision.", "precision."}},
          table_of(nemo_rows),
          &nemo_rules,
          &megatron_row};
}

}  // namespace plumbline::model::configurations
