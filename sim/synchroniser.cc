#include "sim/synchroniser.h"

#include <algorithm>

namespace plumbline::sim {

namespace {

std::vector<std::vector<std::int32_t>> holders(const model::Schedule& schedule) {
  std::vector<std::vector<std::int32_t>> ranks(static_cast<std::size_t>(schedule.stages));
  const auto stages = stages_of(schedule);
  for (std::size_t rank = 0; rank < stages.size(); ++rank)
    for (const std::int32_t stage : stages[rank])
      ranks[static_cast<std::size_t>(stage)].push_back(static_cast<std::int32_t>(rank));
  return ranks;
}

}  // namespace

Synchroniser::Synchroniser(Loop& loop, const model::StepProgram& program, const std::vector<OptimizerTiming>& timings,
                           bool reduces, Collectives::Listener listener)
    : program_(program),
      timings_(timings),
      reduces_(reduces),
      listener_(std::move(listener)),
      ranks_(program.schedule.ranks.size()),
      collectives_(loop, holders(program.schedule), ranks_.size(),
                   {listener_.busy, [this](const Collectives::Run& run) { note(run); }}) {
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) index(rank);
}

const std::vector<model::Synchronisation>& Synchroniser::all(std::int32_t rank) const {
  static const std::vector<model::Synchronisation> none;
  return program_.synchronisations.empty() ? none : program_.synchronisations[static_cast<std::size_t>(rank)];
}

void Synchroniser::index(std::int32_t rank) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  std::map<Key, std::int32_t> seen;
  for (std::uint32_t i = 0; i < all(rank).size(); ++i) {
    const model::Synchronisation& s = all(rank)[i];
    r.earlier.push_back(seen[{s.kind, s.stage, s.unit}]++);
    r.starts[{s.after.slot, s.after.segment}].push_back(i);
    if (s.before.slot >= 0) r.gates[s.before.slot].push_back(i);
  }
}

void Synchroniser::step_started() {
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) ended(rank, -1, -1);
}

void Synchroniser::ended(std::int32_t rank, std::int32_t slot, std::int32_t segment) {
  const auto& starts = ranks_[static_cast<std::size_t>(rank)].starts;
  const auto found = starts.find({slot, segment});
  if (found == starts.end()) return;
  for (const std::uint32_t i : found->second) {
    const model::Synchronisation& s = all(rank)[i];
    if (!happens(s)) continue;
    const auto& unit = timings_[static_cast<std::size_t>(s.stage)].units[static_cast<std::size_t>(s.unit)];
    ++ranks_[static_cast<std::size_t>(rank)].unfinished;
    collectives_.post(rank, s.kind, s.stage, s.unit, s.kind == Kind::reduce ? unit.reduce : unit.gather);
  }
}

// What one unit gathers (or reduces) again and again ends in the order of its uses.
bool Synchroniser::awaited(const Rank& r, std::int32_t rank, std::uint32_t i) const {
  const model::Synchronisation& s = all(rank)[i];
  if (!happens(s)) return false;
  const auto done = r.done.find({s.kind, s.stage, s.unit});
  return done == r.done.end() || done->second <= r.earlier[i];
}

bool Synchroniser::open(std::int32_t rank, std::int32_t slot, std::int32_t segment) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const auto found = r.gates.find(slot);
  if (found == r.gates.end()) return true;
  return std::ranges::none_of(found->second, [&](std::uint32_t i) {
    const std::int32_t gated = all(rank)[i].before.segment;
    return (gated < 0 || gated == segment) && awaited(r, rank, i);
  });
}

bool Synchroniser::quiet(std::int32_t rank, std::int32_t slot) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  if (r.unfinished > 0) return false;
  for (auto at = r.starts.lower_bound({slot, 0}); at != r.starts.end() && at->first.first == slot; ++at)
    if (std::ranges::any_of(at->second, [&](std::uint32_t i) { return happens(all(rank)[i]); })) return false;
  const auto gates = r.gates.find(slot);
  return gates == r.gates.end() ||
         std::ranges::none_of(gates->second, [&](std::uint32_t i) { return awaited(r, rank, i); });
}

void Synchroniser::note(const Collectives::Run& run) {
  for (const std::int32_t rank : run.ranks) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    --r.unfinished;
    ++r.done[{run.kind, run.stage, run.unit}];
    if (run.kind == Kind::reduce) r.reduced[{run.stage, run.unit}] = to_seconds(run.end);
  }
  listener_.ended(run);
}

double Synchroniser::copy_seconds(std::int32_t stage, std::int32_t unit) const {
  return timings_[static_cast<std::size_t>(stage)].units[static_cast<std::size_t>(unit)].copy;
}

GradientsReady Synchroniser::ready(std::int32_t rank, double end) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  GradientsReady ready{end, 0, {}, {}};
  std::vector<std::pair<double, double>> copies;
  for (const model::Synchronisation& s : all(rank)) {
    if (s.kind != Kind::reduce) continue;
    const auto found = r.reduced.find({s.stage, s.unit});
    const double reduced = found == r.reduced.end() ? end : found->second;
    if (found != r.reduced.end()) ready.reduced = std::max(ready.reduced, reduced);
    const double copy = copy_seconds(s.stage, s.unit);
    const auto index = static_cast<std::size_t>(&s - all(rank).data());
    if (copy > 0 && r.earlier[index] == 0) copies.emplace_back(reduced, copy);  // each unit once
  }
  std::ranges::stable_sort(copies, {}, &std::pair<double, double>::first);
  for (const auto& [at, seconds] : copies) {
    ready.on_host.push_back(at);
    ready.host_copies.push_back(seconds);
  }
  return ready;
}

}  // namespace plumbline::sim
