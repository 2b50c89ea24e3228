// GEMMs of several tiles, in every format and form, compared with double precision.
#include <gtest/gtest.h>

#include "tests/gpu/gpu.h"
#include "tests/gpu/operator_run.h"

namespace plumbline::tests {
namespace {

using model::DataType;
using model::MatmulAttributes;
using model::OperatorKind;

constexpr std::int64_t m = 512, n = 768, k = 640;  // k has five scales, which are padded to eight

// Sums of 640 terms are FP32, results have 8 significant bits, and FP8 GEMMs sum with fewer bits.
constexpr double fp32_gemms = 1e-5, bf16_gemms = 4e-3, tf32_gemms = 2e-3, fp8_gemms = 5e-3;

class GpuGemms : public GpuTest {
 protected:
  static OperatorRun gemm(const std::string& name, DataType a, DataType b, DataType c, bool transpose_a,
                          bool transpose_b) {
    OperatorRun run(name, OperatorKind::matmul, MatmulAttributes{transpose_a, transpose_b, false});
    transpose_a ? run.read(a, {k, m}, random_matrix(k, m, 1)) : run.read(a, {m, k}, random_matrix(m, k, 1));
    transpose_b ? run.read(b, {n, k}, random_matrix(n, k, 2)) : run.read(b, {k, n}, random_matrix(k, n, 2));
    run.write(c, {m, n});
    return run;
  }
};

TEST_F(GpuGemms, EveryFormInEveryFormat) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const auto expect = [&](DataType type, double tolerance) {
        gemm("matmul", type, type, type, transpose_a, transpose_b).expect_near(device(), tolerance);
      };
      expect(DataType::fp32, fp32_gemms);
      expect(DataType::bf16, bf16_gemms);
      expect(DataType::fp16, bf16_gemms);
      expect(DataType::tf32, tf32_gemms);
    }
  }
}

TEST_F(GpuGemms, Fp8WithScalesOfTilesAndBlocks) {
  gemm("matmul", DataType::fp8_tile, DataType::fp8_block, DataType::bf16, false, true).expect_near(device(), fp8_gemms);
  gemm("matmul", DataType::fp8, DataType::fp8, DataType::bf16, false, true).expect_near(device(), fp8_gemms);
}

TEST_F(GpuGemms, WeightGradientsAddToWhatIsThere) {
  const Matrix start = random_matrix(m, n, 3) * 10;
  OperatorRun bf16("weight gradient", OperatorKind::matmul, MatmulAttributes{true, false, true});
  bf16.read(DataType::bf16, {k, m}, random_matrix(k, m, 1));
  bf16.read(DataType::bf16, {k, n}, random_matrix(k, n, 2));
  bf16.accumulate({m, n}, start);
  bf16.expect_near(device(), fp32_gemms);
  OperatorRun fp8("weight gradient", OperatorKind::matmul, MatmulAttributes{false, true, true});
  fp8.read(DataType::fp8_tile, {m, k}, random_matrix(m, k, 1));
  fp8.read(DataType::fp8_tile, {n, k}, random_matrix(n, k, 2));
  fp8.accumulate({m, n}, start);
  fp8.expect_near(device(), fp8_gemms);
}

TEST_F(GpuGemms, ABiasIsAddedToEveryRow) {
  OperatorRun run("matmul with bias", OperatorKind::matmul, MatmulAttributes{false, true, false});
  run.read(DataType::bf16, {m, k}, random_matrix(m, k, 1));
  run.read(DataType::bf16, {n, k}, random_matrix(n, k, 2));
  run.read(DataType::bf16, {n}, random_matrix(n, 1, 3) * 100);
  run.write(DataType::bf16, {m, n});
  run.expect_near(device(), bf16_gemms);
}

TEST_F(GpuGemms, StreamsThatShareOneComputeAllOfIt) {
  for (const std::int32_t parts : {2, 3}) {
    gemm("matmul in parts", DataType::bf16, DataType::bf16, DataType::bf16, true, false)
        .expect_near(device(), bf16_gemms, parts);
    gemm("matmul in parts", DataType::fp8_tile, DataType::fp8_block, DataType::bf16, false, true)
        .expect_near(device(), fp8_gemms, parts);
  }
}

TEST_F(GpuGemms, OddWidthsOfFp8AreComputedToo) {
  OperatorRun run("odd matmul", OperatorKind::matmul, MatmulAttributes{false, true, false});
  run.read(DataType::fp8_tile, {33, 270}, random_matrix(33, 270, 1));
  run.read(DataType::fp8_block, {141, 270}, random_matrix(141, 270, 2));
  run.write(DataType::bf16, {33, 141});
  run.expect_near(device(), bf16_gemms);
}

// Experts have uneven sizes, and one has no rows.
class GpuExperts : public GpuTest {
 protected:
  static constexpr std::int64_t experts = 4, hidden = 384, width = 640;

  struct Formats {
    DataType rows, weights;
    std::vector<std::int64_t> offsets;  // multiples of 128 in FP8

    std::int64_t count() const { return offsets.back(); }
    Matrix as_matrix() const {
      Matrix result(static_cast<Index>(offsets.size()), 1);
      for (std::size_t i = 0; i < offsets.size(); ++i) result(static_cast<Index>(i)) = static_cast<double>(offsets[i]);
      return result;
    }
  };
  static Formats bf16() { return {DataType::bf16, DataType::bf16, {0, 100, 100, 613, 700}}; }
  static Formats fp32() { return {DataType::fp32, DataType::fp32, {0, 100, 100, 613, 700}}; }
  static Formats fp8() { return {DataType::fp8_tile, DataType::fp8_block, {0, 256, 256, 768, 896}}; }

  static OperatorRun forward(const Formats& f, DataType written, bool transpose) {
    OperatorRun run("grouped matmul", OperatorKind::grouped_matmul, MatmulAttributes{false, transpose, false});
    run.read(f.rows, {f.count(), hidden}, random_matrix(f.count(), hidden, 1));
    transpose ? run.read(f.weights, {experts, width, hidden}, random_matrix(experts * width, hidden, 2))
              : run.read(f.weights, {experts, hidden, width}, random_matrix(experts * hidden, width, 2));
    run.read(DataType::int32, {experts + 1}, f.as_matrix());
    run.write(written, {f.count(), width});
    return run;
  }
  static OperatorRun gradient(const Formats& f, bool transposed) {
    OperatorRun run("grouped weight gradient", OperatorKind::grouped_matmul,
                    MatmulAttributes{!transposed, transposed, true});
    for (const std::int64_t columns : {width, hidden})
      transposed ? run.read(f.rows, {columns, f.count()}, random_matrix(columns, f.count(), 3))
                 : run.read(f.rows, {f.count(), columns}, random_matrix(f.count(), columns, 3));
    run.read(DataType::int32, {experts + 1}, f.as_matrix());
    run.accumulate({experts, width, hidden}, random_matrix(experts * width, hidden, 4));
    return run;
  }
};

TEST_F(GpuExperts, EachTakesItsRows) {
  for (const std::int32_t parts : {1, 2}) {
    for (const bool transpose : {false, true}) {
      forward(bf16(), DataType::bf16, transpose).expect_near(device(), bf16_gemms, parts);
      forward(fp32(), DataType::fp32, transpose).expect_near(device(), fp32_gemms, parts);
    }
    forward(fp8(), DataType::bf16, true).expect_near(device(), fp8_gemms, parts);
  }
}

TEST_F(GpuExperts, EachAddsToItsGradient) {
  for (const std::int32_t parts : {1, 2}) {
    gradient(bf16(), false).expect_near(device(), fp32_gemms, parts);
    gradient(fp32(), true).expect_near(device(), fp32_gemms, parts);
    gradient(fp8(), true).expect_near(device(), fp8_gemms, parts);
  }
}

// There are two sequences; two query heads share a key-value head.
TEST_F(GpuGemms, OfStoredScores) {
  constexpr std::int64_t length = 256, tokens = 2 * length, query_heads = 4, shared_heads = 2, dim = 64;
  for (const DataType type : {DataType::fp32, DataType::bf16}) {
    const auto expect = [&](model::BatchedForm form, std::int64_t a, std::int64_t b, std::int64_t c) {
      OperatorRun run("batched matmul", OperatorKind::batched_matmul,
                      model::BatchedMatmulAttributes{form, query_heads, shared_heads, dim, length, 0.125});
      run.read(type, {tokens, a}, random_matrix(tokens, a, 1));
      run.read(type, {tokens, b}, random_matrix(tokens, b, 2));
      run.write(type, {tokens, c});
      run.expect_near(device(), type == DataType::fp32 ? fp32_gemms : bf16_gemms);
    };
    expect(model::BatchedForm::rows, query_heads * dim, shared_heads * dim, query_heads * length);
    expect(model::BatchedForm::values, query_heads * length, shared_heads * dim, query_heads * dim);
    expect(model::BatchedForm::columns, query_heads * length, query_heads * dim, shared_heads * dim);
  }
}

}  // namespace
}  // namespace plumbline::tests
