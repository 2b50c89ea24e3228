// Shared by the tests of single schedules. Notation: P ranks, M micro-batches, v chunks per rank, F forward, B = I + W
// backward, FB an overlapped pair.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

namespace plumbline::tests {

using model::evaluate;
using model::OpType;
using model::PointToPoint;
using model::Schedule;
using model::ScheduleCosts;
using model::ScheduleKind;
using model::ScheduleOp;
using model::ScheduleShape;

inline const ScheduleKind& kind(std::string_view name) { return *model::find_schedule(name).value(); }

inline Schedule build(std::string_view name, std::int32_t ranks, std::int32_t micro_batches) {
  const ScheduleShape shape{.ranks = ranks, .micro_batches = micro_batches};
  EXPECT_TRUE(kind(name).check(shape)) << name << " " << ranks << " " << micro_batches;
  return kind(name).build(shape);
}

inline double makespan(const Schedule& schedule, const ScheduleCosts& costs, PointToPoint mode = PointToPoint::eager) {
  return evaluate(schedule, costs, mode).value().makespan;
}

// Returns the op counts of one rank in the order F, B, I, W, FB.
inline std::array<std::int32_t, 5> counts(const Schedule& schedule, std::int32_t rank) {
  std::array<std::int32_t, 5> count{};
  for (const ScheduleOp& op : schedule.ranks[static_cast<std::size_t>(rank)])
    ++count[static_cast<std::size_t>(op.type)];
  return count;
}

// Draws random costs that satisfy max(F, B) <= FB <= F + B and B = I + W, including the bounds themselves.
class RandomCosts {
 public:
  ScheduleCosts operator()() {
    ScheduleCosts costs;
    costs.F = positive();
    costs.I = positive();
    costs.W = positive();
    costs.B = costs.I + costs.W;
    const double least = std::max(costs.F, costs.B);
    const double share = std::clamp(1.4 * uniform_(generator_) - 0.2, 0.0, 1.0);
    costs.FB = least + share * (costs.F + costs.B - least);
    costs.p2p = 0;
    return costs;
  }
  double positive() { return 0.05 + 3 * uniform_(generator_); }
  std::int32_t integer(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(generator_);
  }

 private:
  std::mt19937 generator_{20240607};
  std::uniform_real_distribution<double> uniform_{0.0, 1.0};
};

inline std::string describe(std::int32_t ranks, std::int32_t micro_batches, const ScheduleCosts& c) {
  return "P=" + std::to_string(ranks) + " M=" + std::to_string(micro_batches) + " F=" + std::to_string(c.F) +
         " I=" + std::to_string(c.I) + " W=" + std::to_string(c.W) + " FB=" + std::to_string(c.FB) +
         " p2p=" + std::to_string(c.p2p);
}

inline void expect_close(double actual, double expected) { EXPECT_NEAR(actual, expected, 1e-9 * std::abs(expected)); }

// Returns one rank's ops as type, stage and micro-batch; a pair lists its forward, then its backward.
inline std::string listing(const std::vector<ScheduleOp>& ops) {
  std::string text;
  for (const ScheduleOp& op : ops) {
    text += to_string(op.type);
    if (op.f_stage >= 0) text += std::to_string(op.f_stage) + "." + std::to_string(op.f_mb);
    if (op.b_stage >= 0)
      text += (op.f_stage >= 0 ? "/" : "") + std::to_string(op.b_stage) + "." + std::to_string(op.b_mb);
    text += ' ';
  }
  return text;
}

}  // namespace plumbline::tests
