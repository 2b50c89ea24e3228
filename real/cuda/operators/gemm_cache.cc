#include "real/cuda/operators/gemm_cache.h"

#include <map>
#include <tuple>

namespace plumbline::real::cuda {
namespace {

// One line per field of GemmShape.
auto key_of(const GemmShape& s) {
  return std::make_tuple(s.m, s.n, s.k, s.operand, s.result, s.x_k_contiguous, s.w_k_contiguous, s.accumulate,
                         s.fast_accumulation, s.tf32, s.bias, s.target_sms, s.alignment, s.x_scale, s.w_scale,
                         s.x_stride, s.w_stride, s.d_stride, s.batch, s.x_batch_stride, s.w_batch_stride,
                         s.d_batch_stride, s.routed);
}

// Routed shapes may be unlimited: the cache is cleared at this size.
constexpr std::size_t most_gemms = 4096;

}  // namespace

struct GemmCache::Entries {
  struct Entry {
    std::unique_ptr<GemmPlan> gemm;
    Status why;  // the reason if there is no plan
  };
  std::map<decltype(key_of({})), Entry> gemms;
};

GemmCache::GemmCache(const CublasLt& library) : library_(library), entries_(std::make_unique<Entries>()) {}
GemmCache::~GemmCache() = default;

GemmPlan* GemmCache::find(const GemmShape& shape, const GemmOperands& operands, Status& why) {
  auto& gemms = entries_->gemms;
  const auto key = key_of(shape);
  auto at = gemms.find(key);
  if (at == gemms.end()) {
    if (gemms.size() >= most_gemms) gemms.clear();
    at = gemms.emplace(key, Entries::Entry{std::make_unique<GemmPlan>(library_), {}}).first;
    at->second.why = at->second.gemm->prepare(shape, operands, gemm_workspace_bytes);
  }
  why = at->second.why;
  return why.ok() ? at->second.gemm.get() : nullptr;
}

bool GemmCache::has(const GemmShape& shape, const GemmOperands& operands, Status& why) {
  if (find(usual_shape(shape), operands, why) != nullptr) return true;
  return shape.routed != Routed::none && find(exact_shape(shape), operands, why) != nullptr;
}

Status GemmCache::run(const GemmShape& shape, const GemmOperands& operands, void* workspace, cudaStream_t stream) {
  Status attempt;
  if (shape.routed != Routed::none) {
    if (GemmPlan* const usual = find(usual_shape(shape), operands, attempt)) {
      PLUMBLINE_TRY(usual->resize(shape));
      if ((attempt = usual->run(operands, workspace, stream)).ok()) return attempt;
    }
  }
  GemmPlan* const gemm = find(exact_shape(shape), operands, attempt);
  if (gemm == nullptr) return attempt;
  attempt = gemm->run(operands, workspace, stream);
  while (!attempt.ok() && gemm->try_next()) attempt = gemm->run(operands, workspace, stream);
  return attempt;
}

}  // namespace plumbline::real::cuda
