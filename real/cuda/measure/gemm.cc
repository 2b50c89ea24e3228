// GEMMs of training, in BF16 and in FP8 with scales per tensor or per block; groups run one after the other.
#include <cublas_v2.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/toolbox.h"
#include "real/cuda/measure/transfer.h"
#include "real/cuda/memory.h"
#include "real/cuda/vendor/cublaslt.h"
#include "real/cuda/vendor/library_search.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "real/measure/runner.h"

namespace plumbline::real::cuda {
namespace {

constexpr int sampled_per_side = 12;
constexpr std::uint64_t seed_rows = 11, seed_columns = 12;

// A sample of a GEMM's entries, recomputed in double precision on the host: sampled rows times sampled columns of D,
// corners included.
class GemmSample {
 public:
  GemmSample(const GemmShape& shape, const GemmOperands& operands)
      : shape_(shape),
        operands_(operands),
        rows_(sampled_indices(shape.m, sampled_per_side, seed_rows)),
        columns_(sampled_indices(shape.n, sampled_per_side, seed_columns)) {}

  // Stores the entries of an accumulating GEMM before it runs.
  Status before() {
    start_.assign(rows_.size(), std::vector<double>(columns_.size(), 0.0));
    if (!shape_.accumulate) return {};
    for (std::size_t r = 0; r < rows_.size(); ++r) PLUMBLINE_TRY(result_row(rows_[r], start_[r]));
    return {};
  }

  // Compares the entries with X W plus what was there before.
  Status after(Comparison& comparison) const {
    std::vector<std::vector<double>> w(columns_.size());
    for (std::size_t c = 0; c < columns_.size(); ++c) PLUMBLINE_TRY(operand_row(false, columns_[c], w[c]));
    std::vector<double> x, got;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      PLUMBLINE_TRY(operand_row(true, rows_[r], x));
      PLUMBLINE_TRY(result_row(rows_[r], got));
      for (std::size_t c = 0; c < columns_.size(); ++c)
        comparison.add(got[c], std::inner_product(x.begin(), x.end(), w[c].begin(), start_[r][c]));
    }
    return {};
  }

 private:
  // Returns row `index` of an operand as true values, with its scales applied.
  Status operand_row(bool of_x, std::int64_t index, std::vector<double>& values) const {
    const void* data = of_x ? operands_.x : operands_.w;
    const bool contiguous = of_x ? shape_.x_k_contiguous : shape_.w_k_contiguous;
    const std::int64_t extent = of_x ? shape_.m : shape_.n;
    const std::int64_t first = contiguous ? index * shape_.k : index;
    const std::int64_t stride = contiguous ? 1 : extent;
    PLUMBLINE_TRY(shape_.operand == CUDA_R_16BF
                      ? fetch_numbers<Bf16>(data, first, shape_.k, stride, bf16_to_float, values)
                      : fetch_numbers<Fp8>(data, first, shape_.k, stride, fp8_to_float, values));
    return apply_scales(of_x, index, values);
  }

  Status apply_scales(bool of_x, std::int64_t index, std::vector<double>& values) const {
    const ScaleMode mode = of_x ? shape_.x_scale : shape_.w_scale;
    const float* scales = of_x ? operands_.x_scales : operands_.w_scales;
    const std::int64_t extent = of_x ? shape_.m : shape_.n;
    if (mode == ScaleMode::none) return {};
    const std::int64_t blocks = mode == ScaleMode::tensor ? 1 : tiles_of(shape_.k);
    std::int64_t first = 0, stride = 1;
    if (mode == ScaleMode::row_blocks) {
      first = row_scale_index(index, 0, extent);
      stride = row_scale_index(index, 1, extent) - first;
    } else if (mode == ScaleMode::square_blocks) {
      first = square_scale_index(index, 0, shape_.k);
    }
    std::vector<float> fetched;
    PLUMBLINE_TRY(fetch_strided(scales + first, blocks, stride, fetched));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] *= fetched[mode == ScaleMode::tensor ? 0 : i / static_cast<std::size_t>(scale_tile)];
    return {};
  }

  Status result_row(std::int64_t row, std::vector<double>& values) const {
    std::vector<double> all;
    const std::int64_t first = row * shape_.n;
    PLUMBLINE_TRY(shape_.result == CUDA_R_32F
                      ? fetch_numbers<float>(operands_.d, first, shape_.n, 1, std::identity(), all)
                      : fetch_bf16(operands_.d, first, shape_.n, all));
    values.clear();
    for (const std::int64_t column : columns_) values.push_back(all[static_cast<std::size_t>(column)]);
    return {};
  }

  GemmShape shape_;
  GemmOperands operands_;
  std::vector<std::int64_t> rows_, columns_;
  std::vector<std::vector<double>> start_;  // per sampled row, at the sampled columns
};

constexpr std::uint64_t seed_x = 1, seed_w = 2, seed_d = 3, seed_x_scale = 4, seed_w_scale = 5;
// Random numbers reach 3.47. Stored FP8 numbers are scaled to reach 448, and the scales reverse that.
constexpr float fp8_stored = fp8_largest / 3.47f;

std::int64_t element_bytes(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1; }

// In forward and input gradient, activations have a scale per row and 128 columns, weights one per 128 x 128. In the
// weight gradient both operands are activations, with scales along the tokens.
GemmShape gemm_shape(const KernelCase& what, std::int64_t rows) {
  GemmShape shape;
  const bool weight_gradient = what.phase == "W";
  shape.m = weight_gradient ? what.m : rows;
  shape.n = what.n;
  shape.k = weight_gradient ? rows : what.k;
  shape.target_sms = static_cast<int>(what.target_sms);
  shape.fast_accumulation = what.fast_accumulation != 0;
  shape.accumulate = weight_gradient;
  shape.result = weight_gradient ? CUDA_R_32F : CUDA_R_16BF;
  if (what.format == "bf16") {
    // Layouts are those of training: w is [out,in], activations are [tokens,...]. FP8 operands are transposed before.
    shape.x_k_contiguous = !weight_gradient;
    shape.w_k_contiguous = what.phase == "F";
    return shape;
  }
  shape.operand = CUDA_R_8F_E4M3;
  const bool tensor = what.format == "fp8_tensor";
  shape.x_scale = tensor ? ScaleMode::tensor : ScaleMode::row_blocks;
  shape.w_scale = tensor ? ScaleMode::tensor : weight_gradient ? ScaleMode::row_blocks : ScaleMode::square_blocks;
  return shape;
}

std::int64_t scale_count(ScaleMode mode, std::int64_t rows, std::int64_t k) {
  switch (mode) {
    case ScaleMode::none:
      return 0;
    case ScaleMode::tensor:
      return 4;  // one is used; four keep the next group's 16-byte aligned
    case ScaleMode::row_blocks:
      return row_scale_count(rows, k);
    case ScaleMode::square_blocks:
      return square_scale_count(rows, k);
  }
  return 0;
}

// The operands of a case's GEMMs in device memory, group after group.
class GemmData {
 public:
  explicit GemmData(const KernelCase& what) : tolerance_(what.format == "bf16" ? bf16_tolerance : fp8_tolerance) {
    for (const std::int64_t rows : group_rows(what)) {
      end_.shape = gemm_shape(what, rows);
      const GemmShape& shape = end_.shape;
      groups_.push_back(end_);
      end_.x += shape.m * shape.k;
      end_.w += shape.n * shape.k;
      end_.d += shape.m * shape.n;
      end_.x_scales += scale_count(shape.x_scale, shape.m, shape.k);
      end_.w_scales += scale_count(shape.w_scale, shape.n, shape.k);
    }
    align();
  }

  // Fills operands and scales with random numbers, and results with zeros, since an accumulating GEMM reads them.
  Status allocate_and_fill(cudaStream_t stream) {
    const std::int64_t operand = element_bytes(end_.shape.operand);
    PLUMBLINE_TRY(x_.allocate(end_.x * operand));
    PLUMBLINE_TRY(w_.allocate(end_.w * operand));
    PLUMBLINE_TRY(d_.allocate(end_.d * element_bytes(end_.shape.result)));
    PLUMBLINE_TRY(x_scales_.allocate(end_.x_scales * 4));
    PLUMBLINE_TRY(w_scales_.allocate(end_.w_scales * 4));
    const auto fill_operand = [&](DeviceMemory& to, std::int64_t count, std::uint64_t seed) {
      return end_.shape.operand == CUDA_R_16BF ? fill_bf16(to.as<Bf16>(), count, seed, 1.0f, stream)
                                               : fill_fp8(to.as<Fp8>(), count, seed, fp8_stored, stream);
    };
    PLUMBLINE_TRY(outcome(fill_operand(x_, end_.x, seed_x), "filling X"));
    PLUMBLINE_TRY(outcome(fill_operand(w_, end_.w, seed_w), "filling W"));
    const auto scales = [&](DeviceMemory& to, std::int64_t count, std::uint64_t seed) {
      return count == 0 ? cudaSuccess : fill_scales(to.as<float>(), count, seed, 1.0f / fp8_stored, stream);
    };
    PLUMBLINE_TRY(outcome(scales(x_scales_, end_.x_scales, seed_x_scale), "filling scales"));
    PLUMBLINE_TRY(outcome(scales(w_scales_, end_.w_scales, seed_w_scale), "filling scales"));
    return d_.set(0, stream, "clearing D");
  }

  std::size_t groups() const { return groups_.size(); }
  // The shape and operands of one group's GEMM; its alignment is that of the start of every group's operands.
  const GemmShape& shape(std::size_t group) const { return groups_[group].shape; }
  GemmOperands operands(std::size_t index) const {
    const Group& group = groups_[index];
    const std::int64_t operand = element_bytes(group.shape.operand);
    GemmOperands at;
    at.x = x_.as<std::byte>() + group.x * operand;
    at.w = w_.as<std::byte>() + group.w * operand;
    at.d = d_.as<std::byte>() + group.d * element_bytes(group.shape.result);
    at.x_scales = end_.x_scales > 0 ? x_scales_.as<float>() + group.x_scales : nullptr;
    at.w_scales = end_.w_scales > 0 ? w_scales_.as<float>() + group.w_scales : nullptr;
    return at;
  }

  // Runs all GEMMs once on poisoned results, and compares sampled entries of the first and the last group with double
  // precision. Wrong numbers are an outcome, not a failure.
  Status check(const std::function<Status(cudaStream_t)>& run, Toolbox& tools, CheckOutcome& result) const {
    PLUMBLINE_TRY(poison(tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "preparing the check"));
    std::vector<std::size_t> sampled = {0};
    if (groups() > 1) sampled.push_back(groups() - 1);
    std::vector<std::unique_ptr<GemmSample>> samples;
    for (const std::size_t group : sampled) {
      samples.push_back(std::make_unique<GemmSample>(shape(group), operands(group)));
      PLUMBLINE_TRY(samples.back()->before());
    }
    PLUMBLINE_TRY(run(tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running the GEMM"));
    Comparison comparison;
    for (const auto& sample : samples) PLUMBLINE_TRY(sample->after(comparison));
    result = comparison.outcome(tolerance_);
    return count_unwritten(tools.stream, result);
  }

 private:
  struct Group {
    GemmShape shape;
    std::int64_t x = 0, w = 0, d = 0, x_scales = 0, w_scales = 0;  // elements before its own
  };
  void align() {
    const std::int64_t operand = element_bytes(end_.shape.operand), result = element_bytes(end_.shape.result);
    int kept = 256;  // alignment of an allocation
    for (const Group& group : groups_) {
      for (const std::int64_t bytes : {group.x * operand, group.w * operand, group.d * result})
        while (bytes % kept != 0) kept /= 2;
    }
    for (Group& group : groups_) group.shape.alignment = kept;
  }

  // NaN has all bits set. An accumulating GEMM needs numbers instead: random ones of the magnitude of its result.
  Status poison(cudaStream_t stream) const {
    const GemmShape& shape = end_.shape;
    if (!shape.accumulate) return d_.set(0xff, stream, "poisoning the result");
    // The standard deviation of a sum of k terms, each of two standard normal numbers multiplied.
    const float size = std::sqrt(static_cast<float>(shape.k));
    return outcome(fill_float(d_.as<float>(), end_.d, seed_d, size, stream), "filling the result");
  }

  Status count_unwritten(cudaStream_t stream, CheckOutcome& result) const {
    DeviceMemory counter;
    PLUMBLINE_TRY(counter.allocate(8));
    auto* count = counter.as<unsigned long long>();
    PLUMBLINE_TRY(outcome(cudaMemsetAsync(count, 0, sizeof *count, stream), "clearing a counter"));
    PLUMBLINE_TRY(outcome(end_.shape.result == CUDA_R_32F ? count_not_finite(d_.as<float>(), end_.d, count, stream)
                                                          : count_not_finite(d_.as<Bf16>(), end_.d, count, stream),
                          "counting unwritten entries"));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(stream), "counting unwritten entries"));
    unsigned long long found = 0;
    PLUMBLINE_TRY(outcome(cudaMemcpy(&found, count, sizeof found, cudaMemcpyDeviceToHost), "reading a counter"));
    if (found > 0) {
      result.ok = false;
      result.note = std::to_string(found) + " entries are not finite or were not written";
    }
    return {};
  }

  double tolerance_;
  std::vector<Group> groups_;
  Group end_;  // elements of all groups
  DeviceMemory x_, w_, d_, x_scales_, w_scales_;
};

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
