// Reads the shipped classes of kernels and files of that form.
#include "calibrate/import/kernel_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "tests/support/inputs.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using testing::HasSubstr;
using tests::shipped_kernel_classes;

TEST(KernelClasses, EveryClassOfThePublishedProfileIsKnown) {
  const auto chunk =
      read_chunk(tests::shipped("calibrate/published/h800_dualpipe_chunk.csv"), shipped_kernel_classes());
  ASSERT_TRUE(chunk);
  for (const model::Kernel& kernel : chunk->kernels)
    EXPECT_NE(shipped_kernel_classes().named(kernel.class_name), nullptr) << kernel.class_name;
  const std::map<std::string, std::string> rows = {
      {"gemm_fp8", "GEMM"},          {"grouped_gemm_fp8", "GEMM"},
      {"gemm_bf16", "GEMM"},         {"gemm_fp8_wgrad", "weight-gradient GEMM"},
      {"attn_fwd", "attention"},     {"gemm_fp8_wgrad_grouped", "weight-gradient GEMM"},
      {"attn_bwd", "attention"},     {"attn_bwd_aux", "attention"},
      {"rmsnorm_fwd", "norm"},       {"rmsnorm_bwd", "norm"},
      {"quant_cast", "cast"},        {"scale_transpose", "transpose"},
      {"swiglu", "swiglu"},          {"weight_transpose", "transpose"},
      {"permute", "permute"},        {"copy", "copy"},
      {"rotary", "rotary"},          {"memcpy_memset", "copy"},
      {"router_topk", "router"},     {"elementwise", "elementwise"},
      {"notify", "notify"},          {"dispatch_kernel", "dispatch"},
      {"combine_kernel", "combine"}, {"layout", "layout"},
      {"nobody knows", "other"}};
  for (const auto& [name, row] : rows) EXPECT_EQ(shipped_kernel_classes().compare_row(name), row) << name;
}

TEST(KernelClasses, KernelNames) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"void deep_gemm::fp8_gemm_kernel<4096u, 7168u, (deep_gemm::GemmType)0>(float*)", "gemm_fp8"},
      {"void deep_gemm::fp8_gemm_kernel<4096u, 7168u, (deep_gemm::GemmType)1>(float*)", "grouped_gemm_fp8"},
      {"void deep_gemm::fp8_wgrad_gemm_kernel<7168u, 2048u>(float*)", "gemm_fp8_wgrad"},
      {"void deep_gemm::sm90_fp8_gemm_1d2d_impl<(deep_gemm::GemmType)1>(float*)", "grouped_gemm_fp8"},
      {"void deep_gemm::sm90_fp8_gemm_1d1d_impl<(deep_gemm::GemmType)3>(float*)", "gemm_fp8_wgrad_grouped"},
      {"void deep_gemm::sm90_bf16_gemm_impl<(deep_gemm::GemmType)0>(float*)", "gemm_bf16"},
      {"void deep_gemm::transpose_fp32<512u, 64u>(float const*, float*)", "scale_transpose"},
      {"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "gemm_bf16"},
      {"nvjet_qqtst_128x256_128x4_2x1_v_bz_TNT", "gemm_fp8"},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_cublas", "gemm_bf16"},
      {"sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_cublas", "gemm_fp8"},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nt_align8>(P)", "gemm_bf16"},
      {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "gemm_bf16"},
      {"ampere_sgemm_128x64_tn", "gemm_fp32"},
      {"void cublasLt::splitKreduce_kernel<32, 16, int>(P)", "gemm_bf16"},
      {"Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1", "gemm_bf16"},
      {"Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_HAS_SAB_MT256x256x128", "gemm_fp8"},
      {"void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm>(P)", "gemm_bf16"},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64> >(Flash_fwd_params)", "attn_fwd"},
      {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<x> > >(P)", "attn_fwd"},
      {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnBwdSm90<x> > >(P)", "attn_bwd"},
      {"void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<x> >(P)", "attn_bwd_aux"},
      {"void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<T>(P)", "attn_bwd"},
      {"void flash_bwd_dot_do_o_kernel<true, T>(P)", "attn_bwd_aux"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128", "attn_fwd"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26", "attn_bwd"},
      {"void ck_tile::kentry<ck_tile::FmhaBwdDQDKDVKernel<x> >(P)", "attn_bwd"},
      {"void transformer_engine::detail::cast_transpose_fused_kernel<x>(P)", "quant_cast"},
      {"void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<x>(P)", "rmsnorm_fwd"},
      {"void transformer_engine::normalization::rmsnorm_bwd_finalize_tuned_kernel<x>(P)", "rmsnorm_bwd"},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(P)", "layernorm_fwd"},
      {"void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<float>(P)", "layernorm_bwd"},
      {"_per_token_group_quant_8bit_colmajor", "quant_cast"},
      {"triton_poi_fused_silu_mul_3", "swiglu"},
      {"triton_red_fused__to_copy_mean_mul_pow_rsqrt_1", "rmsnorm_fwd"},
      {"triton_poi_fused_add_0", "elementwise"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, A>(P)", "elementwise"},
      {"void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(T)>(P)", "copy"},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(P)", "copy"},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(P)", "reduce"},
      {"void at::native::index_elementwise_kernel<128, 4, x>(P)", "index"},
      {"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(P)", "router_topk"},
      {"void at::native::bitonicSortKVInPlace<2, -1, 16, 16>(P)", "sort"},
      {"void deep_ep::internode::dispatch<false, 4, false>(int4*)", "dispatch_kernel"},
      {"void deep_ep::internode::combine<4, __nv_bfloat16>(int4*)", "combine_kernel"},
      {"void deep_ep::internode::notify_dispatch<false, 4>(int const*)", "notify"},
      {"void deep_ep::internode::cached_notify<false>(int)", "notify"},
      {"void deep_ep::internode::get_dispatch_layout<256, 32, 8>(long const*)", "layout"},
      {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", "dispatch_kernel"},
      {"void hybrid_ep::combine_kernel<x>(P)", "combine_kernel"},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"},
      {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(P)", "reduce_scatter"},
      {"ncclDevKernel_SendRecv(P)", "send_receive"},
      {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "collective"},
      {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float> >(P)", "optimizer"},
      {"fused_rope_forward_kernel", "rotary"},
      {"void scaled_upper_triang_masked_softmax_warp_backward<bf16>(P)", "attn_bwd"},
      {"_permute_kernel", "permute"},
      {"void moe_unpermute_kernel<bf16>(P)", "permute"},
      {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>(P)", "loss"},
      {"liger_cross_entropy_kernel", "loss"},
      {"void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float>(P)", "embedding"},
      {"Memcpy HtoD (Pinned -> Device)", "memcpy_memset"},
  };
  for (const auto& [name, expected] : names) {
    const KernelClass* found = shipped_kernel_classes().find(name);
    EXPECT_EQ(found == nullptr ? "no class" : found->name, expected) << name;
  }
  EXPECT_EQ(shipped_kernel_classes().find("what nobody knows"), nullptr);
}

TEST(KernelClasses, EndlessNamesAreLookedAtFromTheirBeginning) {
  const std::string endless(1 << 20, 'a');
  EXPECT_EQ(shipped_kernel_classes().find(endless), nullptr);
  const KernelClass* found = shipped_kernel_classes().find("void deep_gemm::fp8_wgrad_gemm_kernel<" + endless);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "gemm_fp8_wgrad");
}

// A matcher that backtracks would try 2^1000 ways.
TEST(KernelClasses, NestedRepetitionsTakeNoLonger) {
  const tests::TemporaryDirectory folder;
  const auto classes = load_kernel_classes(
      folder.write("k.toml",
                   "rows = [\"r\"]\n[[class]]\nname = \"k\"\ncompare = \"r\"\npatterns = [\"(a+)+b\"]\n"
                   "[[phase]]\nphase = \"F\"\npatterns = [\"F\"]\n"));
  ASSERT_TRUE(classes) << to_string(classes.error());
  EXPECT_EQ(classes->find(std::string(1000, 'a')), nullptr);
  EXPECT_NE(classes->find(std::string(900, 'a') + "b"), nullptr);
}

TEST(KernelClasses, Annotations) {
  const auto says = [](const std::string& name) {
    const PhaseAnnotation* found = shipped_kernel_classes().annotation(name);
    return found == nullptr ? "" : found->phase + " " + found->section + (found->descending ? " descending" : "");
  };
  EXPECT_EQ(says("attn(F)"), "F attention");
  EXPECT_EQ(says("mlp(F)"), "F mlp");
  EXPECT_EQ(says("dispatch(F)"), "F dispatch");
  EXPECT_EQ(says("combine(F)"), "F combine");
  EXPECT_EQ(says("attn(B)"), "B attention descending");
  EXPECT_EQ(says("mlp(B)"), "B mlp descending");
  EXPECT_EQ(says("dispatch(B)"), "B dispatch descending");
  EXPECT_EQ(says("combine(B)"), "B combine descending");
  EXPECT_EQ(says("attn(W)"), "W attention descending");
  EXPECT_EQ(says("mlp(W)"), "W mlp descending");
  for (const char* name : {"forward", "## forward ##", "forward_step", "Forward 3", "0F1"}) EXPECT_EQ(says(name), "F ");
  for (const char* name : {"backward", "## backward ##", "backward_step", "Backward 3", "0B1"})
    EXPECT_EQ(says(name), "B ");
  for (const char* name :
       {"ProfilerStep#3", "1F1B", "FSDP::pre_forward", "Optimizer.step#AdamW.step", "nccl:all_reduce"})
    EXPECT_EQ(says(name), "") << name;
}

TEST(KernelClasses, WrongFilesAreRefusedWithTheLine) {
  const std::string rows = "rows = [\"GEMM\"]\n";
  const std::string phase = "[[phase]]\nphase = \"F\"\npatterns = [\"f\"]\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"rows = [", "k.toml:1"},
      {"row = 1\n", "k.toml:1: row: unknown key (did you mean 'rows'?"},
      {rows + phase, "class: expected a list of tables (write each as [[class]])"},
      {rows + "[[class]]\nname = \"a\"\ncompare = \"GEM\"\npatterns = [\"x\"]\n" + phase,
       "k.toml:2: class.compare: 'GEM' is not known (did you mean 'GEMM'?"},
      {rows + "[[class]]\nname = \"a\"\ncompare = \"GEMM\"\npatterns = [\"(x\"]\n" + phase,
       "k.toml:2: class.patterns: '(x' is no regular expression"},
      {rows + "[[class]]\nname = \"a\"\ncompare = \"GEMM\"\npatterns = []\n" + phase,
       "k.toml:2: class.patterns: expected a list of strings"},
      {rows + "[[class]]\nname = \"a\"\ncompare = \"GEMM\"\npatterns = [\"x\"]\n" +
           "[[class]]\nname = \"a\"\ncompare = \"GEMM\"\npatterns = [\"y\"]\n" + phase,
       "k.toml:6: class.name: 'a' appears twice"},
      {rows + "[[class]]\nname = \"a\"\ncompare = \"GEMM\"\npatterns = [\"x\"]\n[[phase]]\nphase = \"Q\"\npatterns = "
              "[\"f\"]\n",
       "k.toml:6: phase.phase: 'Q' is not known"},
  };
  const tests::TemporaryDirectory folder;
  for (const auto& [text, expected] : cases) {
    const auto classes = load_kernel_classes(folder.write("k.toml", text));
    ASSERT_FALSE(classes) << text;
    EXPECT_THAT(model::to_string(classes.error()), HasSubstr(expected));
  }
}

}  // namespace
}  // namespace plumbline::calibrate
