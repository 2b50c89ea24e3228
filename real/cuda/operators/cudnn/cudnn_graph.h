// A graph of cuDNN's backend, built operation by operation. The first failure is kept: later calls do nothing, and
// finish() returns it, so that callers need no checks between operations.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "real/cuda/vendor/cudnn_library.h"

namespace plumbline::real::cuda {

class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  template <typename Value>
  void set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, const Value& value) {
    set_array(attribute, type, 1, &value);
  }
  void set_array(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, std::int64_t count,
                 const void* values);
  void set_descriptor(cudnnBackendAttributeName_t attribute, cudnnBackendDescriptor_t descriptor) {
    set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, descriptor);
  }
  Status finalize();  // returns the first failure of all calls
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  const Cudnn& cudnn_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  Status status_;
};

using Extents = std::array<std::int64_t, 4>;  // sequences, heads, rows, columns

struct CudnnTensor {
  Extents shape{}, strides{};  // of elements
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::int64_t id = 0;  // of a tensor in memory; 0: it exists within the graph only
  bool by_value = false;
  bool reordered = false;  // in the order in which cuDNN accumulates gradients of queries (F16x16)
};
Extents dense_strides(const Extents& shape);

class CudnnGraph {
 public:
  using Tensor = cudnnBackendDescriptor_t;

  explicit CudnnGraph(const Cudnn& cudnn) : cudnn_(cudnn) {}

  Tensor tensor(const CudnnTensor& description);
  // Adds a dense tensor within the graph, FP32 by default.
  Tensor inner(const Extents& shape, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  // Adds a number that the caller of the graph passes by value.
  Tensor number(std::int64_t id);

  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y);  // b: nullptr for functions of x
  void index(Tensor x, std::int64_t axis, Tensor y);
  void at_least(Tensor x, Tensor b, Tensor y);                   // y: x >= b, boolean
  void select(Tensor x, Tensor other, Tensor chosen, Tensor y);  // x where chosen
  void matmul(Tensor a, Tensor b, Tensor c);
  void reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y);
  void reshape(Tensor x, Tensor y);

  // Finalizes the graph; `handle` may be null if no device is used.
  Status finish(cudnnHandle_t handle);
  cudnnBackendDescriptor_t get() const { return graph_ ? graph_->get() : nullptr; }

 private:
  CudnnDescriptor& add(cudnnBackendDescriptorType_t type);
  Tensor finalize(CudnnDescriptor& descriptor);
  void operation(CudnnDescriptor& descriptor);
  void pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision, std::int64_t axis,
                 const std::array<Tensor, 4>& x_b_t_y);

  const Cudnn& cudnn_;
  Status status_;
  std::vector<std::unique_ptr<CudnnDescriptor>> held_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::unique_ptr<CudnnDescriptor> graph_;
};

// The device for which the heuristics propose engines: that of a handle, or, without one, a device described in JSON.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::string device;
};

using EngineConfigs = std::vector<std::unique_ptr<CudnnDescriptor>>;

// Returns the library's proposals, best first; a failure if there are none.
Status find_engines(const Cudnn& cudnn, const CudnnGraph& graph, const CudnnTarget& target, EngineConfigs& found);

// Turns a cuDNN graph into an executable plan: the library's heuristics propose engine configurations, and the first
// that builds is used.
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
