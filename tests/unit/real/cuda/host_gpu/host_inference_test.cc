// The kernels of passes of inference on the stand-in for a GPU, compared with double precision.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "real/cuda/kernels/inference/inference.h"

namespace plumbline::tests {
namespace {

class HostInference : public testing::Test {
 protected:
  HostInference() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~HostInference() override { cudaStreamDestroy(stream_); }
  void finish(cudaError_t launched) {
    EXPECT_EQ(launched, cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  cudaStream_t stream_ = nullptr;
};

// A matrix in FP32.
struct Fp32Matrix {
  Fp32Matrix(std::int64_t rows_, std::int64_t columns_, std::uint64_t seed = 0)
      : rows(rows_), columns(columns_), data(static_cast<std::size_t>(rows_ * columns_)) {
    for (std::size_t i = 0; i < data.size() && seed > 0; ++i) data[i] = real::cuda::random_normal(seed, i);
  }
  real::cuda::TensorView view() { return {data.data(), nullptr, real::cuda::Format::fp32, rows, columns, 0}; }
  double at(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(data[static_cast<std::size_t>(row * columns + column)]);
  }

  std::int64_t rows, columns;
  std::vector<float> data;
};

struct CacheShape {
  std::int64_t heads, key_heads, key_dim, value_dim, fresh, window;
  bool latent, alibi;
};

class CachedAttention : public HostInference, public testing::WithParamInterface<CacheShape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, CachedAttention,
                         testing::Values(CacheShape{4, 2, 24, 40, 1, 0, false, false},
                                         CacheShape{2, 2, 8, 8, 3, 5, false, true},
                                         CacheShape{3, 1, 72, 64, 2, 0, true, false},
                                         CacheShape{2, 1, 330, 300, 1, 0, true, false}));

TEST_P(CachedAttention, SeesTheKeysOfItsRequestUpToItsOwn) {
  const CacheShape s = GetParam();
  constexpr std::int64_t requests = 3, held = 60;
  const std::vector<std::int32_t> lengths = {0, 9, 50};
  Fp32Matrix q(requests * s.fresh, s.heads * s.key_dim, 1), keys(requests * held, s.key_heads * s.key_dim, 2),
      values(requests * held, s.key_heads * s.value_dim, 3), o(requests * s.fresh, s.heads * s.value_dim);
  const Fp32Matrix& seen_values = s.latent ? keys : values;
  const float scale = 1 / std::sqrt(static_cast<float>(s.key_dim));
  finish(real::cuda::cached_attention({q.view(),
                                       keys.view(),
                                       s.latent ? keys.view() : values.view(),
                                       o.view(),
                                       {lengths.data(), requests, s.fresh},
                                       s.heads,
                                       s.key_heads,
                                       s.key_dim,
                                       s.value_dim,
                                       s.window,
                                       scale,
                                       s.alibi},
                                      stream_));
  for (std::int64_t row = 0; row < q.rows; ++row)
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const std::int64_t request = row / s.fresh, shared = head / (s.heads / s.key_heads);
      const std::int64_t position = lengths[static_cast<std::size_t>(request)] + row % s.fresh;
      const std::int64_t low = s.window > 0 ? std::max<std::int64_t>(0, position - s.window + 1) : 0;
      std::vector<double> sums(static_cast<std::size_t>(s.value_dim));
      double total = 0;
      for (std::int64_t key = low; key <= position; ++key) {
        double score = 0;
        for (std::int64_t i = 0; i < s.key_dim; ++i)
          score += q.at(row, head * s.key_dim + i) * keys.at(request * held + key, shared * s.key_dim + i);
        score *= static_cast<double>(scale);
        if (s.alibi)
          score -= std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(s.heads)) *
                   static_cast<double>(position - key);
        total += std::exp(score);
        for (std::int64_t i = 0; i < s.value_dim; ++i)
          sums[static_cast<std::size_t>(i)] +=
              std::exp(score) * seen_values.at(request * held + key, shared * s.value_dim + i);
      }
      for (std::int64_t i = 0; i < s.value_dim; ++i)
        ASSERT_NEAR(o.at(row, head * s.value_dim + i), sums[static_cast<std::size_t>(i)] / total, 1e-5)
            << row << " " << head << " " << i;
    }
}

TEST_F(HostInference, NewRowsStandBehindEarlierOnes) {
  constexpr std::int64_t requests = 2, held = 7, fresh = 2;
  const std::vector<std::int32_t> lengths = {0, 5};
  Fp32Matrix rows(requests * fresh, 3, 1), cache(requests * held, 8, 2);
  const Fp32Matrix before = cache;
  finish(real::cuda::append_rows({lengths.data(), requests, fresh}, rows.view(), cache.view(), 4, stream_));
  for (std::int64_t row = 0; row < cache.rows; ++row)
    for (std::int64_t column = 0; column < cache.columns; ++column) {
      const std::int64_t request = row / held, token = row % held - lengths[static_cast<std::size_t>(request)];
      const bool written = token >= 0 && token < fresh && column >= 4 && column < 7;
      EXPECT_EQ(cache.at(row, column), written ? rows.at(request * fresh + token, column - 4) : before.at(row, column));
    }
}

TEST_F(HostInference, EachHeadHasAMatrixAndKeepsItsLastColumns) {
  constexpr std::int64_t heads = 3, in = 5, out = 6, copied = 2;
  Fp32Matrix x(4, heads * (in + copied), 1), w(heads * out, in, 2), y(4, heads * (out + copied));
  finish(real::cuda::head_matmul(x.view(), w.view(), y.view(), heads, copied, stream_));
  for (std::int64_t row = 0; row < x.rows; ++row)
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t i = 0; i < out; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < in; ++j) sum += x.at(row, head * (in + copied) + j) * w.at(head * out + i, j);
        EXPECT_NEAR(y.at(row, head * (out + copied) + i), sum, 1e-5);
      }
      for (std::int64_t i = 0; i < copied; ++i)
        EXPECT_EQ(y.at(row, head * (out + copied) + out + i), x.at(row, head * (in + copied) + in + i));
    }
}

TEST_F(HostInference, TheLastTokenOfEachRequestIsTaken) {
  Fp32Matrix x(6, 5, 1), y(2, 5);
  finish(real::cuda::last_rows(x.view(), 3, y.view(), stream_));
  for (std::int64_t column = 0; column < 5; ++column) {
    EXPECT_EQ(y.at(0, column), x.at(2, column));
    EXPECT_EQ(y.at(1, column), x.at(5, column));
  }
}

// Two parts of the vocabulary stand below each other; the first of equal logits wins.
TEST_F(HostInference, TheLikeliestTokenIsTaken) {
  constexpr std::int64_t tokens = 3, part = 200;
  Fp32Matrix logits(2 * tokens, part, 1);
  logits.data[0 * part + 7] = logits.data[0 * part + 150] = 50;
  logits.data[(tokens + 1) * part + 9] = 50;
  logits.data[2 * part + 199] = logits.data[(tokens + 2) * part + 0] = 50;
  std::vector<std::int32_t> ids(tokens);
  finish(real::cuda::sample(logits.view(), {}, ids.data(), tokens, stream_));
  EXPECT_EQ(ids, (std::vector<std::int32_t>{7, part + 9, 199}));
}

// Of 4,000 draws the shares are those of softmax(logits / 2), within four standard deviations.
TEST_F(HostInference, DrawnTokensFollowTheirProbabilities) {
  constexpr std::int64_t tokens = 4000;
  const std::vector<double> wanted = {0.1, 0.2, 0.3, 0.4};
  Fp32Matrix logits(tokens, 4);
  for (std::size_t i = 0; i < logits.data.size(); ++i) logits.data[i] = static_cast<float>(2 * std::log(wanted[i % 4]));
  std::vector<std::int32_t> ids(tokens), again(tokens), others(tokens);
  finish(real::cuda::sample(logits.view(), {2, 5, 0}, ids.data(), tokens, stream_));
  finish(real::cuda::sample(logits.view(), {2, 5, 0}, again.data(), tokens, stream_));
  finish(real::cuda::sample(logits.view(), {2, 6, 0}, others.data(), tokens, stream_));
  EXPECT_EQ(ids, again);
  EXPECT_NE(ids, others);
  for (std::int32_t id = 0; id < 4; ++id) {
    const double share = static_cast<double>(std::ranges::count(ids, id)) / tokens,
                 p = wanted[static_cast<std::size_t>(id)];
    EXPECT_NEAR(share, p, 4 * std::sqrt(p * (1 - p) / tokens)) << id;
  }
}

}  // namespace
}  // namespace plumbline::tests
