#include "real/executor/step/detail/plan_support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/program/compile.h"

namespace plumbline::real {
namespace {

using model::Error;
using model::Plan;
using model::Role;

Error refuse(const Plan& plan, std::string key, std::string message, std::string hint) {
  return model::plan_error(plan, model::ErrorKind::infeasible, std::move(key), std::move(message), std::move(hint));
}

// What a plan may ask for and execution does not do; the message is `what` + " simulated, not executed".
struct OnlySimulated {
  bool asked;
  std::string key, what, hint;
};
std::optional<Error> refuse_first(const Plan& plan, const std::vector<OnlySimulated>& all) {
  for (const OnlySimulated& one : all)
    if (one.asked) return refuse(plan, one.key, one.what + " simulated, not executed", one.hint);
  return std::nullopt;
}

std::optional<Error> check_degrees(const Plan& plan, const model::Architecture& architecture) {
  const auto& degrees = plan.parallelism;
  const char* documents = "documents that do not attend to each other are";
  if (auto error = refuse_first(
          plan,
          {{degrees.zero_stage > 1, "parallelism.zero_stage", "sharded gradients and parameters are",
            "set it to 0 or 1"},
           {degrees.context > 1, "parallelism.context", "attention over divided sequences is", "set it to 1"},
           {degrees.expert_tensor > 1, "parallelism.expert_tensor", "experts divided by columns are", "set it to 1"},
           {is_collective(model::dispatcher_of(plan)), "stack.dispatcher", "experts reached by collectives of NCCL are",
            "set it to deepep"},
           {plan.routing.capacity_factor.has_value(), "routing.capacity_factor", "dropped tokens are", "remove it"},
           {plan.routing.redundant_experts.has_value(), "routing.redundant_experts", "copies of experts are",
            "remove it"},
           {plan.places.contains("batch.document_length"), "batch.document_length", documents, "remove it"},
           {plan.places.contains("batch.document_lengths"), "batch.document_lengths", documents, "remove it"}}))
    return error;
  if (degrees.synchronization_interval > 1)
    return refuse(plan, "parallelism.synchronisation_interval", "execution reduces gradients in every step",
                  "set it to 1");
  const std::int64_t together = plan.cluster.gpus / (degrees.tensor * degrees.pipeline) * plan.batch.micro_batch_size;
  if (plan.batch.global_batch_size % together != 0)
    return refuse(plan, "batch.global_batch_size",
                  "micro-batches that differ between ranks are simulated, not executed",
                  fmt::format("use a multiple of {}", together));
  if (plan.overlap.tensor && degrees.tensor > 1)
    return refuse(plan, "overlap.tensor", "collectives in pieces are simulated, not executed", "set it to false");
  if (architecture.vocabulary % degrees.tensor != 0)
    return refuse(plan, "parallelism.tensor",
                  fmt::format("{} ranks do not divide a vocabulary of {}", degrees.tensor, architecture.vocabulary),
                  "use a divisor of the vocabulary");
  return std::nullopt;
}

std::optional<Error> check_memory(const Plan& plan) {
  return refuse_first(
      plan,
      {{plan.training.method != "full", "training.method", "adapters next to frozen parameters are", "set it to full"},
       {plan.training.objective == "dpo", "training.objective", "preferences are", "leave it out"},
       {plan.offload.optimizer, "offload.optimizer", "offloading is", "remove it"},
       {plan.offload.activations > 0, "offload.activations", "offloading is", "remove it"},
       {plan.optimizer.kind != "adamw", "optimizer.kind", "Muon is", "set it to adamw"},
       {plan.optimizer.ema != "none", "optimizer.ema", "a moving average on the host is", "set it to none"}});
}

// Returns whether a device computes with activations and weights of that precision.
bool computes(const Device& device, model::Precision precision) {
  return device.executes(activation_type(precision)) && device.executes(weight_type(precision));
}
// Returns whether the device can hold optimizer states in that precision; quantized formats are excluded, because they
// have no scales.
bool accumulates(const Device& device, model::Precision precision) {
  return !is_quantized(precision) && computes(device, precision);
}

std::string formats_of(const Device& device, bool (*possible)(const Device&, model::Precision)) {
  std::vector<std::string> names;
  for (const model::Precision precision : {model::Precision::fp32, model::Precision::tf32, model::Precision::bf16,
                                           model::Precision::fp16, model::Precision::fp8, model::Precision::fp8_tensor})
    if (possible(device, precision)) names.emplace_back(to_string(precision));
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

std::optional<Error> check_formats(const Plan& plan, const model::Architecture& architecture, const Device& device) {
  const auto& p = plan.precision;
  struct Use {
    std::string key;
    model::Precision precision;
    bool (*possible)(const Device&, model::Precision);
  };
  const Use uses[] = {{"gemm", p.gemm, computes},
                      {"experts", p.experts.value_or(p.gemm), computes},
                      {"dispatch", p.dispatch, computes},
                      {"combine", p.combine, computes},
                      {"gradients", p.gradients, accumulates},
                      {"master_weights", p.master_weights, accumulates},
                      {"optimizer_moments", p.optimizer_moments, accumulates}};
  for (const Use& use : uses)
    if (!use.possible(device, use.precision))
      return refuse(plan, "precision." + use.key,
                    fmt::format("{} is simulated, not executed here", to_string(use.precision)),
                    fmt::format("set it to {}", formats_of(device, use.possible)));
  const bool scaled = p.gemm == model::Precision::fp8_tensor;
  const bool scaled_experts =
      architecture.experts.routed_experts > 0 && p.experts.value_or(p.gemm) == model::Precision::fp8_tensor;
  if (auto error = refuse_first(
          plan,
          {{scaled_experts, "precision.experts", "experts in fp8_tensor are", "set it to bf16"},
           {p.parameters != "bf16", "precision.parameters", "parameters in FP8 are", "set it to bf16"},
           {p.attention != "bf16", "precision.attention", "attention in FP8 is", "set it to bf16"},
           {p.head != "bf16", "precision.head", "an output projection in FP8 is", "set it to bf16"},
           {scaled && p.layouts == "one", "precision.layouts", "GEMMs in FP8 of operands along either direction are",
            "set it to both"},
           {scaled && p.scaling == "delayed", "precision.scaling", "scales of earlier steps are", "set it to current"},
           {scaled && p.scaling == "row", "precision.scaling", "scales of rows are", "set it to current"}}))
    return error;
  if (scaled && p.weight_cast == "step")
    return refuse(plan, "precision.weight_cast", "weights are cast where they are used when executed",
                  "set it to micro_batch");
  const std::string& kernel = plan.attention.kernel;
  const bool gathers = is_quantized(p.gemm) && plan.parallelism.tensor > 1 && plan.parallelism.sequence;
  return refuse_first(plan, {{gathers, "parallelism.sequence", "gathers of tokens in FP8 are", "set it to false"},
                             {kernel != "fused" && kernel != "unfused", "attention.kernel", kernel + " is",
                              "set it to fused or unfused"}});
}

// Returns the keys of the model's file (model/config/) whose dropout probabilities are not 0.
std::set<std::string> dropout_keys(const model::Architecture& architecture) {
  struct Names {
    std::string embedding, attention, residual;
  };
  static const std::map<std::string, Names> families = {
      {"gpt2", {"embd_pdrop", "attn_pdrop", "resid_pdrop"}},
      {"gpt_neox", {"hidden_dropout", "attention_dropout", "hidden_dropout"}},
      {"mpt", {"emb_pdrop", "attn_config.attn_pdrop", "resid_pdrop"}}};
  const auto family = families.find(architecture.model_type);
  const Names names = family == families.end() ? Names{"", "attention_dropout", ""} : family->second;
  std::set<std::string> keys;
  if (architecture.dropout.embedding > 0) keys.insert(names.embedding);
  if (architecture.dropout.attention > 0) keys.insert(names.attention);
  if (architecture.dropout.residual > 0) keys.insert(names.residual);
  return keys;
}

// Returns how many columns of each head rotary embedding rotates.
std::int64_t rotary_columns(const model::Architecture& architecture) {
  if (architecture.positions != model::PositionKind::rotary) return 0;
  if (architecture.attention == model::AttentionKind::multi_head_latent) return architecture.latent.qk_rope_head_dim;
  return architecture.rotary_dim > 0 ? architecture.rotary_dim : architecture.head_dim;
}

std::optional<Error> check_model(const Plan& plan, const model::Architecture& architecture) {
  if (const auto keys = dropout_keys(architecture); !keys.empty()) {
    std::string hint = "switch it off:";
    for (const std::string& key : keys) hint += " --set model." + key + "=0";
    return refuse(plan, "model.config", "dropout is simulated, not executed", std::move(hint));
  }
  if (!architecture.omitted.what.empty())
    return refuse(plan, "model.config",
                  fmt::format("models of type {} are simulated, not executed: no operator computes {}",
                              architecture.model_type, fmt::join(architecture.omitted.what, ", ")),
                  "take another type of model");
  if (architecture.recurrence.value_heads > 0 || architecture.sparse.tokens > 0 || architecture.residual_streams > 1 ||
      !architecture.norm_gains)
    return refuse(
        plan, "model.config",
        fmt::format("models of type {} are simulated, not executed: no device runs their {}", architecture.model_type,
                    architecture.sparse.tokens > 0      ? "sparse attention"
                    : architecture.residual_streams > 1 ? "residual streams"
                    : !architecture.norm_gains          ? "norms without gains"
                                                        : "recurrences"),
        "take another type of model");
  const std::int64_t columns = rotary_columns(architecture);
  if (columns % 2 == 0) return std::nullopt;
  return refuse(plan, "model.config", fmt::format("rotary embedding cannot pair {} columns of a head", columns),
                "use an even number of columns");
}

// Refuses a tied table that two ranks hold: their copies would diverge.
std::optional<Error> check_ties(const Plan& plan, const model::StepProgram& program) {
  std::set<std::string> owned;
  for (const model::Stage& stage : program.stages)
    for (const std::uint16_t block : program.stage_kinds[static_cast<std::size_t>(stage.kind)].blocks)
      for (const model::Tensor& tensor : program.blocks[block].tensors) {
        if (tensor.role != Role::parameter || tensor.shared || (tensor.name != "embedding" && tensor.name != "output"))
          continue;
        if (!owned.insert(tensor.name).second)
          return refuse(
              plan, "schedule.kind",
              fmt::format("the first and the last stage each hold the '{}' table, on different ranks", tensor.name),
              "use a schedule that keeps both on one rank (dualpipe, dualpipev, zb-v), pipeline = 1, or a "
              "model without --set model.num_nextn_predict_layers and tied embeddings");
      }
  return std::nullopt;
}

}  // namespace

std::optional<Error> check_executable(const Plan& plan, const model::Architecture& architecture,
                                      const model::StepProgram& program, const Device& device) {
  if (auto error = check_degrees(plan, architecture)) return error;
  if (auto error = check_memory(plan)) return error;
  if (auto error = check_formats(plan, architecture, device)) return error;
  if (auto error = check_model(plan, architecture)) return error;
  return check_ties(plan, program);
}

}  // namespace plumbline::real
