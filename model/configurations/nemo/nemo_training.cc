// How a recipe trains: what it sets under a name of Megatron-Core is an argument of Megatron, and read by its rules.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/configurations/detail/shared.h"
#include "model/megatron/rules.h"
#include "model/plan/alternative.h"

namespace plumbline::model::configurations {
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

// Bridge gives all stages of DeepSeek-V3 as many layers, rounded up, and the last one what is left
// (recipes/deepseek/deepseek_v3.py @05d003fb).
void lay_out_deepseek(const RuleInput& in) {
  constexpr std::string_view function = "'set_deepseek_v3_pipeline_model_parallel_layout(cfg.model)'";
  const auto layers = in.layers();
  const std::int64_t chunks = in.draft.integer("model.virtual_pipeline_model_parallel_size").value_or(1);
  const std::int64_t stages = bounded_product({in.draft.degree("pipeline"), std::max<std::int64_t>(1, chunks)});
  const bool known = stages == 4 || stages == 8 || stages == 16;
  if (!layers || !known || in.draft.configuration().find(function) == nullptr) return;
  const std::int64_t most = (*layers + stages - 1) / stages, last = *layers - most * (stages - 1);
  if (last < 1) return;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), most);
  counts.back() = last;
  in.draft.set("schedule.layers_per_stage", counts, function);
}

// Only Megatron-Core of 2026 replays whole iterations.
void read_nemo_rest(Draft& draft, const NemoArguments& arguments) {
  const std::vector<std::string> scopes = arguments.given.values("--cuda-graph-scope");
  for (const char* key : {"model.tp_comm_overlap", "model.ub_tp_comm_overlap", "comm_overlap.tp_comm_overlap",
                          "trainer.callbacks[].tp_comm_overlap"})
    if (draft.flag(key).value_or(false) && draft.degree("tensor") > 1) draft.set("overlap.tensor", true, key);
  for (const char* key : {"trainer.gradient_clip_val", "optimizer.clip_grad"})
    if (const auto norm = draft.number(key)) draft.set("optimizer.gradient_clipping", *norm > 0, key);
  if (draft.text("optimizer.optimizer").value_or("adam") != "adam")
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
    const std::string recipe = fmt::format("_{}_config()", kind), common = fmt::format("_{}_common()", kind);
    const auto found = std::ranges::find_if(
        entries, [&](const Entry& one) { return one.key.ends_with(recipe) || one.key.ends_with(common); });
    return found == entries.end() ? nullptr : &*found;
  };
  const Entry *const pretraining = begins_as("pretrain"), *const base = pretraining ? pretraining : begins_as("sft");
  for (const char* key : {"ddp.use_distributed_optimizer", "ddp.overlap_grad_reduce", "ddp.overlap_param_gather"})
    if (base != nullptr && (pretraining != nullptr || std::string_view(key).ends_with("optimizer")) &&
        in.draft.configuration().find(key) == nullptr)
      arguments.put(argument_of(key), base->key);
  lay_out_deepseek(in);
  if (base != nullptr) count_ends_of_base(in, *base, arguments);
  if (base != nullptr)
    in.draft.note(Note::Kind::assumed, base->key,
                  fmt::format("assumed: what {} leaves open of precision, distributed optimizer and overlaps is that "
                              "of Bridge's common base",
                              base->key));
  if (in.draft.text("model.optim.name") == "distributed_fused_adam")
    arguments.put("--use-distributed-optimizer", "model.optim.name");
  const std::string_view gradients = give_precision(in.draft, base != nullptr, arguments);
  set_by_rules(in, arguments, gradients);
  read_nemo_rest(in.draft, arguments);
}

}  // namespace plumbline::model::configurations
