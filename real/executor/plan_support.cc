#include "real/executor/plan_support.h"

#include <fmt/format.h>

#include <set>
#include <string>

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

std::optional<Error> check_formats(const Plan& plan, const model::Architecture& architecture) {
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
  const auto& dropout = architecture.dropout;
  if (dropout.attention > 0 || dropout.residual > 0 || dropout.embedding > 0)
    return refuse(plan, "model.config", "dropout is simulated, not executed",
                  "set the model's dropout probabilities to 0, for example --set model.attention_dropout=0");
  return std::nullopt;
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
  if (auto error = check_formats(plan, architecture)) return error;
  return check_ties(plan, program);
}

}  // namespace plumbline::real
