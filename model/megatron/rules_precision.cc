// These rules set number formats and recomputation.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "model/megatron/rules.h"

namespace plumbline::model::megatron {
namespace {

Precision fp8_format(const std::string& recipe) {
  if (recipe == "mxfp8") return Precision::mxfp8;
  return recipe == "delayed" || recipe == "tensorwise" ? Precision::fp8_tensor : Precision::fp8;
}

Precision compute_format(const Given& given) {
  if (given.has("--fp4-format")) return Precision::nvfp4;
  if (given.has("--fp8-format")) return fp8_format(given.value("--fp8-recipe").value_or("delayed"));
  if (given.has("--bf16")) return Precision::bf16;
  return given.has("--fp16") ? Precision::fp16 : Precision::fp32;
}

// Reads the format of an argument; an unknown format is noted and the field kept.
void read_format(const RuleReader& in, const std::string& argument, Precision& field) {
  const auto word = in.given.value(argument);
  if (!word) return;
  const auto format = parse_precision(*word);
  if (format) {
    field = *format;
  } else {
    in.note(argument, fmt::format("'{}' is no known number format; {} is kept", *word, to_string(field)));
  }
}

void read_precision(const RuleReader& in) {
  auto& precision = in.plan.precision;
  if (in.given.has("--bf16") && in.given.has("--fp16")) in.refuse("--fp16", "not together with --bf16");
  precision.gemm = compute_format(in.given);
  precision.dispatch = precision.combine = is_quantized(precision.gemm) ? Precision::bf16 : precision.gemm;
  // Under --fp16 gradients are in fp16 unless the flag is given; under --bf16 Megatron accumulates in fp32 by default.
  const bool half = in.given.has("--fp16") && !in.given.has("--accumulate-allreduce-grads-in-fp32");
  precision.gradients = half ? Precision::fp16 : Precision::fp32;
  read_format(in, "--main-grads-dtype", precision.gradients);
  if (in.given.has("--grad-reduce-in-bf16")) precision.gradients = Precision::bf16;
  read_format(in, "--main-params-dtype", precision.master_weights);
  Precision first = precision.optimizer_moments, second = precision.optimizer_moments;
  read_format(in, "--exp-avg-dtype", first);
  read_format(in, "--exp-avg-sq-dtype", second);
  precision.optimizer_moments = in.given.has("--exp-avg-dtype") ? first : second;
  if (first != second)
    in.note("--exp-avg-sq-dtype", fmt::format("both moments are priced as {}", to_string(precision.optimizer_moments)));
  const bool smaller = precision.optimizer_moments != Precision::fp32 || precision.master_weights != Precision::fp32;
  if (smaller && !in.given.has("--use-precision-aware-optimizer"))
    in.refuse("--use-precision-aware-optimizer", "states of the optimizer that are not FP32 need it");
  if (is_quantized(precision.gemm) && !in.given.has("--bf16") && !in.given.has("--fp16"))
    in.notes.push_back({0, "--bf16 is not given: what is not quantized is priced in 16 bits"});
  const std::string recipe = in.given.value("--fp8-recipe").value_or("delayed");
  if (precision.gemm == Precision::fp8_tensor) {
    precision.scaling = recipe == "delayed" ? "delayed" : "current";
    precision.weight_cast = "step";
  } else if (precision.gemm == Precision::fp8 && recipe != "blockwise") {
    in.note("--fp8-recipe", fmt::format("{} is priced like blockwise", recipe));
  }
  if (in.given.has("--fp8-param-gather") && in.given.has("--fp8-format")) precision.parameters = "fp8";
  if (in.given.has("--fp8-output-proj")) {
    if (precision.gemm != Precision::mxfp8) in.refuse("--fp8-output-proj", "it needs --fp8-recipe mxfp8");
    if (precision.gemm == Precision::mxfp8) precision.head = "mxfp8";
  }
  if (in.given.has("--fp8-dot-product-attention") && is_quantized(precision.gemm)) {
    precision.attention = precision.gemm == Precision::mxfp8 ? "mxfp8" : "fp8";
    if (precision.gemm == Precision::fp8)
      in.note("--fp8-dot-product-attention", "attention has no scales of blocks: one of each tensor is priced");
  }
}

void write_precision(const RuleWriter& out) {
  const auto& precision = out.plan.precision;
  Given& given = out.out;
  if (precision.gemm == Precision::bf16 || is_quantized(precision.gemm)) given.put_flag("--bf16");
  if (precision.gemm == Precision::fp16) given.put_flag("--fp16");
  if (precision.gemm == Precision::fp8 || precision.gemm == Precision::mxfp8) {
    given.put("--fp8-format", "e4m3");
    given.put("--fp8-recipe", precision.gemm == Precision::fp8 ? "blockwise" : "mxfp8");
  }
  if (precision.gemm == Precision::fp8_tensor) {
    given.put("--fp8-format", "hybrid");
    given.put("--fp8-recipe", precision.scaling == "delayed" ? "delayed" : "tensorwise");
  }
  if (precision.parameters == "fp8") given.put_flag("--fp8-param-gather");
  if (precision.head != "bf16" && precision.gemm == Precision::mxfp8) given.put_flag("--fp8-output-proj");
  if (precision.attention != "bf16" && is_quantized(precision.gemm)) given.put_flag("--fp8-dot-product-attention");
  if (precision.gemm == Precision::nvfp4) given.put("--fp4-format", "e2m1");
  if (precision.gradients == Precision::bf16) given.put_flag("--grad-reduce-in-bf16");
  if (precision.gradients == Precision::fp32 && precision.gemm == Precision::fp16) {
    given.put_flag("--accumulate-allreduce-grads-in-fp32");
  }
  const bool half_master = precision.master_weights == Precision::fp16;
  const bool small_moments = precision.optimizer_moments != Precision::fp32;
  if (!half_master && !small_moments) return;
  given.put_flag("--use-precision-aware-optimizer");
  if (half_master) given.put("--main-params-dtype", "fp16");
  if (!small_moments) return;
  given.put("--exp-avg-dtype", std::string(to_string(precision.optimizer_moments)));
  given.put("--exp-avg-sq-dtype", std::string(to_string(precision.optimizer_moments)));
}

// Pairs of Megatron's backends of attention and plumbline's kernels; the first pair of a kernel is written.
constexpr std::pair<std::string_view, std::string_view> backends[] = {
    {"auto", "fused"}, {"fused", "cudnn"}, {"flash", "flash2"}, {"unfused", "unfused"}, {"local", "unfused"}};

void read_attention(const RuleReader& in) {
  if (in.given.value("--transformer-impl") == "local") {
    in.plan.attention.kernel = "unfused";
    in.note("--transformer-impl", "local: kernels other than attention are priced as those of Transformer Engine");
  }
  if (in.given.has("--use-flash-attn")) in.plan.attention.kernel = "flash2";
  const auto named = in.given.value("--attention-backend");
  if (!named) return;
  const auto* found = std::ranges::find(backends, *named, &std::pair<std::string_view, std::string_view>::first);
  if (found == std::end(backends))
    in.note("--attention-backend", fmt::format("'{}' is no backend; {} is kept", *named, in.plan.attention.kernel));
  else
    in.plan.attention.kernel = found->second;
}

void write_attention(const RuleWriter& out) {
  const std::string& kernel = out.plan.attention.kernel;
  const auto* found = std::ranges::find(backends, kernel, &std::pair<std::string_view, std::string_view>::second);
  if (kernel != "fused" && found != std::end(backends)) out.out.put("--attention-backend", std::string(found->first));
}

// Without the argument Megatron-Core's loss works in place on FP32 logits
// (megatron/core/tensor_parallel/cross_entropy.py
// @00611e6e); Transformer Engine's stores the gradient over the logits, and linear is within the head's GEMM
// (megatron/core/fusions/fused_linear_cross_entropy.py @020c805b).
constexpr std::pair<std::string_view, std::string_view> fused_losses[] = {
    {"native", "fused"}, {"te", "fused_in_place"}, {"linear", "linear"}};

void read_loss(const RuleReader& in) {
  if (!in.given.has("--cross-entropy-loss-fusion")) return;
  const std::string named = in.given.value("--cross-entropy-fusion-impl").value_or("native");
  const auto* found = std::ranges::find(fused_losses, named, &std::pair<std::string_view, std::string_view>::first);
  in.plan.loss.kernel = found == std::end(fused_losses) ? "fused" : found->second;
  if (found == std::end(fused_losses))
    in.note("--cross-entropy-fusion-impl", fmt::format("'{}' is none of native, te, linear; native is priced", named));
  else if (named == "native")
    in.note("--cross-entropy-loss-fusion", "the FP32 logits that its native kernels keep are not in memory");
  else if (named == "linear")
    in.note("--cross-entropy-fusion-impl", "its kernels are for GPUs of compute capability 10, which is not checked");
}

void write_loss(const RuleWriter& out) {
  const std::string& kernel = out.plan.loss.kernel;
  const auto* found = std::ranges::find(fused_losses, kernel, &std::pair<std::string_view, std::string_view>::second);
  if (found == std::end(fused_losses)) return;
  out.out.put_flag("--cross-entropy-loss-fusion");
  if (kernel != "fused") out.out.put("--cross-entropy-fusion-impl", std::string(found->first));
}

// Pairs of Megatron's modules and plumbline's operators.
constexpr std::pair<std::string_view, std::string_view> modules[] = {
    {"core_attn", "core_attention"}, {"layernorm", "rmsnorm"}, {"mla_up_proj", "mla_up_projection"},
    {"moe_act", "swiglu"},           {"mlp", "mlp"},           {"moe", "moe"}};

void read_modules(const RuleReader& in) {
  std::vector<std::string> named = in.given.values("--recompute-modules");
  if (named.empty()) named = {"core_attn"};
  for (const std::string& name : named) {
    const auto* found = std::ranges::find(modules, name, &std::pair<std::string_view, std::string_view>::first);
    if (found == std::end(modules)) {
      in.note("--recompute-modules", fmt::format("'{}' is not recomputed: no operator of that name", name));
    } else {
      in.plan.recompute.operators.emplace_back(found->second);
    }
  }
}

void read_recompute(const RuleReader& in) {
  auto& recompute = in.plan.recompute;
  const std::string granularity = in.given.value("--recompute-granularity").value_or("");
  const bool full =
      granularity == "full" ||
      (granularity.empty() && (in.given.has("--recompute-method") || in.given.has("--checkpoint-activations")));
  if (full) {
    recompute.policy = "full";
    // TransformerConfig.__post_init__ of megatron/core/transformer/transformer_config.py.
    if (!granularity.empty() && !in.given.has("--recompute-method"))
      return in.refuse("--recompute-granularity", "full needs --recompute-method uniform or block");
    if (!granularity.empty() && !in.given.has("--recompute-num-layers"))
      return in.refuse("--recompute-granularity",
                       "full needs --recompute-num-layers N, in versions of 2022 1 by default");
    if (granularity.empty() && in.given.has("--recompute-method"))
      in.note("--recompute-method", "without a granularity all of a layer is recomputed, as in versions of 2021");
    if (in.given.value("--recompute-method") == "block")
      recompute.layers = in.number("--recompute-num-layers").value_or(1);
    else if (in.given.value("--recompute-num-layers").value_or("1") != "1")
      in.note("--recompute-num-layers", "inputs of every layer are kept in the prediction");
  } else if (granularity == "selective" || in.given.has("--recompute-activations")) {
    recompute.policy = "selective";
    read_modules(in);
  } else if (in.given.has("--moe-layer-recompute")) {
    recompute.policy = "selective";
    recompute.operators = {"moe"};
  }
}

void write_recompute(const RuleWriter& out) {
  const auto& recompute = out.plan.recompute;
  if (recompute.policy == "none") return;
  out.out.put("--recompute-granularity", recompute.policy);
  if (recompute.policy == "full") {
    out.out.put("--recompute-method", recompute.layers ? "block" : "uniform");
    out.out.put("--recompute-num-layers", std::to_string(recompute.layers.value_or(1)));
    return;
  }
  GivenArgument named;
  for (const std::string& name : recompute.operators) {
    for (const auto& [module, operators] : modules) {
      if (operators == name) named.values.emplace_back(module);
    }
  }
  if (!named.values.empty()) out.out.put("--recompute-modules", named);
}

}  // namespace

Rule precision_rule() { return {read_precision, write_precision}; }
Rule attention_rule() { return {read_attention, write_attention}; }
Rule loss_rule() { return {read_loss, write_loss}; }
Rule recompute_rule() { return {read_recompute, write_recompute}; }

}  // namespace plumbline::model::megatron
