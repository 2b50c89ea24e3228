#include "reports/text/describe.h"

#include <fmt/format.h>

#include "reports/text/format.h"

namespace plumbline::reports {

std::string_view describe(model::OpType type) {
  switch (type) {
    case model::OpType::F:
      return "forward";
    case model::OpType::B:
      return "backward";
    case model::OpType::I:
      return "input gradient";
    case model::OpType::W:
      return "weight gradient";
    case model::OpType::FB:
      return "overlapped pair";
  }
  return "";
}

std::string hardware(const model::Plan& plan, const model::StepResult& result) {
  const std::string gpus = grouped(static_cast<double>(plan.cluster.gpus));
  if (result.device.empty()) return fmt::format("{} GPUs ({})", gpus, plan.cluster.topology);
  return fmt::format("{} {} ({})", gpus, result.device, plan.cluster.topology);
}

std::string parallelism(const model::Plan& plan) {
  std::string text = plan.schedule.kind;
  const auto degree = [&](const char* name, std::int64_t value) {
    if (value > 1) text += fmt::format(", {} {}", name, value);
  };
  const auto& degrees = plan.parallelism;
  const std::int64_t per_replica = degrees.tensor * degrees.context * degrees.pipeline;
  degree("pipeline", degrees.pipeline);
  degree("tensor", degrees.tensor);
  degree("context", degrees.context);
  degree("expert", degrees.expert);
  degree("data", per_replica > 0 ? plan.cluster.gpus / per_replica : 0);
  if (degrees.zero_stage > 0) text += fmt::format(", ZeRO-{}", degrees.zero_stage);
  return text + fmt::format(", {}", model::to_string(plan.precision.gemm));
}

std::string stage_list(const model::RankMemory& rank) { return fmt::format("{}", fmt::join(rank.stages, ", ")); }

}  // namespace plumbline::reports
