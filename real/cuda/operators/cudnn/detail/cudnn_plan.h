// From a graph of cuDNN to something that runs: engine configurations that the library's heuristics propose, and a
// plan of the first that can be built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "real/cuda/operators/cudnn/cudnn_graph.h"

namespace plumbline::real::cuda {

// For whom the heuristics answer: the device of a handle, or, without one, a device as JSON describes it.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::string device;
};

using EngineConfigs = std::vector<std::unique_ptr<CudnnDescriptor>>;

// What the library proposes, best first. A failure where it proposes none.
Status find_engines(const Cudnn& cudnn, const CudnnGraph& graph, const CudnnTarget& target, EngineConfigs& found);

class CudnnPlan {
 public:
  explicit CudnnPlan(const Cudnn& cudnn) : cudnn_(cudnn), graph_(cudnn) {}

  // To be described before build().
  CudnnGraph& graph() { return graph_; }
  Status build(const CudnnTarget& target);
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues it on the handle's stream. `tensors`: id and address of each, numbers by value in host memory.
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
