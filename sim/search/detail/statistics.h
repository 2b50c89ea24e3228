// How the plans of a space were decided: how many by which rule, and which came closest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/search/candidate.h"

namespace plumbline::sim {

enum class Rule : std::uint8_t {
  states,    // memory: what a rank holds through the whole step is too much already
  branch,    // time: not even the branch's blocks, spread evenly over the ranks, are fast enough
  schedule,  // time: nor are they in this schedule, with this split
  memory,    // the fullest moment of a rank is too much
  slots,     // time: nor is the schedule, with the durations of its slots
  refused    // the plan cannot be simulated
};
inline constexpr std::size_t rules = 6;
bool on_memory(Rule rule);

// "tensor 8, pipeline 16, zero 1, micro-batch 1, 1f1b, recompute full": what differs from all ones, in words.
std::string describe(const model::Plan& plan);

class Statistics {
 public:
  // measure: bytes or seconds, the smaller the closer.
  // plan(): asked for only when it is the closest so far.
  template <class MakePlan>
  void remove(Rule rule, std::uint64_t plans, double measure, const MakePlan& plan) {
    Closest& closest = removed_[static_cast<std::size_t>(rule)];
    if (plans > 0 && (closest.plans == 0 || measure < closest.measure)) {
      closest.measure = measure;
      closest.plan = describe(plan());
    }
    closest.plans += plans;
  }
  void refuse(const model::Plan& plan, const std::string& why);
  void evaluate() { ++evaluated_; }
  void add(const Statistics& other);

  std::uint64_t evaluated() const { return evaluated_; }
  std::uint64_t decided() const;
  // Rules that removed something, in the order in which they apply. capacity: bytes of a GPU.
  std::vector<Removed> removed(double capacity) const;

 private:
  struct Closest {
    std::uint64_t plans = 0;
    double measure = 0;
    std::string plan;
  };
  std::array<Closest, rules> removed_;
  std::uint64_t evaluated_ = 0;
};

}  // namespace plumbline::sim
