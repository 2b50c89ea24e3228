#include "real/executor/plan_support.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace plumbline::real {

namespace {

using model::Error;
using model::ErrorKind;
using model::Plan;
using model::Role;

Error refuse(const Plan& plan, std::string key, std::string message, std::string hint) {
  return model::plan_error(plan, ErrorKind::infeasible, std::move(key), std::move(message), std::move(hint));
}

std::optional<Error> check_degrees(const Plan& plan, const model::Architecture& architecture) {
  const auto& degrees = plan.parallelism;
  if (degrees.zero_stage > 1)
    return refuse(plan, "parallelism.zero_stage", "sharded gradients and parameters are simulated, not executed",
                  "set it to 0 or 1");
  if (degrees.context > 1)
    return refuse(plan, "parallelism.context", "attention over divided sequences is simulated, not executed",
                  "set it to 1");
  if (degrees.expert_tensor > 1)
    return refuse(plan, "parallelism.expert_tensor", "experts divided by columns are simulated, not executed",
                  "set it to 1");
  if (degrees.synchronisation_interval > 1)
    return refuse(plan, "parallelism.synchronisation_interval", "execution reduces gradients in every step",
                  "set it to 1");
  if (plan.overlap.tensor && degrees.tensor > 1)
    return refuse(plan, "overlap.tensor", "collectives in pieces are simulated, not executed", "set it to false");
  if (architecture.vocabulary % degrees.tensor != 0)
    return refuse(plan, "parallelism.tensor",
                  fmt::format("{} ranks do not divide a vocabulary of {}", degrees.tensor, architecture.vocabulary),
                  "use a divisor of the vocabulary");
  return std::nullopt;
}

std::optional<Error> check_memory(const Plan& plan) {
  if (plan.offload.optimizer || plan.offload.activations > 0)
    return refuse(plan, plan.offload.optimizer ? "offload.optimizer" : "offload.activations",
                  "offloading is simulated, not executed", "remove it");
  if (plan.optimizer.ema != "none")
    return refuse(plan, "optimizer.ema", "a moving average on the host is simulated, not executed", "set it to none");
  return std::nullopt;
}

std::optional<Error> check_formats(const Plan& plan) {
  const auto& p = plan.precision;
  const auto is_known = [](model::Precision precision) {
    return precision == model::Precision::fp32 || precision == model::Precision::bf16 ||
           precision == model::Precision::fp16;
  };
  const std::pair<std::string, model::Precision> formats[] = {{"gemm", p.gemm},
                                                              {"dispatch", p.dispatch},
                                                              {"combine", p.combine},
                                                              {"gradients", p.gradients},
                                                              {"master_weights", p.master_weights},
                                                              {"optimizer_moments", p.optimizer_moments}};
  for (const auto& [key, format] : formats)
    if (!is_known(format))
      return refuse(plan, "precision." + key, fmt::format("{} is simulated, not executed", to_string(format)),
                    "set it to fp32, bf16 or fp16");
  return std::nullopt;
}

// The probabilities that are not 0, by the keys of the model's file (model/config/).
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

// Of each head, by rotary embedding.
std::int64_t turning_columns(const model::Architecture& architecture) {
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
  const std::int64_t turning = turning_columns(architecture);
  if (turning % 2 == 0) return std::nullopt;
  return refuse(plan, "model.config", fmt::format("{} columns of a head do not form pairs that turn", turning),
                "rotary embedding needs an even number of them");
}

// A table that two ranks hold copies of would drift apart.
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
                                      const model::StepProgram& program) {
  if (auto error = check_degrees(plan, architecture)) return error;
  if (auto error = check_memory(plan)) return error;
  if (auto error = check_formats(plan)) return error;
  if (auto error = check_model(plan, architecture)) return error;
  return check_ties(plan, program);
}

}  // namespace plumbline::real
