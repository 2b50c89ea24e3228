// Tests when an algorithm is requested, with a fake library that counts requests and records the last GEMM.
#include "real/cuda/operators/gemm_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>

namespace plumbline::real::cuda {
namespace {

// Calls that the fake library has received. Layouts are their addresses in `layouts`.
struct Seen {
  struct Extents {
    std::uint64_t rows = 0, columns = 0;
    std::int64_t leading = 0;
  };
  std::map<cublasLtMatrixLayout_t, Extents> layouts;
  std::uint64_t handles = 0;
  int questions = 0, gemms = 0;
  Extents a, b, d;                    // those of the last GEMM
  std::uint64_t refused_columns = 0;  // columns of D, which are rows here, of refused GEMMs
  std::uint64_t asked_columns = 0;    // columns of D in the last request
} seen;

template <class Handle>
Handle next_handle() {
  return reinterpret_cast<Handle>(++seen.handles);
}

void fake_layouts(CublasLt& lt) {
  lt.layout_create = [](cublasLtMatrixLayout_t* layout, cudaDataType, std::uint64_t rows, std::uint64_t columns,
                        std::int64_t leading) {
    *layout = next_handle<cublasLtMatrixLayout_t>();
    seen.layouts[*layout] = {rows, columns, leading};
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.layout_destroy = [](cublasLtMatrixLayout_t) { return CUBLAS_STATUS_SUCCESS; };
  lt.layout_set = [](cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                     std::size_t bytes) {
    Seen::Extents& extents = seen.layouts.at(layout);
    void* const to = attribute == CUBLASLT_MATRIX_LAYOUT_ROWS   ? static_cast<void*>(&extents.rows)
                     : attribute == CUBLASLT_MATRIX_LAYOUT_COLS ? static_cast<void*>(&extents.columns)
                                                                : static_cast<void*>(&extents.leading);
    std::memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
}

void fake_descriptions(CublasLt& lt) {
  lt.version = [] { return std::size_t{130000}; };
  lt.status_string = [](cublasStatus_t) { return "refused"; };
  lt.operation_create = [](cublasLtMatmulDesc_t* operation, cublasComputeType_t, cudaDataType_t) {
    *operation = next_handle<cublasLtMatmulDesc_t>();
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.operation_destroy = [](cublasLtMatmulDesc_t) { return CUBLAS_STATUS_SUCCESS; };
  lt.operation_set = [](cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*, std::size_t) {
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.preference_create = [](cublasLtMatmulPreference_t* preference) {
    *preference = next_handle<cublasLtMatmulPreference_t>();
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.preference_destroy = [](cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; };
  lt.preference_set = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, std::size_t) {
    return CUBLAS_STATUS_SUCCESS;
  };
}

void fake_gemms(CublasLt& lt) {
  lt.heuristic = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int,
                    cublasLtMatmulHeuristicResult_t found[], int* count) {
    ++seen.questions;
    seen.asked_columns = seen.layouts.at(d).columns;
    // The algorithm stores the GEMM for which it was proposed.
    found[0].algo.data[0] = seen.asked_columns;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.matmul = [](cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t a,
                 const void*, cublasLtMatrixLayout_t b, const void*, const void*, cublasLtMatrixLayout_t, void*,
                 cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t, cudaStream_t) {
    seen.a = seen.layouts.at(a);
    seen.b = seen.layouts.at(b);
    seen.d = seen.layouts.at(d);
    if (seen.d.columns == seen.refused_columns && algorithm->data[0] != seen.d.columns)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    ++seen.gemms;
    return CUBLAS_STATUS_SUCCESS;
  };
}

class GemmCacheTest : public testing::Test {
 protected:
  GemmCacheTest() {
    seen = {};
    fake_layouts(library_);
    fake_descriptions(library_);
    fake_gemms(library_);
  }
  void run(const GemmShape& shape) {
    Status why;
    ASSERT_TRUE(cache_.has(shape, {}, why)) << why.failure;
    const Status status = cache_.run(shape, {}, nullptr, nullptr);
    ASSERT_TRUE(status.ok()) << status.failure;
  }
  static GemmShape shape(std::int64_t m, std::int64_t n, std::int64_t k, Routed routed) {
    GemmShape shape;
    shape.m = m;
    shape.n = n;
    shape.k = k;
    shape.x_stride = k;
    shape.w_stride = k;
    shape.d_stride = n;
    shape.routed = routed;
    return shape;
  }

  CublasLt library_;
  GemmCache cache_{library_};
};

TEST_F(GemmCacheTest, RowsThatRoutingDecidesShareAnAlgorithm) {
  for (const std::int64_t rows : {1025, 1100, 1152, 1030}) {
    run(shape(rows, 512, 256, Routed::rows));
    EXPECT_EQ(seen.d.columns, static_cast<std::uint64_t>(rows));  // by columns: what is computed is exact
    EXPECT_EQ(seen.b.columns, static_cast<std::uint64_t>(rows));
  }
  EXPECT_EQ(seen.questions, 1);
  EXPECT_EQ(seen.asked_columns, 1152U);
  run(shape(1153, 512, 256, Routed::rows));
  EXPECT_EQ(seen.questions, 2);
  EXPECT_EQ(seen.gemms, 5);
}

TEST_F(GemmCacheTest, OtherRowsAreAskedForAsTheyAre) {
  run(shape(1025, 512, 256, Routed::none));
  run(shape(1026, 512, 256, Routed::none));
  run(shape(1025, 512, 256, Routed::none));
  EXPECT_EQ(seen.questions, 2);
}

TEST_F(GemmCacheTest, AnAlgorithmThatRefusesExactRowsIsAskedForAgain) {
  seen.refused_columns = 1100;
  for (int times = 0; times < 3; ++times) run(shape(1100, 512, 256, Routed::rows));
  EXPECT_EQ(seen.questions, 2);
  EXPECT_EQ(seen.asked_columns, 1100U);
  run(shape(1101, 512, 256, Routed::rows));  // other shapes keep theirs
  EXPECT_EQ(seen.questions, 2);
  EXPECT_EQ(seen.gemms, 4);
}

// FP8 operands are transposed: all routed rows of a layer are adjacent columns, and the sum runs over an expert's part
// of them.
TEST_F(GemmCacheTest, SumsOverRoutedRowsShareAnAlgorithmForAnyOtherRows) {
  for (const std::int64_t all : {4096, 4224, 8192}) {
    for (const std::int64_t own : {897, 1024}) {
      GemmShape s = shape(512, 256, own, Routed::depth);
      s.x_stride = s.w_stride = all;
      run(s);
      EXPECT_EQ(seen.a.rows, static_cast<std::uint64_t>(own));
      EXPECT_EQ(seen.a.leading, all);
      EXPECT_EQ(seen.b.leading, all);
      EXPECT_EQ(seen.d.leading, 256);
    }
  }
  EXPECT_EQ(seen.questions, 1);
}

TEST(UsualShape, KeepsStridesThatAreAlignedOtherwise) {
  GemmShape s;
  s.m = 512;
  s.n = 256;
  s.k = 900;
  s.x_stride = 4100;
  s.w_stride = 4096;
  s.routed = Routed::depth;
  EXPECT_EQ(usual_shape(s).k, 1024);
  EXPECT_EQ(usual_shape(s).x_stride, 4100);
  EXPECT_EQ(usual_shape(s).w_stride, 0);
  s.w_k_contiguous = false;  // W is [k, n]: a row has n columns for any routing
  s.w_stride = 256;
  EXPECT_EQ(usual_shape(s).w_stride, 256);
  s.routed = Routed::rows;
  EXPECT_EQ(usual_shape(s).m, 512);
  EXPECT_EQ(usual_shape(s).k, 900);
  EXPECT_EQ(exact_shape(s).routed, Routed::none);
}

}  // namespace
}  // namespace plumbline::real::cuda
