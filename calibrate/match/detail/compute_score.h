// What speaks for the match of a predicted and a measured kernel that compute.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "calibrate/match/detail/alignment.h"
#include "calibrate/match/detail/match_item.h"

namespace plumbline::calibrate {

// The score of an alignment (detail/alignment.h) of two sequences, which must outlive it.
class ComputeScore {
 public:
  ComputeScore(const std::vector<MatchItem>& predicted, const std::vector<MatchItem>& measured);

  // Returns whether one of them may stand for several of the other: those of one class and one place.
  bool same(std::size_t i, std::size_t j) const;
  // Returns the gain of a match, which is far below 0 where the classes differ.
  double operator()(std::size_t i, std::size_t j) const;
  // Returns the gain of a match of GEMM i with the measured [j, j + count), which are shorter and add up to it:
  // queries, keys and values, or gate and up, that run one by one. Below 0 where one of them is no part of it.
  double parts(std::size_t i, std::size_t j, std::size_t count) const;
  static constexpr std::size_t most_parts = 4;
  // Takes how long GEMMs are against the prediction from the sums that an alignment of the sequences matches. Until
  // then it is one or follows from the means, which are shorter where the trace runs GEMMs in parts.
  void scale_gemms(const Alignment& alignment);
  // Returns whether these times of kernels of the class of `predicted`, of which one stands for several, are within a
  // factor of 3, by themselves or against the mean of the class.
  bool fits(const MatchItem& predicted, double log_measured, double log_predicted) const;

 private:
  double time_cost(const MatchItem& predicted, double log_measured) const;

  const std::vector<MatchItem>& predicted_;
  const std::vector<MatchItem>& measured_;
  std::array<double, match_rows> scale_{};  // logarithm of measured over predicted seconds
  bool summed_ = false;                     // that of GEMMs is of sums
};

}  // namespace plumbline::calibrate
