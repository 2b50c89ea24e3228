// Training steps as PyTorch-profiler traces: kernels as a rank launches them, with what each of them is.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kineto/import.h"
#include "tests/support/kineto_trace.h"

namespace plumbline::tests {

// Writes kernels one after the other, with a launch ahead of each, and records their phase and layer.
class KinetoStep {
 public:
  struct Expected {
    std::string phase;
    int layer = -1;
    double us = 0;
  };

  // Names of the kernels of a layer: in front of the attention and behind it.
  using Kernels = std::vector<std::pair<std::string, double>>;
  Kernels forward_before = {{"void rms_norm_fwd_kernel<x>(P)", 20}, {gemm, 300}, {"fused_rope_forward_kernel", 15}};
  Kernels forward_behind = {
      {gemm, 120}, {add, 12}, {"void rms_norm_fwd_kernel<x>(P)", 20}, {gemm, 600}, {"_swiglu_forward_kernel", 40},
      {gemm, 310}, {add, 12}};
  Kernels backward_before = {{gemm, 300}, {gemm, 310}, {"_swiglu_backward_kernel", 60},
                             {gemm, 600}, {gemm, 610}, {"_rms_norm_backward_kernel", 30},
                             {add, 12},   {gemm, 120}, {gemm, 125}};
  Kernels backward_behind = {
      {"fused_rope_backward_kernel", 15}, {gemm, 300}, {gemm, 305}, {"_rms_norm_backward_kernel", 30}, {add, 12}};

  // Adds a kernel on the main stream; without an expectation it does not count.
  KinetoStep& kernel(const std::string& name, double us, const std::string& phase = "", int layer = -1,
                     int stream = 7) {
    ++correlation_;
    trace.launch(correlation_, text(launch_us_), thread);
    trace.kernel(name, stream, text(now_us_), text(us), correlation_);
    expected.push_back({phase, layer, us});
    now_us_ += us + 2;
    launch_us_ += 5;
    return *this;
  }
  KinetoStep& forward(int layer) {
    add_all(forward_before, "F", layer);
    kernel(attention, 200, "F", layer);
    return add_all(forward_behind, "F", layer);
  }
  KinetoStep& backward(int layer) {
    add_all(backward_before, "B", layer);
    add_all(attention_backward, "B", layer);
    return add_all(backward_behind, "B", layer);
  }
  // Adds a pass through all layers, with embedding and loss on a stage that has them.
  KinetoStep& forward_pass(int layers, bool first, bool last) {
    if (first) kernel("void at::native::(anonymous namespace)::indexSelectLargeIndex<x>(P)", 20, "F", -1);
    for (int layer = 0; layer < layers; ++layer) forward(layer);
    if (last) {
      kernel("void rms_norm_fwd_kernel<x>(P)", 20, "F", -1).kernel(gemm, 800, "F", -1);
      kernel("liger_cross_entropy_kernel", 90, "F", -1);
    }
    return *this;
  }
  KinetoStep& backward_pass(int layers, bool first, bool last) {
    if (last) kernel(gemm, 800, "B", -1).kernel(gemm, 810, "B", -1).kernel("_rms_norm_backward_kernel", 30, "B", -1);
    for (int layer = layers - 1; layer >= 0; --layer) backward(layer);
    if (first) kernel("void at::native::(anonymous namespace)::embedding_backward_feature_kernel<x>(P)", 25);
    return *this;
  }
  KinetoStep& optimizer() {
    for (int i = 0; i < 4; ++i)
      kernel("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float> >(P)", 300);
    return *this;
  }
  // Leaves the host late, or the stream without work.
  KinetoStep& pause(double us) {
    now_us_ += us;
    return *this;
  }
  KinetoStep& host_to_now() {
    launch_us_ = now_us_;
    return *this;
  }
  double now_us() const { return now_us_; }
  double launch_us() const { return launch_us_; }

  static std::string text(double us) { return std::to_string(us); }

  KinetoTrace trace;
  std::vector<Expected> expected;  // of each kernel in order
  int thread = 1;
  Kernels attention_backward = {{"void flash_bwd_dot_do_o_kernel<true, T>(P)", 20},
                                {"void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<T>(P)", 500}};
  std::string attention = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128> >(P)";

 private:
  static constexpr const char* gemm = "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN";
  static constexpr const char* add = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<x> >(P)";

  KinetoStep& add_all(const Kernels& kernels, const std::string& phase, int layer) {
    for (const auto& [name, us] : kernels) kernel(name, us, phase, layer);
    return *this;
  }

  double now_us_ = 1000, launch_us_ = 10;
  int correlation_ = 0;
};

// The shares of the time of kernels with an expected phase that have it and its layer, and that have another.
struct Matched {
  double right = 0, wrong = 0;
};

inline Matched matched(const KinetoStep& step, const calibrate::ImportedChunk& imported) {
  const auto spans = calibrate::kernel_spans(imported.timeline);
  EXPECT_EQ(spans.size(), step.expected.size());
  Matched result;
  double all = 0;
  for (std::size_t i = 0; i < std::min(spans.size(), step.expected.size()); ++i) {
    const KinetoStep::Expected& wanted = step.expected[i];
    const model::Kernel& kernel = imported.timeline.kernels[i];
    if (wanted.phase.empty()) continue;
    all += wanted.us;
    const bool right = kernel.phase == wanted.phase && spans[i]->layer == wanted.layer;
    const bool wrong = (!kernel.phase.empty() && kernel.phase != wanted.phase) ||
                       (spans[i]->layer >= 0 && spans[i]->layer != wanted.layer);
    result.right += right ? wanted.us : 0;
    result.wrong += wrong ? wanted.us : 0;
  }
  return {result.right / all, result.wrong / all};
}

}  // namespace plumbline::tests
