// Training of a small model from the first step to the last, with all that runs between steps, on ranks that are
// threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/program/compile.h"
#include "real/executor/training/trainer.h"
#include "tests/support/real/host_ranks.h"
#include "tests/support/real/real_training.h"

namespace plumbline::tests {

struct TrainingCourse {
  model::Plan plan = small_plan();
  model::Architecture architecture = small_moe();
  real::TrainingOptions options;  // batch, layers, experts and fp16 are set from plan and architecture
  std::function<void(real::TrainingStep&)> prepare;  // called before the first step
};

struct CourseOnRank {
  model::Result<real::TrainingResult> result;
  std::vector<real::StepFigures> figures;
  std::map<std::string, std::vector<float>> state;         // that after the last step
  std::map<std::int64_t, std::vector<float>> router_bias;  // that of the layers that the rank holds
};

inline real::TrainingOptions options_of(const TrainingCourse& course) {
  real::TrainingOptions options = course.options;
  options.batch = {course.plan.batch.micro_batch_size, course.plan.batch.global_batch_size};
  options.layers = course.architecture.layers;
  options.experts = course.architecture.experts.routed_experts;
  options.fp16 = course.plan.precision.gemm == model::Precision::fp16;
  return options;
}

// Trains one rank of a course on any device.
inline CourseOnRank follow(const TrainingCourse& course, real::Device& device, real::Communicator& communicator) {
  CourseOnRank done;
  const auto layout = model::make_layout(course.plan, course.architecture).value();
  const auto program = model::compile(course.plan, course.architecture, layout).value();
  const auto step =
      real::make_step({&course.plan, &course.architecture, &layout, &program, &device, &communicator}).value();
  if (course.prepare) course.prepare(*step);
  const auto text = real::synthetic_text({course.architecture.vocabulary, course.plan.batch.sequence_length}).value();
  done.result = real::train(*step, communicator, *text, options_of(course),
                            [&](const real::StepFigures& figures) { done.figures.push_back(figures); });
  for (const real::StatePiece& piece : step->state()) done.state[piece.name] = device.read(*piece.buffer);
  for (std::int64_t layer = 0; layer < course.architecture.layers; ++layer)
    if (auto bias = step->router_bias(layer); !bias.empty()) done.router_bias[layer] = std::move(bias);
  return done;
}

inline std::vector<CourseOnRank> follow(const TrainingCourse& course) {
  std::vector<CourseOnRank> ranks(static_cast<std::size_t>(course.plan.cluster.gpus));
  const real::host::DeviceOptions options{.clock = real::host::ClockKind::cpu};
  run_ranks(static_cast<std::int32_t>(course.plan.cluster.gpus), options,
            [&](real::host::HostDevice& device, real::Communicator& communicator) {
              ranks[static_cast<std::size_t>(communicator.rank())] = follow(course, device, communicator);
            });
  return ranks;
}

// Returns the largest difference in nats between two curves of as many losses, where each point is a mean of five
// steps.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i + 5 <= a.size(); ++i) {
    double sum = 0;
    for (std::size_t k = i; k < i + 5; ++k) sum += a[k] - b[k];
    largest = std::max(largest, std::abs(sum) / 5);
  }
  return largest;
}

}  // namespace plumbline::tests
