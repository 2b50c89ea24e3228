#include <algorithm>
#include <cassert>

#include "model/schedule/evaluate.h"
#include "model/schedule/kinds/kinds.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {

void post_receives_ahead(Schedule& schedule) {
  const auto transfers = point_to_point_batches(schedule, PointToPoint::eager);
  const Result<ScheduleEvaluation> run = evaluate(schedule, ScheduleCosts{});
  assert(run);
  // In an eager schedule the receives of batch k are those of op k, and the sends those of op k-1.
  MessageTable<double> ends(schedule);
  for (std::size_t rank = 0; rank < transfers.size(); ++rank)
    for (std::size_t k = 1; k < transfers[rank].size(); ++k)
      for (const Transfer& transfer : transfers[rank][k])
        if (transfer.send)
          ends.at(transfer) = run->start[rank][k - 1] + ScheduleCosts{}.of(schedule.ranks[rank][k - 1].type);
  schedule.postings.assign(transfers.size(), {});
  for (std::size_t rank = 0; rank < transfers.size(); ++rank) {
    const std::vector<double>& start = run->start[rank];
    for (std::size_t k = 0; k < transfers[rank].size(); ++k)
      for (const Transfer& transfer : transfers[rank][k]) {
        if (transfer.send) continue;
        const auto batch = std::lower_bound(start.begin(), start.end(), ends.at(transfer)) - start.begin();
        if (static_cast<std::size_t>(batch) == k) continue;
        schedule.postings[rank].push_back(
            {static_cast<std::int32_t>(k), false, transfer.forward, static_cast<std::int32_t>(batch)});
      }
  }
}

}  // namespace plumbline::model
