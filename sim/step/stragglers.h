// Waiting for the slowest rank. Expert rows differ between the ranks of an expert-parallel group, and
// every exchange begins with a meeting of all of them, so the group advances at the pace of whoever is
// slowest from meeting to meeting. The wait is found by running the whole group, not by a formula.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "model/schedule/schedule.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct GroupRun {
  double seconds = 0;         // of one slot, once the ranks are coupled
  std::vector<double> waits;  // per segment: mean over ranks and repetitions of the wait in the meeting
};

// How expert rows differ between the ranks: drawn anew for every layer, side and slot from a normal
// distribution, or stated.
struct Imbalance {
  double variation = 0;           // of drawn rows, standard deviation over mean
  std::vector<double> rank_rows;  // over the expected ones, a number for each rank; empty: drawn
  std::uint64_t seed = 0;

  bool even() const { return variation == 0 && rank_rows.empty(); }
};

// Of the draw for a slot: the same in every plan that has the slot, so that plans are compared on the same rows.
std::uint64_t slot_seed(model::OpType type);

// Stated rows over their mean.
std::vector<double> relative_rows(const std::vector<std::int64_t>& rows);

// Runs a few consecutive slots of one template on all ranks of the group; the first only couples them.
GroupRun run_group(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
                   std::int64_t device_sms, const Imbalance& imbalance);

}  // namespace plumbline::sim
