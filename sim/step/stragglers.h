// The wait for the slowest rank. Expert rows differ between the ranks of an expert-parallel group, and every all-to-all
// begins with a barrier. The group therefore advances at the pace of the slowest rank from barrier to barrier. The wait
// is found by running the whole group, not by a formula.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/program/program.h"
#include "model/schedule/schedule.h"
#include "sim/step/segment_time.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::sim {

struct GroupRun {
  double seconds = 0;         // of one slot, once the ranks are coupled
  std::vector<double> waits;  // per segment: wait at the barrier, mean over ranks and repetitions
  std::vector<double> first;  // the same in the first slot, which all ranks begin together
};

// The rows of the ranks: given, or drawn anew from a normal distribution for every layer, side and slot.
struct Imbalance {
  double variation = 0;           // of drawn rows, standard deviation over mean
  std::vector<double> rank_rows;  // relative to the expected ones, for each rank; empty: drawn
  std::uint64_t seed = 0;
  double most = std::numeric_limits<double>::infinity();  // rows that a rank has at most: its experts' capacity

  bool even() const { return variation == 0 && rank_rows.empty(); }
};

// Returns the given rows over their mean.
std::vector<double> relative_rows(const std::vector<std::int64_t>& rows);

// Returns the rows of the plan's ranks, which vary by model::routing_balance(). Experts that are filled up to their
// capacity all have as many.
Imbalance imbalance_of(const model::Plan& plan, const model::MixtureOfExperts& experts, std::uint64_t seed);

// Returns the seed of the draw for a slot type, the same in every plan, so that plans are compared on the same rows.
std::uint64_t slot_seed(model::OpType type);

// Runs a few consecutive slots of one template on all ranks of the group. The first slot only couples them.
GroupRun run_group(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
                   std::int64_t device_sms, const Imbalance& imbalance);

// Returns everything that run_group() reads of its arguments, as bytes.
std::string group_run_bytes(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
                            std::int64_t device_sms, const Imbalance& imbalance);

}  // namespace plumbline::sim
