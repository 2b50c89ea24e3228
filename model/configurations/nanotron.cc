// nanotron's YAML: keys and defaults of huggingface/nanotron src/nanotron/config: config.py @00708b80,
// parallelism_config.py @19f88fbe and models_config.py @025f3141.
#include "model/base/integers.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow nanotron_rows[] = {
#include "model/configurations/detail/keys/nanotron.def"
};

// Sets the model of the fields of model_config, which are those of transformers: Qwen2's layers are Llama's here, with
// attention_bias where there is one.
void read_nanotron_model(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view layers = "model.model_config.num_hidden_layers";
  if (draft.given("model.config") || !draft.text(layers)) return;
  const bool dense = draft.flag("model.model_config.is_llama_config").value_or(false) ||
                     draft.flag("model.model_config.is_qwen2_config").value_or(false);
  if (!dense || draft.text("model.model_config.moe_config.num_experts"))
    return draft.fail(layers, "the fields of model_config are read of dense models of Llama and Qwen2 alone",
                      "--model names a model, or a config.json");
  use_section(in, "model.model_config.", "llama");
}

void read_nanotron_parallelism(const RuleInput& in) {
  Draft& draft = in.draft;
  // Expert ranks are some of these (src/nanotron/parallel/context.py @009b8f71).
  if (const auto data = draft.integer("parallelism.dp"))
    draft.set("cluster.gpus", bounded_product({*data, draft.model_parallel()}), "parallelism.dp x the other degrees");
  if (draft.degree("tensor") > 1)
    draft.set("parallelism.sequence", lower_case(draft.text("parallelism.tp_mode").value_or("")) == "reduce_scatter",
              "parallelism.tp_mode");
  if (draft.degree("pipeline") > 1)
    draft.set("schedule.kind", draft.text("parallelism.pp_engine").value_or("afab") == "1f1b" ? "1f1b" : "gpipe",
              "parallelism.pp_engine");
  const std::int64_t stage = draft.integer("optimizer.zero_stage").value_or(0);
  draft.set("parallelism.zero_stage", stage, "optimizer.zero_stage");
  if (stage > 0) draft.not_modeled("optimizer.zero_stage", "gradients are reduce-scattered, there all-reduced");
  draft.set("recompute.policy", draft.flag("parallelism.recompute_layer").value_or(false) ? "full" : "none",
            "parallelism.recompute_layer");
}

void read_nanotron_precision(Draft& draft) {
  const std::string format = number_format(draft.text("model.dtype").value_or("bfloat16"));
  set_precision(draft, plain_precision(format), "model.dtype");
  // Gradients that accumulate in FP32 belong to a copy of the parameters in FP32, which is what the optimizer updates
  // (FP32GradientAccumulator of src/nanotron/optim/gradient_accumulator.py @069c21cf). With ZeRO there is no DDP then:
  // gradients are reduced behind the last micro-batch (_init_model() of src/nanotron/trainer.py @004a89ca).
  const std::string_view wide = "optimizer.accumulate_grad_in_fp32";
  const bool copied = draft.flag(wide).value_or(false);
  const std::string states = copied ? "fp32" : format;
  for (const char* key : {"precision.gradients", "precision.master_weights", "precision.optimizer_moments"})
    draft.set(key, states, wide);
  constexpr double mebibyte = 1024.0 * 1024.0;
  draft.set("overlap.gradient_reduce", !copied || draft.value("parallelism.zero_stage").value_or(0) == 0, wide);
  draft.set("overlap.gradient_bucket_bytes", draft.number("model.ddp_bucket_cap_mb").value_or(25) * mebibyte,
            "model.ddp_bucket_cap_mb");
}

void nanotron_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  read_nanotron_model(in);
  read_nanotron_parallelism(in);
  read_batch(draft, {"", "tokens.micro_batch_size", "tokens.batch_accumulation_per_replica"});
  read_nanotron_precision(draft);
  read_steps(draft, "tokens.train_steps");
  draft.set("optimizer.gradient_clipping", draft.number("optimizer.clip_grad").value_or(0) > 0, "optimizer.clip_grad");
  if (lower_case(draft.text("optimizer.optimizer_factory.name").value_or("adamw")) != "adamw")
    draft.not_modeled("optimizer.optimizer_factory.name", "the optimizer is Adam");
  const std::string_view kernel_key = "model.model_config._attn_implementation";
  const std::string kernel = draft.text(kernel_key).value_or("flash_attention_2");
  if (kernel == "flash_attention_2" || kernel == "flex_attention")
    draft.set("attention.kernel", kernel == "flex_attention" ? "triton" : "flash2", kernel_key);
  draft.set("stack.name", "pytorch-fsdp-eager", "PyTorch without compilation");
}

}  // namespace

ConfigurationFormat nanotron() {
  return {"nanotron", "nanotron", &read_yaml, {}, table_of(nanotron_rows), &nanotron_rules};
}

}  // namespace plumbline::model::configurations
