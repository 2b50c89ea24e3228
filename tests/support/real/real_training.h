// A small model trained on ranks that are threads, with the results that tests of execution compare.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "model/program/program.h"
#include "real/executor/step/parameter_part.h"
#include "real/executor/step/step_executor.h"
#include "real/executor/training/prefetch.h"
#include "real/executor/training/text.h"
#include "real/host/comm/communicator.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"
#include "tests/support/real/host_ranks.h"

namespace plumbline::tests {

// Returns a small model of DeepSeek-V3's structure: latent attention, a dense layer first, shared and routed experts in
// groups.
inline model::Architecture small_moe() {
  model::Architecture a;
  a.model_type = "deepseek_v3";
  a.layers = 4;
  a.hidden_size = 32;
  a.heads = 4;
  a.key_value_heads = 4;
  a.intermediate_size = 48;
  a.vocabulary = 64;
  a.attention = model::AttentionKind::multi_head_latent;
  a.latent = {.q_lora_rank = 16, .kv_lora_rank = 16, .qk_nope_head_dim = 8, .qk_rope_head_dim = 4, .v_head_dim = 8};
  a.experts = {.routed_experts = 8,
               .shared_experts = 1,
               .experts_per_token = 3,
               .intermediate_size = 16,
               .groups = 4,
               .groups_per_token = 2,
               .dense_layers_first = 1,
               .score = model::ScoreFunction::sigmoid,
               .group_score_experts = 2,
               .normalize_weights = true,
               .scaling_factor = 1.5};
  return a;
}

// Returns a plan in FP32 with a global batch of 8 sequences of 16 tokens on one rank.
inline model::Plan small_plan() {
  model::Plan plan;
  plan.model.config = "small.json";
  plan.cluster.topology = "host";
  plan.cluster.gpus = 1;
  plan.batch.sequence_length = 16;
  plan.batch.micro_batch_size = 1;
  plan.batch.global_batch_size = 8;
  for (model::Precision* precision : {&plan.precision.gemm, &plan.precision.dispatch, &plan.precision.combine})
    *precision = model::Precision::fp32;
  return plan;
}

struct TrainedRank {
  std::vector<real::StepOutcome> steps;
  struct Piece {
    model::Tensor held;
    std::vector<float> values;
  };
  std::map<std::string, Piece> gradients, parameters;  // those of the last step; parameters after it
};

struct TrainingRequest {
  model::Plan plan;
  model::Architecture architecture = small_moe();
  int steps = 1;
  real::host::DeviceOptions device = {.clock = real::host::ClockKind::cpu};
  double learning_rate = 1e-3;
  double loss_scale = 1;  // factor of the loss, with the mean over micro-batches
};

inline std::map<std::string, TrainedRank::Piece> pieces(real::Device& device,
                                                        const std::vector<real::NamedBuffer>& buffers) {
  std::map<std::string, TrainedRank::Piece> result;
  for (const real::NamedBuffer& buffer : buffers) result[buffer.name] = {*buffer.held, device.read(*buffer.buffer)};
  return result;
}

// Trains one rank of a request on any device; the error's text is in `error`.
inline TrainedRank train_on(const TrainingRequest& request, real::Device& device, real::Communicator& communicator,
                            std::string& error) {
  TrainedRank result;
  const auto failed = [&](const model::Error& what) {
    error = to_string(what);
    return result;
  };
  const auto layout = model::make_layout(request.plan, request.architecture);
  if (!layout) return failed(layout.error());
  const auto program = model::compile(request.plan, request.architecture, *layout);
  if (!program) return failed(program.error());
  auto step = real::make_step({&request.plan, &request.architecture, &*layout, &*program, &device, &communicator});
  if (!step) return failed(step.error());
  const auto text = real::synthetic_text({request.architecture.vocabulary, request.plan.batch.sequence_length});
  real::Prefetcher batches(**text, (*step)->places(),
                           {request.plan.batch.micro_batch_size, request.plan.batch.global_batch_size}, 0, false);
  const double parts = static_cast<double>(layout->micro_batches * layout->data);
  for (int i = 0; i < request.steps; ++i) {
    auto outcome = (*step)->run(*batches.next(), {i + 1, request.loss_scale / parts, request.learning_rate});
    if (!outcome) return failed(outcome.error());
    result.steps.push_back(std::move(*outcome));
  }
  result.gradients = pieces(device, real::gradients_of(**step));
  result.parameters = pieces(device, real::parameters_of(**step));
  return result;
}

// Trains one rank on the host.
inline TrainedRank train_rank(const TrainingRequest& request, real::host::Transport& transport, std::string& error) {
  real::host::HostDevice device(request.device);
  const auto communicator = real::host::make_communicator(device, transport);
  TrainedRank result = train_on(request, device, *communicator, error);
  if (!error.empty()) transport.abort(error);
  return result;
}

// Returns the root mean square of the gradients' differences, relative to that of the gradients.
inline double gradient_error(const TrainedRank& exact, const TrainedRank& rounded) {
  double squares = 0, differences = 0;
  for (const auto& [name, piece] : exact.gradients)
    for (std::size_t i = 0; i < piece.values.size(); ++i) {
      const double value = static_cast<double>(piece.values[i]);
      const double difference = static_cast<double>(rounded.gradients.at(name).values[i]) - value;
      squares += value * value;
      differences += difference * difference;
    }
  return std::sqrt(differences / squares);
}

struct Trained {
  std::vector<TrainedRank> ranks;
  std::string error;  // of the first rank that failed

  double loss(std::size_t step) const {
    double sum = 0, weight = 0;
    for (const TrainedRank& rank : ranks) {
      sum += rank.steps[step].loss * rank.steps[step].loss_weight;
      weight += rank.steps[step].loss_weight;
    }
    return sum / weight;
  }
};

inline Trained train_all(const TrainingRequest& request) {
  const std::int64_t ranks = request.plan.cluster.gpus;
  Trained trained;
  trained.ranks.resize(static_cast<std::size_t>(ranks));
  std::vector<std::string> errors(trained.ranks.size());
  run_ranks(static_cast<std::int32_t>(ranks), [&](real::host::Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    trained.ranks[rank] = train_rank(request, transport, errors[rank]);
  });
  for (const std::string& error : errors)
    if (trained.error.empty()) trained.error = error;
  return trained;
}

}  // namespace plumbline::tests
