// A trace with the kernels of DeepSeek's published profile of a DualPipe chunk (deepseek-ai/profile-data, train.json):
// its annotations, its names of kernels, and the streams, starts and durations that are derived from it
// (calibrate/published/h800_dualpipe_chunk.csv).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kineto/import.h"
#include "model/result/comparison.h"
#include "tests/support/inputs.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/kineto_trace.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

// The spans of a slot, in the order in which the host issues them.
const std::vector<std::string> sections = {"combine(B)", "attn(F)", "mlp(B)",  "dispatch(F)", "dispatch(B)",
                                           "mlp(W)",     "mlp(F)",  "attn(B)", "attn(W)",     "combine(F)"};

// Names with the classes of the table; where a class has several kernels, they take turns.
const std::map<std::string, std::vector<std::string>> dualpipe_names = {
    {"dispatch_kernel", {"void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*, long*)"}},
    {"combine_kernel", {"void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 4, 16, 24>(int4*, float*)"}},
    {"notify",
     {"void dpsk::ep::internode::cached_notify<false>(int, int)",
      "void dpsk::ep::internode::notify_dispatch<false, 8>(int const*, long*)"}},
    {"layout", {"void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*, int*)"}},
    {"permute",
     {"void cuda::reduce_fused_impl<__nv_bfloat16, 8>(__nv_bfloat16*)",
      "void cuda::expand_to_fused_with_scales_impl<8>(unsigned char*)", "void cuda::get_fused_mapping<8>(int*)"}},
    {"router_topk",
     {"void cuda::top2_sum_gate_impl<256>(float*)", "void cuda::clean_and_count_expert<512>(long*)",
      "void cuda::aux_fi_impl<256>(float*)"}},
    {"quant_cast",
     {"void cuda::per_token_cast_to_fp8_with_channels_impl<__nv_bfloat16, 128>(unsigned char*)",
      "void cuda::cast_back_impl<__nv_bfloat16, 128>(__nv_bfloat16*)"}},
    {"copy", {"_copy_tensor_kernel"}},
    {"swiglu",
     {"void cuda::swiglu_forward_with_weight_and_per_token_cast_to_fp8_with_channels_impl<x>(unsigned char*)"}},
    {"gemm_fp8", {"void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c_outfmt_head::GemmKernel>(P)"}},
    {"grouped_gemm_fp8", {"void dpsk::gemm::fp8_gemm_kernel<4096u, 7168u, 128u, (dpsk::gemm::GemmType)1>(float*)"}},
    {"gemm_fp8_wgrad", {"void deep_gemm::fp8_wgrad_gemm_kernel<7168u, 2048u>(float*)"}},
    {"gemm_fp8_wgrad_grouped", {"void deep_gemm::sm90_fp8_gemm_1d1d_impl<(deep_gemm::GemmType)3>(float*)"}},
    {"gemm_bf16", {"sm90_xmma_gemm_bf16f32_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_cublas"}},
    {"attn_fwd", {"void flash::compute_attn_ws<Flash_fwd_kernel_traits<192, 128, 128> >(P)"}},
    {"attn_bwd", {"void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwd<x> > >(P)"}},
    {"attn_bwd_aux", {"void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<x> >(P)"}},
    {"rmsnorm_fwd", {"void cuda::rms_norm_forward<x>(P)"}},
    {"rmsnorm_bwd", {"void cuda::rms_norm_backward<x>(P)"}},
    {"rotary", {"void cuda::rotary_embedding<x>(P)"}},
    {"scale_transpose", {"void deep_gemm::transpose_fp32<512u, 64u>(float const*)"}},
    {"weight_transpose", {"void cuda::transpose_impl<x>(P)"}},
    {"elementwise", {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<x> >(int)"}},
};

// The section that a kernel of the table belongs to: the phase span of its stream around its start; the second
// weight-gradient stream has the sections of the weight gradients.
std::string section_of(const model::Timeline& table, const model::Span& kernel) {
  for (const model::Span& span : table.spans) {
    if (span.depth != model::phase_depth || span.layer_pair != kernel.layer_pair) continue;
    const std::string& name = table.names[span.name];
    const bool same =
        span.stream == kernel.stream && table.kernels[static_cast<std::size_t>(kernel.kernel)].queue != 23;
    const bool weights = table.kernels[static_cast<std::size_t>(kernel.kernel)].queue == 23 && name.ends_with("(W)");
    constexpr std::int64_t margin_ps = 200'000'000;
    if (same && span.start_ps <= kernel.start_ps && kernel.start_ps < span.end_ps()) return name;
    if (weights && span.start_ps - margin_ps <= kernel.start_ps && kernel.start_ps < span.end_ps() + margin_ps)
      return name;
  }
  return "";
}

std::string written_trace(const model::Timeline& table) {
  tests::KinetoTrace trace;
  std::map<std::string, std::size_t> used;
  int correlation = 0;
  const auto us = [](std::int64_t ps) { return std::to_string(static_cast<double>(ps) / 1e6 + 1e6); };
  for (const model::Span* span : kernel_spans(table)) {
    const model::Kernel& kernel = table.kernels[static_cast<std::size_t>(span->kernel)];
    const auto duration = std::to_string(static_cast<double>(span->duration_ps) / 1e6);
    const auto section = std::ranges::find(sections, section_of(table, *span));
    EXPECT_NE(section, sections.end()) << span->start_ps;
    // The host issues a slot's sections one after the other, a millisecond each.
    const int begin = 1000 * (span->layer_pair * 10 + static_cast<int>(section - sections.begin()));
    trace.launch(++correlation, std::to_string(begin + 1));
    const auto names = dualpipe_names.find(kernel.class_name);
    const std::string name = names == dualpipe_names.end()
                                 ? "Memset (Device)"
                                 : names->second[used[kernel.class_name]++ % names->second.size()];
    trace.kernel(name, kernel.queue, us(span->start_ps), duration, correlation);
  }
  for (int slot = 0; slot < table.layer_pairs; ++slot)
    for (std::size_t i = 0; i < sections.size(); ++i)
      trace.annotation(sections[i], std::to_string(1000 * (slot * 10 + static_cast<int>(i))), "900");
  return trace.annotation("1F1B", "0", "100000").json();
}

TEST(KinetoDualPipe, ThePublishedTraceIsReadWithoutClassesOfItsOwn) {
  const auto table =
      read_chunk(tests::shipped("calibrate/published/h800_dualpipe_chunk.csv"), tests::shipped_kernel_classes());
  ASSERT_TRUE(table);
  const tests::TemporaryDirectory folder;
  const auto imported =
      import_kineto(folder.write("train.json", written_trace(*table)), tests::shipped_kernel_classes(), {});
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  ASSERT_EQ(imported->timeline.kernels.size(), table->kernels.size());
  EXPECT_THAT(imported->unknown, testing::IsEmpty());
  EXPECT_EQ(imported->with_phase, imported->kernels + imported->copies);
  const auto wanted = kernel_spans(*table), found = kernel_spans(imported->timeline);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(imported->timeline.kernels[i].class_name, table->kernels[i].class_name) << i;
    EXPECT_EQ(imported->timeline.kernels[i].phase, table->kernels[i].phase) << i;
    EXPECT_EQ(found[i]->layer, wanted[i]->layer) << i;
  }
  // The communication stream is busy for 114.52 ms of 129.01 ms, and the compute streams for 124.29 ms.
  const model::TimelineSummary summary = model::summarize(imported->timeline);
  EXPECT_NEAR(summary.seconds, 129.01e-3, 0.05e-3);
  EXPECT_NEAR(summary.communication_busy, 114.52e-3, 0.2e-3);
  EXPECT_DOUBLE_EQ(summary.communication_busy, model::summarize(*table).communication_busy);
  EXPECT_DOUBLE_EQ(summary.compute_busy, model::summarize(*table).compute_busy);
}

}  // namespace
}  // namespace plumbline::calibrate
