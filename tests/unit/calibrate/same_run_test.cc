// Traces of the frameworks of 2026 match the plan that ran, and those of another run are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "calibrate/match/trace_comparison.h"
#include "tests/support/step_inputs.h"
#include "tests/support/stripped_trace.h"

namespace plumbline::calibrate {
namespace {

using testing::HasSubstr;
using tests::all_kernels;
using tests::imported_trace;
using tests::StrippedKernel;
using KernelNames = std::map<std::string, std::string>;

const std::string fsdp_plan = "llama-3-8b-fsdp-64xh100";

sim::Inputs fsdp_inputs(const std::string& batch, const std::string& model = "llama-3-8b") {
  return tests::step_inputs(fsdp_plan, "h100",
                            {"batch.global_batch_size=" + batch, "model.config=models/" + model + ".json"});
}

const model::Kernel& predicted_kernel(const model::Timeline& predicted, const StrippedKernel& kernel) {
  return predicted.kernels[static_cast<std::size_t>(kernel.span->kernel)];
}

// Returns the kernels of a rank with the names that a framework gives them: by kind of GEMM or row, with _grad where
// names have it for gradients; others keep theirs.
std::vector<StrippedKernel> named(const model::Timeline& predicted, std::int32_t rank, const KernelNames& names) {
  std::vector<StrippedKernel> kernels = tests::stripped_kernels(predicted, rank);
  for (StrippedKernel& kernel : kernels) {
    const model::Kernel& own = predicted_kernel(predicted, kernel);
    const std::string row = !own.gemm.empty() ? own.gemm_kind : own.row == "collective" ? own.class_name : own.row;
    const bool gradient = own.key.find("_grad") != std::string::npos && names.contains(row + "_grad");
    const auto name = names.find(gradient ? row + "_grad" : row);
    if (name != names.end()) kernel.name = name->second;
  }
  return kernels;
}

// Runs the projections of Llama-3-8B that a plan fuses as the GEMMs that they consist of, with or without the shapes of
// all GEMMs.
std::vector<StrippedKernel> divided(const model::Timeline& predicted, const std::vector<StrippedKernel>& kernels,
                                    bool shapes = true) {
  const std::map<std::string, std::vector<double>> parts = {{"qkv", {4096, 1024, 1024}}, {"gate_up", {14336, 14336}}};
  const auto text = [](double extent) { return std::to_string(static_cast<std::int64_t>(extent)); };
  std::vector<StrippedKernel> result;
  for (const StrippedKernel& whole : kernels) {
    const model::Kernel& gemm = predicted_kernel(predicted, whole);
    if (gemm.gemm.empty()) {
      result.push_back(whole);
      continue;
    }
    const std::size_t extent = gemm.gemm_kind == "wgrad" ? 0 : gemm.gemm_kind == "dgrad" ? 2 : 1;
    const auto of_gemm = parts.find(gemm.gemm);
    std::int64_t start = whole.start_ns;
    for (const double size : of_gemm == parts.end() ? std::vector{gemm.extents[extent]} : of_gemm->second) {
      StrippedKernel& part = result.emplace_back(whole);
      std::array<double, 4> of_part = gemm.extents;
      of_part[extent] = size;
      part.start_ns = start;
      part.duration_ns =
          static_cast<std::int64_t>(static_cast<double>(whole.duration_ns) * size / gemm.extents[extent]);
      start += part.duration_ns;
      if (shapes)
        part.dims = "[[" + text(of_part[0]) + ", " + text(of_part[2]) + "], [" + text(of_part[2]) + ", " +
                    text(of_part[1]) + "]]";
    }
  }
  return result;
}

// At least 95 % of the time is matched, and the table of GEMMs has the seconds of the trace's GEMMs within 3 %.
void expect_compared(const sim::Inputs& inputs, std::int32_t rank, const std::vector<StrippedKernel>& kernels) {
  const model::Timeline measured = imported_trace(kernels);
  const auto found = compare_trace(
      measured, inputs,
      {.pipeline_rank = rank, .world_size = static_cast<int>(inputs.plan.cluster.gpus), .whole_step = true});
  ASSERT_TRUE(found) << model::to_string(found.error());
  EXPECT_GE(found->match.share(), 0.95);
  EXPECT_GE(found->reached, 0.98);
  double table = 0, trace = 0;
  for (const ComparedGemm& gemm : found->gemms) table += static_cast<double>(gemm.count) * gemm.measured_s;
  for (const model::Span& span : measured.spans) {
    if (span.kernel < 0) continue;
    const model::Kernel& kernel = measured.kernels[static_cast<std::size_t>(span.kernel)];
    if (kernel.row == "GEMM" || kernel.row == "weight-gradient GEMM")
      trace += static_cast<double>(span.duration_ps + kernel.gap_ps) * 1e-12;
  }
  EXPECT_GT(trace, 0);
  EXPECT_NEAR(table, trace, 0.03 * trace);
}

const KernelNames torch_gemms = {{"fprop", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"},
                                 {"recompute", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"},
                                 {"dgrad", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"},
                                 {"wgrad", "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NTT"}};

KernelNames with_names(KernelNames names, const KernelNames& more) {
  for (const auto& [row, name] : more) names[row] = name;
  return names;
}

TEST(SameRun, MatchesFsdpOperatorByOperator) {
  const std::string elementwise = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<x> >";
  const sim::Inputs inputs = fsdp_inputs("128");
  const model::Timeline predicted = all_kernels(inputs, {0});
  expect_compared(inputs, 0,
                  divided(predicted, named(predicted, 0,
                                           with_names(torch_gemms, {{"norm", elementwise},
                                                                    {"swiglu", elementwise},
                                                                    {"rotary", elementwise},
                                                                    {"cast", elementwise}}))));
}

// The profiler records no shapes unless it is asked to, and these names of GEMMs state no weight gradients.
TEST(SameRun, MatchesCompiledFsdpWithoutShapes) {
  const sim::Inputs inputs = fsdp_inputs("128");
  const model::Timeline predicted = all_kernels(inputs, {0});
  const KernelNames names = {
      {"attention", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128"},
      {"attention_grad", "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26"},
      {"norm", "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3"},
      {"norm_grad", "triton_red_fused__to_copy_add_div_mul_pow_sum_6"},
      {"swiglu", "triton_poi_fused__to_copy_mul_silu_5"},
      {"elementwise", "triton_poi_fused_add_7"}};
  expect_compared(inputs, 0, divided(predicted, named(predicted, 0, names), false));
}

TEST(SameRun, MatchesTensorAndPipelineParallelism) {
  const sim::Inputs inputs = tests::step_inputs(
      tests::llama_plan, "h800-public",
      {"cluster.gpus=16", "parallelism.tensor=4", "parallelism.pipeline=2", "batch.global_batch_size=32"});
  expect_compared(
      inputs, 1,
      named(all_kernels(inputs, {1}), 1,
            {{"attention", "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<x> > >"},
             {"attention_grad", "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90<x> > >"}}));
}

TEST(SameRun, MatchesExpertsUnderHybridEp) {
  const sim::Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800-public", {"batch.global_batch_size=4096"});
  expect_compared(
      inputs, 3,
      named(all_kernels(inputs, {3}), 3,
            {{"attention", "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at_"},
             {"attention_grad",
              "kernel_cutlass_kernel_flash_attncuteflash_bwd_sm100FlashAttentionBackwardSm100_object_at_"},
             {"dispatch", "void hybrid_ep::dispatch_kernel<unsigned char, hybrid_ep::warp_group<1, 0>, 12, 2>"},
             {"combine", "void hybrid_ep::combine_kernel<hybrid_ep::warp_group<4, 0>, 12, 2>"},
             {"notify", "void hybrid_ep::device_sync_kernel<8>"},
             {"layout", "void hybrid_ep::scan<512, 32, 8192, 8, 4, 8>"}}));
}

// Returns why a trace is no trace of the plan's run.
std::string refusal(const std::vector<StrippedKernel>& kernels, const sim::Inputs& inputs, const TraceOrigin& origin) {
  const auto found = compare_trace(imported_trace(kernels), inputs, origin);
  return found ? "compared" : model::to_string(found.error());
}

TEST(SameRun, RefusesAnotherWorld) {
  const sim::Inputs inputs = fsdp_inputs("128");
  const auto kernels = tests::stripped_kernels(all_kernels(inputs, {0}), 0);
  EXPECT_THAT(refusal(kernels, inputs, {.rank = 3, .world_size = 8}),
              HasSubstr("the trace is of 8 GPUs, the plan of 64"));
  EXPECT_THAT(refusal(kernels, inputs, {.rank = 0, .world_size = 2, .of_pipeline = true}),
              HasSubstr("the trace is of 2 pipeline ranks, the plan of 1"));
  // A trace of plumbline counts pipeline ranks, and has its plan.
  EXPECT_THAT(refusal(kernels, inputs, {.rank = 0, .world_size = 1, .of_pipeline = true, .plan_gpus = 32}),
              HasSubstr("the trace is of a plan for 32 GPUs, the plan of 64"));
  EXPECT_THAT(refusal(kernels, inputs, {.rank = 0, .world_size = 1, .of_pipeline = true, .plan_gpus = 64}),
              testing::Not(HasSubstr("for 64 GPUs")));
}

// Qwen3-8B has the heads and the width of Llama-3-8B, and 12,288 columns where that has 14,336.
TEST(SameRun, RefusesAnotherModelByItsShapes) {
  const model::Timeline predicted = all_kernels(fsdp_inputs("128"), {0});
  const auto kernels = divided(predicted, named(predicted, 0, torch_gemms));
  const std::string reason = refusal(kernels, fsdp_inputs("128", "qwen3-8b"), {});
  EXPECT_THAT(reason, HasSubstr("the trace is of another run than the plan"));
  EXPECT_THAT(reason, HasSubstr("14336"));
}

// A layer more or less is a thirty-second of the gradients of weights; a recomputation changes none of them.
TEST(SameRun, RefusesOtherNumbersOfLayersByTheirWeightGradients) {
  const sim::Inputs own = fsdp_inputs("128");
  const model::Timeline predicted = all_kernels(own, {0});
  const auto kernels = divided(predicted, named(predicted, 0, torch_gemms));
  const TraceOrigin whole{.whole_step = true};
  EXPECT_EQ(refusal(kernels, own, whole), "compared");
  for (const int more : {-1, 1}) {
    sim::Inputs other = own;
    other.architecture.layers += more;
    EXPECT_THAT(refusal(kernels, other, whole),
                HasSubstr(more > 0 ? "have 97 % of the plan's FLOPs, as of fewer layers"
                                   : "have 103 % of the plan's FLOPs, as of more layers"));
  }
  const sim::Inputs recomputed =
      tests::step_inputs(fsdp_plan, "h100", {"batch.global_batch_size=128", "recompute.policy=none"});
  EXPECT_THAT(refusal(kernels, recomputed, whole), testing::Not(HasSubstr("gradients of weights")));
}

TEST(SameRun, RefusesExpertsOnOneSideAlone) {
  const sim::Inputs dense = tests::step_inputs(
      tests::llama_plan, "h800-public", {"cluster.gpus=16", "parallelism.pipeline=4", "batch.global_batch_size=32"});
  const sim::Inputs experts = tests::step_inputs(tests::deepseek_plan, "h800-public", {"batch.global_batch_size=4096"});
  EXPECT_THAT(refusal(tests::stripped_kernels(all_kernels(experts, {3}), 3), dense, {.pipeline_rank = 1}),
              HasSubstr("tokens of the trace go to experts, and the model of the plan has none"));
  EXPECT_THAT(refusal(tests::stripped_kernels(all_kernels(dense, {1}), 1), experts, {.pipeline_rank = 3}),
              HasSubstr("the trace is of another run than the plan"));
}

// Without shapes the numbers of GEMMs decide; a trace that may have been cut is compared over what it holds.
TEST(SameRun, RefusesOtherNumbersOfMicroBatches) {
  const sim::Inputs two = fsdp_inputs("128"), four = fsdp_inputs("256");
  const auto fewer = tests::stripped_kernels(all_kernels(two, {0}), 0);
  EXPECT_THAT(refusal(fewer, four, {.whole_step = true}), HasSubstr("as of fewer layers or micro-batches"));
  EXPECT_EQ(refusal(fewer, four, {}), "compared");
  EXPECT_THAT(refusal(tests::stripped_kernels(all_kernels(four, {0}), 0), two, {}),
              HasSubstr("as of more layers or micro-batches"));
}

// The down projection of every layer takes a quarter of its time, 2,000 TFLOP/s and more, where an H100 has 989: what
// ran there is something else.
TEST(SameRun, LeavesOutGemmsAboveThePeak) {
  const sim::Inputs inputs = fsdp_inputs("128");
  const model::Timeline predicted = all_kernels(inputs, {0});
  auto kernels = tests::stripped_kernels(predicted, 0, 100);
  for (StrippedKernel& kernel : kernels) {
    const model::Kernel& own = predicted_kernel(predicted, kernel);
    if (own.gemm == "down" && own.gemm_kind == "fprop") kernel.duration_ns /= 4;
  }
  const TraceComparison found = compare_trace(imported_trace(kernels), inputs, {}).value();
  EXPECT_FALSE(found.gemms.empty());
  for (const ComparedGemm& gemm : found.gemms) {
    EXPECT_FALSE(gemm.name == "down" && gemm.kind == "fprop");
    EXPECT_LT(gemm.flops / gemm.measured_s, 1.1 * 989e12) << gemm.name << " " << gemm.kind;
  }
  EXPECT_LT(found.match.share(), 1);
}

}  // namespace
}  // namespace plumbline::calibrate
