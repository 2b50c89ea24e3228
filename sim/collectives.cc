#include "sim/collectives.h"

#include <algorithm>
#include <utility>

namespace plumbline::sim {

Collectives::Collectives(Loop& loop, std::vector<std::vector<std::int32_t>> holders, std::size_t ranks,
                         Listener listener)
    : loop_(loop), holders_(std::move(holders)), listener_(std::move(listener)), busy_(ranks, false) {}

void Collectives::post(std::int32_t rank, Kind kind, std::int32_t stage, std::int32_t unit, double seconds) {
  const Key key{kind, stage, unit};
  const auto met = meeting_.find(key);
  if (met != meeting_.end()) {
    Posted& posted = posted_[met->second];
    posted.run.ranks.push_back(rank);
    if (--posted.missing == 0) meeting_.erase(met);
    return start_waiting();
  }
  const std::size_t missing = holders_[static_cast<std::size_t>(stage)].size() - 1;
  posted_.push_back({{kind, stage, unit, {rank}, 0, 0}, seconds, missing});
  waiting_.push_back(posted_.size() - 1);
  if (missing > 0) meeting_[key] = posted_.size() - 1;
  start_waiting();
}

bool Collectives::can_start(const Posted& posted) const {
  return posted.missing == 0 && std::ranges::none_of(posted.run.ranks, [this](std::int32_t rank) {
           return busy_[static_cast<std::size_t>(rank)];
         });
}

void Collectives::start_waiting() {
  std::vector<std::size_t> started;
  std::erase_if(waiting_, [&](std::size_t index) {
    Posted& posted = posted_[index];
    if (!can_start(posted)) return false;
    for (const std::int32_t rank : posted.run.ranks) busy_[static_cast<std::size_t>(rank)] = true;
    started.push_back(index);
    return true;
  });
  for (const std::size_t index : started) {
    Posted& posted = posted_[index];
    posted.run.start = loop_.now();
    loop_.at(loop_.now() + to_time(posted.seconds), {this, 0, 0, index});
    for (const std::int32_t rank : posted.run.ranks) listener_.busy(rank, true);
  }
}

void Collectives::handle(std::uint32_t /*code*/, std::uint64_t argument) {
  Run run = posted_[argument].run;
  run.end = loop_.now();
  for (const std::int32_t rank : run.ranks) busy_[static_cast<std::size_t>(rank)] = false;
  start_waiting();
  for (const std::int32_t rank : run.ranks)
    if (!busy_[static_cast<std::size_t>(rank)]) listener_.busy(rank, false);
  listener_.ended(run);
}

}  // namespace plumbline::sim
