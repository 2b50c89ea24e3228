// Prepared products of cuBLASLt by shape: describing one and asking for its algorithm takes longer than a small product
// runs, so it is done once, and a launch costs a lookup. Products of rows that routing decides share the algorithm of
// their usual shape. Not for several threads at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {

// Of every product, at the end of its stream's scratch memory: what NVIDIA recommends for Hopper is 32 MiB; twice that
// lets products that split k find their algorithms too (assumed).
constexpr std::int64_t gemm_workspace_bytes = std::int64_t{64} << 20;

class GemmCache {
 public:
  explicit GemmCache(const CublasLt& library);
  ~GemmCache();
  GemmCache(const GemmCache&) = delete;
  GemmCache& operator=(const GemmCache&) = delete;

  // Whether the library has a product of that shape; `operands` only tell where scales lie. If not, `why` is its word.
  bool has(const GemmShape& shape, const GemmOperands& operands, Status& why);
  // Enqueues one that it has. An algorithm that refuses to run is replaced by the library's next proposal, for good.
  Status run(const GemmShape& shape, const GemmOperands& operands, void* workspace, cudaStream_t stream);

 private:
  struct Entries;
  // nullptr: the library has none.
  GemmPlan* find(const GemmShape& shape, const GemmOperands& operands, Status& why);
  const CublasLt& library_;
  std::unique_ptr<Entries> entries_;
};

std::unique_ptr<GemmCache> make_gemm_cache(const CublasLt& library);

}  // namespace plumbline::real::cuda
