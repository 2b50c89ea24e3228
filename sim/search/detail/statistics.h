// Statistics of a search: the number of plans removed by each rule, and the plan that came closest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/search/search.h"

namespace plumbline::sim {

enum class Rule : std::uint8_t {
  states,    // memory: the states that a rank holds through the whole step exceed the GPU
  branch,    // time: the branch's blocks, spread evenly over the ranks, take too long
  schedule,  // time: the blocks in this schedule, with this split, take too long
  memory,    // memory: the fullest moment of a rank exceeds the GPU
  host,      // memory: what is offloaded exceeds the host
  slots,     // time: the schedule with the durations of its slots takes too long
  refused    // the plan cannot be simulated
};
inline constexpr std::size_t rules = 7;
bool on_memory(Rule rule);

// Returns "tensor 8, pipeline 16, zero 1, micro-batch 1, 1f1b, recompute full"; degrees of 1 are left out.
std::string describe(const model::Plan& plan);

struct Statistics {
  struct Closest {  // the plans that a rule removed, and the closest of them
    std::uint64_t plans = 0;
    double measure = std::numeric_limits<double>::infinity();
    std::string plan;
  };
  std::array<Closest, rules> by_rule;
  std::uint64_t evaluated = 0;

  // Counts removed plans. `measure` is bytes or seconds; smaller is closer. Only the closest so far calls plan().
  template <class MakePlan>
  void remove(Rule rule, std::uint64_t plans, double measure, const MakePlan& plan) {
    Closest& closest = by_rule[static_cast<std::size_t>(rule)];
    if (plans > 0 && measure < closest.measure) {
      closest.measure = measure;
      closest.plan = describe(plan());
    }
    closest.plans += plans;
  }
  // Returns empty statistics to which only plans that are closer than those removed here are the closest.
  Statistics rest() const;
  void refuse(const model::Plan& plan, const std::string& why);
  void add(const Statistics& other);

  std::uint64_t decided() const;
  // Returns the rules that removed plans, in the order in which they apply.
  std::vector<Removed> removed(const model::Device& device) const;
};

}  // namespace plumbline::sim
