#include "cli/import/gpu_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/inputs_reader.h"
#include "topologies/topology.h"

namespace plumbline::cli {

std::vector<KernelChange> take_gpu_kernels(const model::Device& device, const std::vector<std::string>& overrides,
                                           model::Plan& plan) {
  const auto is_open = [&overrides](std::string_view key) {
    return std::ranges::none_of(overrides, [key](const std::string& text) {
      return text.starts_with(key) && text.size() > key.size() && text[key.size()] == '=';
    });
  };
  std::vector<KernelChange> changes;
  const bool has_cudnn = !lacks(device, "cudnn");
  if (plan.attention.kernel == "fused" && !has_cudnn && lacks(device, "flash2") && is_open("attention.kernel")) {
    plan.attention.kernel = "unfused";
    changes.push_back({"attention.kernel=\"unfused\"",
                       fmt::format("{} runs neither FlashAttention nor cuDNN's attention: attention.kernel = "
                                   "\"unfused\"",
                                   device.name)});
  }
  // From compute capability 10 on cuBLASLt has no GEMM with one scale for a block of 128; Transformer Engine spreads
  // its scales over blocks of 32 and runs the GEMM of MXFP8 (transformer_engine/pytorch/csrc/extensions/gemm.cpp:
  // fp8_block_scaling && sm_arch() >= 100, since pull request 2157). GPUs with cuDNN are NVIDIA's.
  const bool blackwell = has_cudnn && has_format(device, model::Precision::mxfp8);
  if (plan.precision.gemm == model::Precision::fp8 && blackwell && is_open("precision.gemm")) {
    plan.precision.gemm = model::Precision::mxfp8;
    changes.push_back({"precision.gemm=\"mxfp8\"",
                       fmt::format("Transformer Engine runs GEMMs of the recipe blockwise as MXFP8 on {}: "
                                   "precision.gemm = \"mxfp8\"",
                                   device.name)});
  }
  return changes;
}

std::vector<KernelChange> take_gpu_kernels(const std::vector<std::string>& overrides, model::Plan& plan) {
  const auto topology = find_topology(plan.cluster.topology, topologies::variation_of(plan));
  if (!topology) return {};
  return take_gpu_kernels(topology->cluster.device, overrides, plan);
}

}  // namespace plumbline::cli
