// Traces of predicted steps without annotations find their layers, phases and micro-batches again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/fit_records.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/match/trace_comparison.h"
#include "model/base/text_file.h"
#include "reports/json/read_json.h"
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

// Whether a kernel was found at its place in the step. An executed step states no phases.
bool same_place(const model::Timeline& predicted, const model::Span& found, const model::Span& truth, bool executed) {
  const auto phase = [&](const model::Span& span) {
    return predicted.kernels[static_cast<std::size_t>(span.kernel)].phase;
  };
  return found.layer == truth.layer && found.micro_batch == truth.micro_batch &&
         (executed || phase(found) == phase(truth));
}

struct Shares {
  double matched = 0, right = 0;  // of the trace's kernel time
};

Shares shares_of(const model::Timeline& predicted, std::int32_t rank, const std::vector<StrippedKernel>& kernels,
                 bool executed = false) {
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
    if (std::any_of(from, to,
                    [&](const auto& entry) { return same_place(predicted, found, *entry.second->span, executed); }))
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

TEST(StepMatch, FindsTheKernelsOfAnExecutedStepOfAnH100) {
  const std::string path =
      tests::shipped("calibrate/measured/steps/nvidia-h100-80gb-hbm3-2026-11-22-h100-chunk-step.json");
  sim::Inputs inputs = tests::step_inputs("h100-chunk", "h100");
  const std::string config = tests::shipped("examples/" + inputs.plan.model.config);
  inputs.architecture = model::load_architecture_of(inputs.plan, config).value();
  model::Timeline executed = reports::read_result(model::read_text_file(path).value(), path).value().timeline;
  const model::Timeline predicted = all_kernels(inputs, {0});
  tests::take_kernels(executed, predicted);
  const Shares shares = shares_of(predicted, 0, tests::stripped_kernels(executed, 0, 100), true);
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, least_share);
}

// A pipeline of four ranks, of which the trace is of the third.
struct Pipeline {
  sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800-public", small_pipeline);
  model::Timeline predicted = all_kernels(inputs, {2});
  std::vector<StrippedKernel> kernels = tests::stripped_kernels(predicted, 2);
};

TEST(StepMatch, FindsTheRankThatATraceIsOf) {
  const Pipeline pipeline;
  const auto found = compare_trace(imported(pipeline.kernels), pipeline.inputs, {}).value();
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.rank_source, "the best match of 4");
  EXPECT_EQ(compare_trace(imported(pipeline.kernels), pipeline.inputs, {.rank = 7, .world_size = 16}).value().rank, 1);
  EXPECT_FALSE(compare_trace(imported(pipeline.kernels), pipeline.inputs, {.pipeline_rank = 4}));
}

TEST(StepMatch, ComparesThePartOfTheStepThatACutTraceHolds) {
  Pipeline pipeline;
  pipeline.kernels.resize(pipeline.kernels.size() / 2);
  EXPECT_GE(shares_of(pipeline.predicted, 2, pipeline.kernels).right, least_share);
  const auto found = compare_trace(imported(pipeline.kernels), pipeline.inputs, {.pipeline_rank = 2}).value();
  EXPECT_NEAR(found.reached, 0.5, 0.05);
  ASSERT_FALSE(found.notes.empty());
  EXPECT_NE(found.notes.front().find("it was cut, or the plan differs"), std::string::npos);
}

// Names without a class are placed by the kernels around them.
TEST(StepMatch, PlacesKernelsOfUnknownNames) {
  Pipeline pipeline;
  for (StrippedKernel& kernel : pipeline.kernels)
    if (kernel.name.find("rmsnorm") != std::string::npos) kernel.name = "my_own_kernel";
  const Shares shares = shares_of(pipeline.predicted, 2, pipeline.kernels);
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, least_share);
}

// The trace of another plan is no match, which a note states.
TEST(StepMatch, ReportsWhereThePlanIsAnother) {
  const Pipeline pipeline;
  const sim::Inputs other = tests::step_inputs(tests::deepseek_plan, "h800-public");
  const auto found = compare_trace(imported(pipeline.kernels), other, {.pipeline_rank = 3}).value();
  EXPECT_LT(found.match.order_score, 1);
  EXPECT_FALSE(found.notes.empty());
}

// Every time of the trace is between 70 % and all of the predicted one, and so are the sums.
TEST(TraceComparison, ComparesClassesLayersPhasesAndGemms) {
  const Pipeline pipeline;
  const auto found = compare_trace(imported(pipeline.kernels), pipeline.inputs, {.pipeline_rank = 2}).value();
  const auto expect_rows = [](const std::vector<model::ComparedTime>& rows, std::size_t least_rows) {
    EXPECT_GE(rows.size(), least_rows);
    for (const model::ComparedTime& row : rows) {
      ASSERT_TRUE(row.predicted_s && row.measured_s) << row.name;
      EXPECT_GT(*row.measured_s, 0.69 * *row.predicted_s) << row.name;
      EXPECT_LT(*row.measured_s, 1.03 * *row.predicted_s) << row.name;
    }
  };
  expect_rows(found.layers, 8);  // of 32 layers in four stages
  expect_rows(found.phases, 3);
  ASSERT_FALSE(found.gemms.empty());
  for (const ComparedGemm& gemm : found.gemms) {
    EXPECT_GT(gemm.measured_s, 0.7 * gemm.predicted_s) << gemm.shape();
    EXPECT_LT(gemm.measured_s, 1.03 * gemm.predicted_s) << gemm.shape();
  }
  EXPECT_FALSE(found.worst.empty());
}

// A profile that is fitted to the records of a trace predicts its GEMMs, whose times are 85 % of the first prediction.
TEST(TraceRecords, HaveTheShapesOfThePlanAndTheTimesOfTheTrace) {
  const Pipeline pipeline;
  const model::Timeline measured = imported(pipeline.kernels);
  const auto comparison = compare_trace(measured, pipeline.inputs, {.pipeline_rank = 2}).value();
  const std::vector<Measurements> files = {trace_records(measured, comparison, "NVIDIA H800", "trace.json")};
  const FitRecords records = fit_records(files).value();
  EXPECT_GE(records.gemms.size(), 12U);  // q, k and v, o, gate and up, down: forward, and both gradients
  EXPECT_FALSE(records.attention.empty());
  EXPECT_FALSE(records.memory.empty());
  EXPECT_FALSE(records.launches.empty());
  for (const FitRecord& record : records.gemms) {
    EXPECT_GT(record.extent("m") * record.extent("n") * record.extent("k"), 0);
    EXPECT_GT(*record.measurement->flop_rate(), 1e14);
  }
}

}  // namespace
}  // namespace plumbline::calibrate
