// Causal attention through cuDNN's graphs, opened at run time. If the library or a plan for a shape is missing, the
// kernels of real/cuda/kernels/attention/attention.h compute it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "real/cuda/status.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// A plan uses the whole GPU: cuDNN 9.19 has no attention engine with an SM count target.
//
// Queries, keys, values and outputs lie as [sequences * length, heads * dim], log-sum-exp as [sequences * length, query
// heads]. Query head h reads key-value head h / (query_heads / key_value_heads).
struct AttentionShape {
  bool backward = false;
  Format format = Format::bf16;  // or fp16
  std::int64_t sequences = 0, length = 0, query_heads = 0, key_value_heads = 0, query_key_dim = 0, value_dim = 0;
};

// Device pointers; the forward pass uses only those up to log_sum_exp.
struct AttentionOperands {
  void* q = nullptr;
  void* k = nullptr;
  void* v = nullptr;
  void* o = nullptr;
  void* log_sum_exp = nullptr;
  void* d_o = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
};

class AttentionPlan;

class Attention {
 public:
  virtual ~Attention() = default;

  // Returns the plan of a shape, made at the first request; nullptr if the library has none, with the reason in why().
  virtual AttentionPlan* plan(const AttentionShape& shape) = 0;
  virtual const std::string& why() const = 0;
  // Bytes of scratch memory, 256-byte aligned, that run() needs.
  virtual std::int64_t workspace_bytes(const AttentionPlan& plan) const = 0;
  virtual Status run(const AttentionPlan& plan, const AttentionOperands& operands, void* workspace,
                     cudaStream_t stream) = 0;
  // The version and file of the library, for display: "cuDNN 9.19.0" and its path.
  virtual std::string version() const = 0;
};

// Opens the newest cuDNN in these folders, with a handle on the current device. Returns nullptr if there is none, with
// the reason in `error`.
std::unique_ptr<Attention> open_attention(const std::vector<std::string>& folders, std::string& error);

}  // namespace plumbline::real::cuda
