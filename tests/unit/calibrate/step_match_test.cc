// Traces of predicted steps without annotations find their layers, phases and micro-batches again.
#include "calibrate/match/step_match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/import/kineto/import.h"
#include "sim/predict/predictor.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/step_inputs.h"
#include "tests/support/stripped_trace.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using tests::StrippedKernel;

constexpr double least_share = 0.95;

model::Timeline all_kernels(const sim::Inputs& inputs, std::vector<std::int32_t> ranks) {
  sim::Predictor predictor(inputs);
  return predictor.simulate(inputs.plan, {.record = sim::Recording(std::move(ranks), true)}).value().timeline;
}

model::Timeline imported(const std::vector<StrippedKernel>& kernels) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("trace.json", tests::stripped_trace(kernels)).string();
  return import_kineto(path, tests::shipped_kernel_classes(), {}).value().timeline;
}

// The place of a kernel in the step.
bool same_place(const model::Timeline& timeline, const model::Span& a, const model::Span& b) {
  const auto phase = [&](const model::Span& span) {
    return timeline.kernels[static_cast<std::size_t>(span.kernel)].phase;
  };
  return a.layer == b.layer && a.micro_batch == b.micro_batch && phase(a) == phase(b);
}

struct Shares {
  double matched = 0, right = 0;  // of the trace's kernel time
};

Shares shares_of(const model::Timeline& predicted, std::int32_t rank, const std::vector<StrippedKernel>& kernels) {
  const model::Timeline measured = imported(kernels);
  const StepMatch match = match_step(predicted, rank, measured);
  std::multimap<std::pair<std::int64_t, int>, const StrippedKernel*> truth;
  for (const StrippedKernel& kernel : kernels)
    truth.emplace(std::pair((kernel.start_ns - kernels.front().start_ns) * 1000, kernel.stream), &kernel);
  Shares shares{match.share(), 0};
  for (std::size_t i = 0; i < measured.spans.size(); ++i) {
    const model::Span& span = measured.spans[i];
    if (span.kernel < 0 || match.predicted_of[i] < 0) continue;
    const int queue = measured.kernels[static_cast<std::size_t>(span.kernel)].queue;
    const auto [from, to] = truth.equal_range({span.start_ps, queue});
    const model::Span& found = predicted.spans[static_cast<std::size_t>(match.predicted_of[i])];
    if (std::any_of(from, to, [&](const auto& entry) { return same_place(predicted, *entry.second->span, found); }))
      shares.right += static_cast<double>(span.duration_ps) * 1e-12 / match.all_s;
  }
  return shares;
}

void expect_found(const std::string& plan, const std::string& profile, const std::vector<std::string>& overrides,
                  std::int32_t rank) {
  const sim::Inputs inputs = tests::step_inputs(plan, profile, overrides);
  const model::Timeline predicted = all_kernels(inputs, {rank});
  const auto kernels = tests::stripped_kernels(predicted, rank);
  ASSERT_GT(kernels.size(), 100U);
  const Shares shares = shares_of(predicted, rank, kernels);
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, least_share);
}

const std::vector<std::string> small_pipeline = {"cluster.gpus=16", "parallelism.pipeline=4",
                                                 "batch.global_batch_size=32"};

std::vector<std::string> with(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

TEST(StepMatch, FindsTheKernelsOf1F1B) {
  expect_found(tests::llama_plan, "h800-public", with(small_pipeline, {"schedule.kind=1f1b"}), 1);
}

TEST(StepMatch, FindsTheKernelsOfInterleavedStages) {
  expect_found(tests::llama_plan, "h800-public",
               with(small_pipeline, {"schedule.kind=interleaved", "schedule.virtual_stages=2"}), 2);
}

TEST(StepMatch, FindsTheKernelsOfZbV) {
  expect_found(tests::llama_plan, "h800-public", with(small_pipeline, {"schedule.kind=zb-v"}), 0);
}

TEST(StepMatch, FindsTheKernelsOfFsdp) {
  expect_found("llama-3-8b-fsdp-64xh100", "h100", {"batch.global_batch_size=256"}, 0);
}

TEST(StepMatch, FindsTheKernelsOfTensorParallelism) {
  expect_found(tests::llama_plan, "h800-public",
               with(small_pipeline, {"parallelism.tensor=4", "parallelism.pipeline=2"}), 1);
}

TEST(StepMatch, FindsTheKernelsOfExpertsUnderDualPipe) {
  expect_found(tests::deepseek_plan, "h800-public", {"batch.global_batch_size=4096"}, 3);
}

}  // namespace
}  // namespace plumbline::calibrate
