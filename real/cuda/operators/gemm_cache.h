// cuBLASLt GEMM plans, cached by shape. Making one takes longer than a small GEMM runs, so it is done once, and a
// launch costs a lookup. GEMMs whose rows routing decides share the algorithm of their usual shape. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {

// The workspace of every GEMM, at the end of its stream's scratch memory. NVIDIA recommends 32 MiB for Hopper; twice
// that also serves algorithms that split k (assumed).
constexpr std::int64_t gemm_workspace_bytes = std::int64_t{64} << 20;

class GemmCache {
 public:
  explicit GemmCache(const CublasLt& library);
  ~GemmCache();
  GemmCache(const GemmCache&) = delete;
  GemmCache& operator=(const GemmCache&) = delete;

  // Returns whether the library has a GEMM of that shape; if not, `why` has the reason. Only the scales of `operands`
  // are used.
  bool has(const GemmShape& shape, const GemmOperands& operands, Status& why);
  // Enqueues a GEMM for which has() is true. An algorithm that refuses to run is replaced for good by the library's
  // next proposal.
  Status run(const GemmShape& shape, const GemmOperands& operands, void* workspace, cudaStream_t stream);

 private:
  struct Entries;
  // Returns nullptr if the library has none.
  GemmPlan* find(const GemmShape& shape, const GemmOperands& operands, Status& why);
  const CublasLt& library_;
  std::unique_ptr<Entries> entries_;
};

}  // namespace plumbline::real::cuda
