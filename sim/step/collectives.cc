#include "sim/step/collectives.h"

#include <algorithm>
#include <utility>

namespace plumbline::sim {

Collectives::Collectives(Loop& loop, std::vector<std::vector<std::int32_t>> holders, std::size_t ranks,
                         Listener listener)
    : loop_(loop), holders_(std::move(holders)), listener_(std::move(listener)), busy_(ranks, false), waiting_(ranks) {}

void Collectives::post(std::int32_t rank, Kind kind, std::int32_t stage, std::int32_t unit, double seconds) {
  const Key key{kind, stage, unit};
  const auto met = meeting_.find(key);
  if (met != meeting_.end()) {
    Posted& posted = posted_[met->second];
    posted.run.ranks.push_back(rank);
    if (--posted.missing > 0) return;
    const std::size_t index = met->second;
    meeting_.erase(met);
    return all_posted(index);
  }
  const std::size_t missing = holders_[static_cast<std::size_t>(stage)].size() - 1;
  posted_.push_back({{kind, stage, unit, {rank}, 0, 0}, seconds, missing});
  if (missing == 0) return all_posted(posted_.size() - 1);
  meeting_[key] = posted_.size() - 1;
}

bool Collectives::can_start(const Posted& posted) const {
  return std::ranges::none_of(posted.run.ranks,
                              [this](std::int32_t rank) { return busy_[static_cast<std::size_t>(rank)]; });
}

void Collectives::all_posted(std::size_t index) {
  if (can_start(posted_[index])) return start(index);
  for (const std::int32_t rank : posted_[index].run.ranks) waiting_[static_cast<std::size_t>(rank)].insert(index);
}

void Collectives::start(std::size_t index) {
  Posted& posted = posted_[index];
  for (const std::int32_t rank : posted.run.ranks) busy_[static_cast<std::size_t>(rank)] = true;
  posted.run.start = loop_.now();
  loop_.at(loop_.now() + to_time(posted.seconds), {this, 0, 0, index});
  for (const std::int32_t rank : posted.run.ranks) listener_.busy(rank, true);
}

std::optional<std::size_t> Collectives::first_to_start(const std::vector<std::int32_t>& ranks) const {
  std::optional<std::size_t> first;
  for (const std::int32_t rank : ranks) {
    if (busy_[static_cast<std::size_t>(rank)]) continue;
    const auto& waiting = waiting_[static_cast<std::size_t>(rank)];
    const auto next = std::ranges::find_if(waiting, [this](std::size_t index) { return can_start(posted_[index]); });
    if (next != waiting.end()) first = std::min(first.value_or(*next), *next);
  }
  return first;
}

// Nothing that waits could start before; so what can start now waits for one of these ranks.
void Collectives::start_on(const std::vector<std::int32_t>& free_ranks) {
  while (const std::optional<std::size_t> index = first_to_start(free_ranks)) {
    for (const std::int32_t rank : posted_[*index].run.ranks) waiting_[static_cast<std::size_t>(rank)].erase(*index);
    start(*index);
  }
}

void Collectives::handle(std::uint32_t /*code*/, std::uint64_t argument) {
  Run run = posted_[argument].run;
  run.end = loop_.now();
  for (const std::int32_t rank : run.ranks) busy_[static_cast<std::size_t>(rank)] = false;
  start_on(run.ranks);
  for (const std::int32_t rank : run.ranks)
    if (!busy_[static_cast<std::size_t>(rank)]) listener_.busy(rank, false);
  listener_.ended(run);
}

}  // namespace plumbline::sim
