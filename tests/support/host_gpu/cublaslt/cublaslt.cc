// A library in place of cuBLASLt, with one algorithm for every supported GEMM. It computes on the stream through the
// runtime's cudaLaunchHostFunc, which the program that opens it must have.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>

#include "tests/support/host_gpu/cublaslt/gemms.h"

struct cublasLtContext {};

namespace plumbline::tests::host_gpu {
namespace {

constexpr std::uint64_t workspace_alignment = 256, largest_workspace = 64 << 10;  // bytes
constexpr int poison = 0xff;

// The problem for which an algorithm was proposed.
struct Promise {
  std::uint64_t alignment, workspace_bytes;

  explicit Promise(const Preference& p)
      : alignment(std::min({p.a_alignment, p.b_alignment, p.c_alignment, p.d_alignment})),
        workspace_bytes(std::min(p.workspace_bytes, largest_workspace)) {}
  explicit Promise(const cublasLtMatmulAlgo_t& algorithm)
      : alignment(algorithm.data[0]), workspace_bytes(algorithm.data[1]) {}
  cublasLtMatmulAlgo_t algorithm() const { return {{alignment, workspace_bytes}}; }
};

// A GEMM that waits on its stream.
struct Launch {
  Gemms gemms;
  Operands operands;
  void* workspace;
  std::uint64_t workspace_bytes;
};

// A launch that was captured in a graph runs each time the graph is launched, so all are kept until the process ends.
Launch* keep(const Launch& launch) {
  static std::mutex mutex;
  static std::deque<Launch> launches;
  const std::scoped_lock lock(mutex);
  return &launches.emplace_back(launch);
}

// The workspace is overwritten: its contents do not survive a launch.
void run(void* data) {
  const auto* launch = static_cast<const Launch*>(data);
  if (launch->workspace_bytes > 0) std::memset(launch->workspace, poison, launch->workspace_bytes);
  compute(launch->gemms, launch->operands);
}

bool is_aligned(const void* data, std::uint64_t alignment) {
  return data != nullptr && reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

bool are_kept(const Promise& promise, const Operands& o, const void* workspace, std::uint64_t workspace_bytes) {
  const auto operands = {o.a, o.b, o.c, static_cast<const void*>(o.d)};
  const bool aligned =
      std::ranges::all_of(operands, [&](const void* data) { return is_aligned(data, promise.alignment); });
  const bool enough = workspace_bytes >= promise.workspace_bytes && is_aligned(workspace, workspace_alignment);
  return aligned && (enough || promise.workspace_bytes == 0);
}

bool has_all_pointers(const Operation& operation) {
  const auto given = [](const Scales& scales) {
    return scales.values != nullptr || scales.mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  };
  return given(operation.a_scales) && given(operation.b_scales) &&
         (operation.bias != nullptr || operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT);
}

}  // namespace

}  // namespace plumbline::tests::host_gpu

using namespace plumbline::tests::host_gpu;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "no error";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "a value is not valid";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
    default:
      return "an error";
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  *count = 0;
  if (most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = check({behind(operation), behind(a), behind(b), behind(c), behind(d)});
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Promise promise(behind(preference));
  found[0] = {};
  found[0].algo = promise.algorithm();
  found[0].workspaceSize = promise.workspace_bytes;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* /*algorithm*/,
                                                    cublasLtMatmulAlgoConfigAttributes_t /*attribute*/, void* to,
                                                    size_t bytes, size_t* written) {
  std::memset(to, 0, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  if (algorithm == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Gemms gemms{behind(operation), behind(a_layout), behind(b_layout), behind(c_layout), behind(d_layout)};
  if (const cublasStatus_t status = check(gemms); status != CUBLAS_STATUS_SUCCESS) return status;
  const Operands operands{a, b, c, d, *static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  const Promise promise(*algorithm);
  if (!has_all_pointers(gemms.operation) || !are_kept(promise, operands, workspace, workspace_bytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  cudaLaunchHostFunc(stream, run, keep({gemms, operands, workspace, promise.workspace_bytes}));
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
