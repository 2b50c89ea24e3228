#include "cli/import/gpu_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/inputs_reader.h"
#include "topologies/topology.h"

namespace plumbline::cli {

std::vector<KernelChange> take_gpu_kernels(const model::Device& device, const std::vector<std::string>& overrides,
                                           model::Plan& plan) {
  std::vector<KernelChange> changes;
  const bool asked =
      std::ranges::any_of(overrides, [](const std::string& text) { return text.starts_with("attention.kernel="); });
  if (plan.attention.kernel == "fused" && lacks(device, "cudnn") && lacks(device, "flash2") && !asked) {
    plan.attention.kernel = "unfused";
    changes.push_back({"attention.kernel=\"unfused\"",
                       fmt::format("{} runs neither FlashAttention nor cuDNN's attention: attention.kernel = "
                                   "\"unfused\"",
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
