// A step that PyTorch ran operator by operator on an H100, whose kernels have names like "elementwise_kernel".
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/fit/profile_fit.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/match/trace_comparison.h"
#include "model/base/text.h"
#include "model/cost/operator_class.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/step_inputs.h"

namespace plumbline::calibrate {
namespace {

const std::string plan_file = "tests/golden/inputs/llama-4-layers.toml";

model::Timeline step_of(const std::string& file) {
  return import_kineto(tests::shipped("tests/data/" + file), tests::shipped_kernel_classes(), {}).value().timeline;
}

const model::Timeline& traced_step() {
  static const model::Timeline timeline = step_of("h100-pytorch-trace.json.gz");
  return timeline;
}

TraceComparison compared(const model::Timeline& step = traced_step(), const std::vector<std::string>& overrides = {}) {
  const model::Plan plan = model::load_plan(tests::shipped(plan_file), overrides).value();
  return compare_trace(step, tests::inputs_of_plan(plan, "h100").value(), {}).value();
}

// Counts of the operators that the model's code runs for each part, four layers.
TEST(PytorchTrace, ChainsOfOperatorsHaveTheClassesOfWhatTheyCompute) {
  std::map<std::string, int> count;
  for (const model::Span& span : traced_step().spans)
    if (span.kernel >= 0) ++count[traced_step().kernels[static_cast<std::size_t>(span.kernel)].class_name];
  const int layers = 4, norms = 2 * layers + 1;
  // Cast, square, mean, addition, reciprocal root, product, cast, product with the weight.
  EXPECT_EQ(count["rmsnorm_fwd"], 8 * norms);
  // Of each multiplication 4 and 2 sums, one with a memory set; of the root 3, the mean 1, the square 4, casts 2.
  EXPECT_EQ(count["rmsnorm_bwd"], 17 * norms);
  // Of queries and keys each: forward 5, backward 3 products and negations, 2 slices of a fill and a copy, 2 additions.
  EXPECT_EQ(count["rotary"], layers * 2 * (5 + 3 + 4 + 2));
  // silu and a multiplication; its two gradients, and that of silu.
  EXPECT_EQ(count["swiglu"], layers * 5);
  // Of q, k, v, o, gate, up and down in each layer, and of the output.
  EXPECT_EQ(count["gemm_wgrad"], 7 * layers + 1);
}

TEST(PytorchTrace, MatchesThePlanThatRan) {
  const TraceComparison found = compared();
  EXPECT_GE(found.match.share(), 0.95);
  EXPECT_GE(found.match.matched_s, 0.9 * found.match.all_s);
  EXPECT_GE(found.match.order_score, 1);
  const auto is_layer = [](const model::ComparedTime& row) { return row.slot >= 0 && row.slot < 4; };
  EXPECT_EQ(std::ranges::count_if(found.layers, is_layer), 4);
  for (const model::ComparedTime& row : found.layers) {
    if (!is_layer(row)) continue;
    // Equal layers took equal times.
    EXPECT_NEAR(row.measured_s.value_or(0), found.layers.front().measured_s.value_or(0), 3e-4) << row.name;
  }
}

// Returns the step as the profiler records it without record_shapes=True.
model::Timeline without_shapes(model::Timeline step) {
  for (model::Kernel& kernel : step.kernels) {
    std::string note;
    for (const std::string_view word : model::split_at(kernel.note, ' '))
      if (!word.starts_with("m=") && !word.starts_with("n=") && !word.starts_with("k="))
        note += (note.empty() ? "" : " ") + std::string(word);
    kernel.note = note;
  }
  return step;
}

// PyTorch runs the query, key and value, and gate and up, as GEMMs of their own. The predicted one is all of them: no
// GEMM can exceed the peak of the GPU, 989 TFLOP/s.
void expect_sums(const TraceComparison& found) {
  std::map<std::string, double> kernels;
  for (const ComparedGemm& gemm : found.gemms) {
    kernels[gemm.name + " " + gemm.kind] = gemm.kernels;
    EXPECT_LT(gemm.flops / gemm.measured_s, 989e12) << gemm.name << " " << gemm.kind;
    EXPECT_NEAR(gemm.flops, 2 * gemm.extents[0] * gemm.extents[1] * gemm.extents[2], 1e-6 * gemm.flops) << gemm.name;
  }
  for (const char* kind : {"fprop", "dgrad", "wgrad"}) {
    EXPECT_EQ(kernels[std::string("qkv ") + kind], 3) << kind;
    EXPECT_EQ(kernels[std::string("gate_up ") + kind], 2) << kind;
    EXPECT_EQ(kernels[std::string("o ") + kind], 1) << kind;
    EXPECT_EQ(kernels[std::string("down ") + kind], 1) << kind;
  }
}

TEST(PytorchTrace, SumsTheGemmsThatAreOneInThePlan) { expect_sums(compared()); }

TEST(PytorchTrace, SumsThemByTheirTimesWhereNoShapesWereRecorded) {
  expect_sums(compared(without_shapes(traced_step())));
}

// A recomputed layer ends in front of its last GEMM, down, whose output no backward needs: gate and up are parts of the
// predicted projection, and none of them stands for down.
TEST(PytorchTrace, MatchesAStepThatRecomputesLayers) {
  const TraceComparison found = compared(step_of("h100-pytorch-recompute-trace.json.gz"), {"recompute.policy=full"});
  EXPECT_GE(found.match.matched_s, 0.95 * found.match.all_s);
  std::map<std::string, double> kernels;
  for (const ComparedGemm& gemm : found.gemms)
    if (gemm.kind == "recompute") kernels[gemm.name] = gemm.kernels;
  EXPECT_EQ(kernels, (std::map<std::string, double>{{"gate_up", 2}, {"qkv", 3}, {"o", 1}}));
}

// The eight kernels of a norm move more bytes than the plan's operator: their time counts for the norm alone.
TEST(PytorchTrace, TakesNoRatesFromOperatorsThatRanAsSeveralKernels) {
  const std::vector<Measurements> files = {trace_records(traced_step(), compared(), "NVIDIA H100", "trace.json")};
  const FitRecords records = fit_records(files).value();
  const auto has_norm = [](const std::vector<FitRecord>& of) {
    return std::ranges::any_of(of, [](const FitRecord& one) { return one.type == model::OperatorClass::norm; });
  };
  EXPECT_TRUE(has_norm(records.divided));
  EXPECT_FALSE(has_norm(records.memory));
  EXPECT_FALSE(records.memory.empty());
}

}  // namespace
}  // namespace plumbline::calibrate
