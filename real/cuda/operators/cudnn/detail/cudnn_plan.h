// Turns a cuDNN graph into an executable plan: the library's heuristics propose engine configurations, and the first
// that builds is used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "real/cuda/operators/cudnn/cudnn_graph.h"

namespace plumbline::real::cuda {

// The device for which the heuristics propose engines: that of a handle, or, without one, a device described in JSON.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::string device;
};

using EngineConfigs = std::vector<std::unique_ptr<CudnnDescriptor>>;

// Returns the library's proposals, best first; a failure if there are none.
Status find_engines(const Cudnn& cudnn, const CudnnGraph& graph, const CudnnTarget& target, EngineConfigs& found);

class CudnnPlan {
 public:
  explicit CudnnPlan(const Cudnn& cudnn) : cudnn_(cudnn), graph_(cudnn) {}

  // The graph, which is described before build().
  CudnnGraph& graph() { return graph_; }
  Status build(const CudnnTarget& target);
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues the plan on the handle's stream. `tensors` has the id and address of each; numbers by value lie in host
  // memory.
  Status run(cudnnHandle_t handle, const std::vector<std::pair<std::int64_t, void*>>& tensors, void* workspace) const;

 private:
  Status take(CudnnDescriptor& config, cudnnHandle_t handle);

  const Cudnn& cudnn_;
  CudnnGraph graph_;
  EngineConfigs engines_;
  std::unique_ptr<CudnnDescriptor> plan_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace plumbline::real::cuda
