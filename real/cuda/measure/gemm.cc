// GEMMs of training, in BF16 and in FP8 with scales per tensor or per block; groups run one after the other.
#include <cstddef>
#include <memory>
#include <vector>

#include "real/cuda/measure/gemm_data.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/vendor/cublaslt.h"

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

}  // namespace

std::unique_ptr<Operation> make_gemm(const KernelCase& what) {
  if (what.implementation == "grouped") return make_grouped_gemm(what);
  return std::make_unique<Gemm>(what);
}

}  // namespace plumbline::real::cuda
