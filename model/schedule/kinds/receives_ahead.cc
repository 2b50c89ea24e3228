#include <algorithm>
#include <cassert>

#include "model/schedule/evaluate.h"
#include "model/schedule/kinds/kinds.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {
namespace {

// One time per message.
class MessageEnds {
 public:
  explicit MessageEnds(const Schedule& schedule)
      : stages_(static_cast<std::size_t>(schedule.stages)),
        micro_batches_(static_cast<std::size_t>(schedule.shape.micro_batches)),
        ends_(2 * static_cast<std::size_t>(schedule.directions) * stages_ * micro_batches_) {}

  double& of(const Hop& hop) {
    const std::size_t side = 2 * static_cast<std::size_t>(hop.direction) + (hop.forward ? 1 : 0);
    return ends_[(side * stages_ + static_cast<std::size_t>(hop.stage)) * micro_batches_ +
                 static_cast<std::size_t>(hop.micro_batch)];
  }

 private:
  std::size_t stages_, micro_batches_;
  std::vector<double> ends_;
};

}  // namespace

void post_receives_ahead(Schedule& schedule) {
  const auto hops = point_to_point_batches(schedule, PointToPoint::eager);
  const Result<ScheduleEvaluation> run = evaluate(schedule, ScheduleCosts{});
  assert(run);
  // Under eager the receives of batch k are those of op k, and the sends those of op k-1.
  MessageEnds ends(schedule);
  for (std::size_t rank = 0; rank < hops.size(); ++rank)
    for (std::size_t k = 1; k < hops[rank].size(); ++k)
      for (const Hop& hop : hops[rank][k])
        if (hop.send) {
          ends.of(hop) = run->start[rank][k - 1] + ScheduleCosts{}.of(schedule.ranks[rank][k - 1].type);
        }
  schedule.postings.assign(hops.size(), {});
  for (std::size_t rank = 0; rank < hops.size(); ++rank) {
    const std::vector<double>& start = run->start[rank];
    for (std::size_t k = 0; k < hops[rank].size(); ++k)
      for (const Hop& hop : hops[rank][k]) {
        if (hop.send) continue;
        const auto batch = std::lower_bound(start.begin(), start.end(), ends.of(hop)) - start.begin();
        if (static_cast<std::size_t>(batch) == k) continue;
        schedule.postings[rank].push_back(
            {static_cast<std::int32_t>(k), false, hop.forward, static_cast<std::int32_t>(batch)});
      }
  }
}

}  // namespace plumbline::model
