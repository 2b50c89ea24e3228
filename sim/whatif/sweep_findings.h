// What a sweep shows: where its best point lies, how wide the plateau around it is, where a quantity stays small,
// and how much slower matrix products become.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "model/base/error.h"
#include "sim/whatif/sweep.h"

namespace plumbline::sim {

// Neighbouring entries of a list, both ends included.
struct Stretch {
  std::size_t first = 0, last = 0;
  bool operator==(const Stretch&) const = default;
};

// The position of the smallest cost; the first of several. Entries without a value do not count.
std::optional<std::size_t> cheapest(const std::vector<std::optional<double>>& costs);

// The stretch around `best` whose costs are at most (1 + tolerance) times that of `best`. An entry without a value
// ends it.
Stretch plateau(const std::vector<std::optional<double>>& costs, std::size_t best, double tolerance);

// All stretches with values of at most `limit`, in order. An entry without a value ends a stretch.
std::vector<Stretch> stretches_within(const std::vector<std::optional<double>>& values, double limit);

// Seconds that compute waits for communication inside the slots, mean over the pipeline ranks. Nothing where the
// fidelity does not look inside a slot.
std::optional<double> exposed_seconds(const model::StepTimes& step);

// The share of overlapped pairs in which compute waits for communication; of all slots where the schedule overlaps no
// two chunks. What other slots expose no overlap could hide.
std::optional<double> exposed_share(const model::StepTimes& step);

// Seconds of matrix products on rank 0; nothing where the fidelity does not look inside a slot.
std::optional<double> product_seconds(const model::StepTimes& step);

// Per point: product_seconds over the smallest among the points that do the same work on the same kind of GPU with
// the same profile. Nothing where either is not known.
std::vector<std::optional<double>> product_slowdowns(const std::vector<model::Result<SweepPoint>>& points);

}  // namespace plumbline::sim
