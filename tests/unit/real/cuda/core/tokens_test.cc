// Tokens, labels and losses of the GPU kernels compared with double precision.
#include "real/cuda/kernels/arithmetic/tokens.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/base/random.h"

namespace plumbline::real::cuda {
namespace {

TEST(CudaTokens, LogSumsOfPartsAreThoseOfTheWhole) {
  model::Random random(4);
  for (const double shift : {0.0, 200.0, -3000.0}) {
    LogSum parts[5];
    double expected = 0;
    for (int vector = 0; vector < 100; ++vector) {
      float values[8];
      for (float& value : values) {
        value = static_cast<float>(4 * random.normal() + shift);
        expected += std::exp(static_cast<double>(value) - shift);
      }
      parts[vector % 4].add(values);  // the last part stays empty
    }
    LogSum sum;
    for (const LogSum& part : parts) sum.add(part);
    EXPECT_NEAR(static_cast<double>(sum.value()) - shift, std::log(expected), 1e-6 * std::abs(shift) + 1e-5);
  }
}

TEST(CudaTokens, ColumnsThatAreMissingAddNothing) {
  const float missing[2] = {-FLT_MAX, -FLT_MAX}, values[2] = {-5.0F, -6.0F};
  LogSum padded, sum;
  padded.add(missing);
  padded.add(values);
  sum.add(missing);
  sum.add(padded);
  EXPECT_NEAR(static_cast<double>(sum.value()), std::log(std::exp(-5.0) + std::exp(-6.0)), 1e-5);
}

TEST(CudaTokens, LastTokensOfASequenceAndThoseWithoutALabelCarryNoLoss) {
  const std::vector<std::int32_t> ids = {5, -1, 7, 9, 4, 4, 4, 4};
  Labels labels{ids.data(), 1, 4, 0};
  std::vector<bool> carry;
  for (std::int64_t token = 0; token < 8; ++token) carry.push_back(labels.carry_loss(token));
  EXPECT_EQ(carry, (std::vector<bool>{true, false, true, false, true, true, true, false}));
}

TEST(CudaTokens, OfADividedVocabularyOneRankHasTheLabel) {
  const std::vector<std::int32_t> ids = {0, 7, 8, 15, 16};
  for (std::int64_t token = 0; token < 5; ++token) {
    int found = 0;
    for (const std::int64_t rank : {0, 1, 2}) {
      const Labels labels{ids.data(), 0, 5, rank * 8};
      if (const std::int64_t column = labels.column(token, 8); column >= 0) {
        ++found;
        EXPECT_EQ(rank * 8 + column, ids[static_cast<std::size_t>(token)]);
      }
    }
    EXPECT_EQ(found, 1) << token;
  }
}

TEST(CudaTokens, ShiftedTokensStayInTheirSequence) {
  std::vector<std::int64_t> sources;
  for (std::int64_t token = 0; token < 8; ++token) sources.push_back(shifted_token(token, 2, 4));
  EXPECT_EQ(sources, (std::vector<std::int64_t>{2, 3, 3, 3, 6, 7, 7, 7}));
}

TEST(CudaTokens, PlacesByIdAreAStableOrder) {
  const std::vector<std::int32_t> ids = {4, 2, 4, 9, 2, 4};
  std::vector<std::int64_t> order(ids.size());
  for (std::size_t token = 0; token < ids.size(); ++token) {
    std::size_t before = 0;
    for (std::size_t other = 0; other < ids.size(); ++other)
      before +=
          stands_before(ids[other], static_cast<std::int64_t>(other), ids[token], static_cast<std::int64_t>(token)) ? 1
                                                                                                                    : 0;
    order[before] = static_cast<std::int64_t>(token);
  }
  EXPECT_EQ(order, (std::vector<std::int64_t>{1, 4, 0, 2, 5, 3}));
}

TEST(CudaTokens, GradientsAreMeansOverTheLabelledTokens) {
  EXPECT_EQ(gradient_scale(3.0, 4), 0.75F);
  EXPECT_EQ(gradient_scale(3.0, 0), 3.0F);
}

}  // namespace
}  // namespace plumbline::real::cuda
