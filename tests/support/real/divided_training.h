// A step divided over ranks in every supported way. Its gradients must be those of one rank that does everything.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/real/real_training.h"

namespace plumbline::tests {

struct Division {
  std::string name;
  std::string schedule = "1f1b";
  std::int64_t pipeline = 1, data = 1, expert = 1, tensor = 1;
  bool sequence = false;
  std::int64_t zero_stage = 0;
  bool overlapped = true;  // reductions and gathers are overlapped with the slots
  bool threads = true;     // the host's streams are threads
  std::int64_t prediction_modules = 0;
  bool dense = false;  // a model without experts
  std::int64_t virtual_stages = 1;
  friend void PrintTo(const Division& division, std::ostream* out) { *out << division.name; }
};

inline model::Plan plan_of(const Division& division) {
  model::Plan plan = small_plan();
  plan.schedule.kind = division.schedule;
  plan.schedule.virtual_stages = division.virtual_stages;
  plan.parallelism.pipeline = division.pipeline;
  plan.parallelism.expert = division.expert;
  plan.parallelism.tensor = division.tensor;
  plan.parallelism.sequence = division.sequence;
  plan.parallelism.zero_stage = division.zero_stage;
  plan.overlap.gradient_reduce = plan.overlap.parameter_gather = division.overlapped;
  plan.overlap.gradient_bucket_bytes = 8e3;  // gives several buckets
  plan.cluster.gpus = division.pipeline * division.data * division.tensor;
  return plan;
}

inline model::Architecture architecture_of(const Division& division) {
  model::Architecture architecture = small_moe();
  architecture.multi_token_prediction_layers = division.prediction_modules;
  if (division.dense) architecture.experts = {};
  return architecture;
}

inline TrainingRequest request_of(const Division& division, int steps = 1) {
  TrainingRequest request{plan_of(division), architecture_of(division), steps};
  request.device.threads = division.threads;
  return request;
}

// Returns the same model on one rank.
inline Division whole_of(const Division& division) {
  return {.name = "whole", .prediction_modules = division.prediction_modules, .dense = division.dense};
}

inline real::Division place_of(const model::Plan& plan, std::size_t world) {
  return real::division_of(plan.parallelism,
                           static_cast<std::int64_t>(world) % (plan.cluster.gpus / plan.parallelism.pipeline));
}

// Returns the largest difference between the piece of rank `world` and the same part of the whole, relative to the
// whole's largest entry.
inline double difference(const Division& division, std::size_t world, const TrainedRank::Piece& whole,
                         const TrainedRank::Piece& part) {
  const std::vector<float> expected =
      real::part_of(architecture_of(division), whole.held, part.held, place_of(plan_of(division), world), whole.values);
  double largest = 0, scale = 0;
  for (const float value : whole.values) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(part.values[i]) - static_cast<double>(expected[i])));
  return largest / scale;
}

}  // namespace plumbline::tests
