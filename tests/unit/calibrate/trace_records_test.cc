// Records of a trace that is matched with the plan that ran, and the constants that are fitted to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "calibrate/fit/profile_fit.h"
#include "calibrate/match/trace_comparison.h"
#include "model/cost/operator_class.h"
#include "tests/support/step_inputs.h"
#include "tests/support/stripped_trace.h"

namespace plumbline::calibrate {
namespace {

Measurements records_of(const std::string& plan, const std::string& profile, const std::vector<std::string>& overrides,
                        std::int32_t rank) {
  const sim::Inputs inputs = tests::step_inputs(plan, profile, overrides);
  const model::Timeline measured =
      tests::imported_trace(tests::stripped_kernels(tests::all_kernels(inputs, {rank}), rank));
  const auto comparison = compare_trace(measured, inputs, {.pipeline_rank = rank}).value();
  return trace_records(measured, comparison, "NVIDIA H800", "trace.json");
}

// The names of the operators of a plan that run on several ranks together.
std::set<std::string> operations(const std::vector<FitRecord>& records) {
  std::set<std::string> found;
  for (const FitRecord& record : records) found.insert(record.measurement->op);
  return found;
}

TEST(TraceRecords, HaveTheShapesOfThePlanAndTheTimesOfTheTrace) {
  const std::vector<Measurements> files = {
      records_of(tests::llama_plan, "h800-public",
                 {"cluster.gpus=16", "parallelism.pipeline=4", "batch.global_batch_size=32"}, 2)};
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

TEST(TraceRecords, HoldTheCollectivesOfDataParallelism) {
  const std::vector<Measurements> files = {
      records_of("llama-3-8b-fsdp-64xh100", "h100", {"batch.global_batch_size=256"}, 0)};
  const FitRecords records = fit_records(files).value();
  EXPECT_THAT(operations(records.together), testing::IsSupersetOf({"all_gather", "reduce_scatter"}));
  EXPECT_THAT(files[0].notes, testing::Contains(testing::HasSubstr("Latency and rate of links are not fitted")));
}

// The SMs are the CTAs of the traced kernels, 56 x 2.
TEST(TraceRecords, HoldTheExpertAllToAlls) {
  const std::vector<Measurements> files = {
      records_of(tests::deepseek_plan, "h800-public", {"batch.global_batch_size=4096"}, 3)};
  const FitRecords records = fit_records(files).value();
  std::vector<FitRecord> exchanges = records.together;
  exchanges.insert(exchanges.end(), records.together_overlapped.begin(), records.together_overlapped.end());
  EXPECT_THAT(operations(exchanges), testing::IsSupersetOf({"dispatch", "combine", "dispatch_grad", "combine_grad"}));
  for (const FitRecord& record : exchanges) {
    const bool transfers = record.type == model::OperatorClass::exchange;
    EXPECT_EQ(record.cores, transfers ? 112 : record.measurement->sms.value_or(1)) << record.key;
  }
}

}  // namespace
}  // namespace plumbline::calibrate
