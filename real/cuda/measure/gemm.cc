// GEMMs of training, in BF16 and in FP8 with scales per tensor or per block; groups run one after the other.
#include <cublas_v2.h>

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "real/cuda/measure/detail/gemm_data.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/vendor/cublaslt.h"
#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {
namespace {

class Gemm : public Operation {
 public:
  explicit Gemm(const KernelCase& what) : data_(what) {}

  Status prepare(Toolbox& tools) override {
    if (!tools.cublaslt) return {"missing library: " + tools.cublaslt_error};
    workspace_ = tools.workspace.as<void>();
    PLUMBLINE_TRY(data_.allocate_and_fill(tools.stream));
    for (std::size_t group = 0; group < data_.groups(); ++group) PLUMBLINE_TRY(prepare_gemm(group, tools));
    return outcome(cudaStreamSynchronize(tools.stream), "preparing the GEMM");
  }

  Status run(cudaStream_t stream) override {
    for (std::size_t group = 0; group < data_.groups(); ++group)
      PLUMBLINE_TRY(gemm_of_[group]->run(data_.operands(group), workspace_, stream));
    return {};
  }

  Status check(Toolbox& tools, CheckOutcome& result) override {
    return data_.check([this](cudaStream_t stream) { return run(stream); }, tools, result);
  }

  // Returns the algorithm of the first group, which is the largest.
  std::string algorithm() const override { return gemm_of_.front()->algorithm(); }

 private:
  // Groups of the same shape share a plan.
  Status prepare_gemm(std::size_t group, Toolbox& tools) {
    const GemmShape& shape = data_.shape(group);
    for (std::size_t other = 0; other < group; ++other) {
      if (data_.shape(other).m != shape.m || data_.shape(other).k != shape.k) continue;
      gemm_of_.push_back(gemm_of_[other]);
      return {};
    }
    const auto gemm = std::make_shared<GemmPlan>(*tools.cublaslt);
    PLUMBLINE_TRY(gemm->prepare(shape, data_.operands(group), tools.workspace.bytes()));
    gemm_of_.push_back(gemm);
    return find_working_algorithm(*gemm, group, tools.stream);
  }

  // The library proposes algorithms in order of expected speed; those that refuse to run are skipped.
  Status find_working_algorithm(GemmPlan& gemm, std::size_t group, cudaStream_t stream) {
    const GemmOperands operands = data_.operands(group);
    Status attempt = gemm.run(operands, workspace_, stream);
    while (!attempt.ok() && gemm.try_next()) attempt = gemm.run(operands, workspace_, stream);
    return attempt;
  }

  GemmData data_;
  void* workspace_ = nullptr;
  std::vector<std::shared_ptr<GemmPlan>> gemm_of_;  // per group
};

// The functions in use.
#define GROUPED_FUNCTIONS(DO)              \
  DO(create, cublasCreate_v2)              \
  DO(destroy, cublasDestroy_v2)            \
  DO(version, cublasGetVersion_v2)         \
  DO(set_stream, cublasSetStream_v2)       \
  DO(set_workspace, cublasSetWorkspace_v2) \
  DO(status_string, cublasGetStatusString) \
  DO(grouped, cublasGemmGroupedBatchedEx)

struct Cublas {
  std::shared_ptr<Library> library;
  cublasHandle_t handle = nullptr;
  GROUPED_FUNCTIONS(PLUMBLINE_FUNCTION_MEMBER)

  Cublas() = default;
  ~Cublas() {
    if (handle != nullptr) destroy(handle);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  Status open(const std::vector<std::string>& folders) {
    std::string error;
    library = Library::open(known_library("cuBLAS"), folders, error);
    if (!library) return {"missing library: " + error};
#define LOAD(member, name) library->load(member, #name, error);
    GROUPED_FUNCTIONS(LOAD)
#undef LOAD
    if (!error.empty()) return {error};
    return outcome(create(&handle), "cublasCreate");
  }
  Status outcome(cublasStatus_t status, const char* doing) const {
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    return {std::string(doing) + " failed: " + status_string(status)};
  }
};

// All groups' GEMMs in one call of cuBLAS, in BF16: cublasGemmGroupedBatchedEx.
// Row-major D[m,n] = X W is computed in columns: n x m = W (transposed if k is contiguous) times X. Each group has one
// GEMM and its own rows.
class GroupedGemm : public Operation {
 public:
  explicit GroupedGemm(const KernelCase& what) : data_(what) {}

  Status prepare(Toolbox& tools) override {
    PLUMBLINE_TRY(cublas_.open(tools.folders));
    workspace_ = tools.workspace.as<void>();
    workspace_bytes_ = static_cast<std::size_t>(tools.workspace.bytes());
    PLUMBLINE_TRY(data_.allocate_and_fill(tools.stream));
    for (std::size_t group = 0; group < data_.groups(); ++group) describe(group);
    PLUMBLINE_TRY(copy_pointers(tools.stream));
    return outcome(cudaStreamSynchronize(tools.stream), "preparing the GEMMs");
  }

  Status run(cudaStream_t stream) override {
    // The stream is set first, because that resets the workspace.
    PLUMBLINE_TRY(cublas_.outcome(cublas_.set_stream(cublas_.handle, stream), "cublasSetStream"));
    PLUMBLINE_TRY(
        cublas_.outcome(cublas_.set_workspace(cublas_.handle, workspace_, workspace_bytes_), "cublasSetWorkspace"));
    auto* pointers = pointers_.as<void*>();
    const std::size_t groups = data_.groups();
    return cublas_.outcome(
        cublas_.grouped(cublas_.handle, w_form_.data(), x_form_.data(), n_.data(), m_.data(), k_.data(), one_.data(),
                        pointers, CUDA_R_16BF, w_stride_.data(), pointers + groups, CUDA_R_16BF, k_.data(),
                        zero_.data(), pointers + 2 * groups, CUDA_R_16BF, n_.data(), static_cast<int>(groups),
                        size_.data(), CUBLAS_COMPUTE_32F),
        "cublasGemmGroupedBatchedEx");
  }

  Status check(Toolbox& tools, CheckOutcome& result) override {
    return data_.check([this](cudaStream_t stream) { return run(stream); }, tools, result);
  }

  std::string algorithm() const override {
    int version = 0;
    cublas_.version(cublas_.handle, &version);
    return nlohmann::ordered_json{
        {"library", "cublas"}, {"version", version}, {"function", "cublasGemmGroupedBatchedEx"}}
        .dump();
  }

 private:
  void describe(std::size_t group) {
    const GemmShape& shape = data_.shape(group);
    m_.push_back(static_cast<int>(shape.m));
    n_.push_back(static_cast<int>(shape.n));
    k_.push_back(static_cast<int>(shape.k));
    w_form_.push_back(shape.w_k_contiguous ? CUBLAS_OP_T : CUBLAS_OP_N);
    x_form_.push_back(CUBLAS_OP_N);
    w_stride_.push_back(static_cast<int>(shape.w_k_contiguous ? shape.k : shape.n));
    one_.push_back(1.0f);
    zero_.push_back(0.0f);
    size_.push_back(1);
  }

  // The library reads the operands' addresses from device memory: first those of W, then X, then D.
  Status copy_pointers(cudaStream_t stream) {
    const std::size_t groups = data_.groups();
    std::vector<const void*> host(3 * groups);
    for (std::size_t group = 0; group < groups; ++group) {
      const GemmOperands operands = data_.operands(group);
      host[group] = operands.w;
      host[groups + group] = operands.x;
      host[2 * groups + group] = operands.d;
    }
    const std::size_t bytes = host.size() * sizeof(void*);
    PLUMBLINE_TRY(pointers_.allocate(static_cast<std::int64_t>(bytes)));
    PLUMBLINE_TRY(outcome(cudaMemcpyAsync(pointers_.as<void>(), host.data(), bytes, cudaMemcpyHostToDevice, stream),
                          "copying the operands' addresses"));
    return outcome(cudaStreamSynchronize(stream), "copying the operands' addresses");
  }

  GemmData data_;
  Cublas cublas_;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  DeviceMemory pointers_;
  std::vector<cublasOperation_t> w_form_, x_form_;
  std::vector<int> m_, n_, k_, w_stride_, size_;
  std::vector<float> one_, zero_;
};

}  // namespace

std::unique_ptr<Operation> make_gemm(const KernelCase& what) {
  if (what.implementation == "grouped") return std::make_unique<GroupedGemm>(what);
  return std::make_unique<Gemm>(what);
}

}  // namespace plumbline::real::cuda
