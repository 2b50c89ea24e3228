#include "sim/step/detail/data_parallel_runner.h"

#include <algorithm>
#include <utility>

namespace plumbline::sim {
namespace {

constexpr std::uint32_t flow_code = 1;

std::vector<std::vector<std::int32_t>> holders(const model::Schedule& schedule) {
  std::vector<std::vector<std::int32_t>> ranks(static_cast<std::size_t>(schedule.stages));
  const auto stages = stages_of(schedule);
  for (std::size_t rank = 0; rank < stages.size(); ++rank)
    for (const std::int32_t stage : stages[rank])
      ranks[static_cast<std::size_t>(stage)].push_back(static_cast<std::int32_t>(rank));
  return ranks;
}

using Moment = model::DataParallelCollectives::Moment;

// Sorts the indices of collectives by one of their moments; those of a slot begin at begins[slot + 1].
void sort_by(Moment model::DataParallelCollectives::*moment, const std::vector<model::DataParallelCollectives>& all,
             std::int32_t slots, std::vector<std::uint32_t>& indices, std::vector<std::uint32_t>& begins) {
  const auto slot_of = [&](std::uint32_t i) { return (all[i].*moment).slot; };
  for (std::uint32_t i = 0; i < all.size(); ++i) indices.push_back(i);
  std::ranges::stable_sort(indices, {},
                           [&](std::uint32_t i) { return std::pair(slot_of(i), (all[i].*moment).segment); });
  std::uint32_t next = 0;
  for (std::int32_t slot = -1; slot <= slots; ++slot) {
    while (next < indices.size() && slot_of(indices[next]) < slot) ++next;
    begins.push_back(next);
  }
}

std::span<const std::uint32_t> of_slot(const std::vector<std::uint32_t>& indices,
                                       const std::vector<std::uint32_t>& begins, std::int32_t slot) {
  const auto at = static_cast<std::size_t>(slot + 1);
  return {indices.data() + begins[at], indices.data() + begins[at + 1]};
}

std::span<const std::uint32_t> of_segment(std::span<const std::uint32_t> slot, std::int32_t segment,
                                          const std::vector<model::DataParallelCollectives>& all,
                                          Moment model::DataParallelCollectives::*moment) {
  const auto found =
      std::ranges::equal_range(slot, segment, {}, [&](std::uint32_t i) { return (all[i].*moment).segment; });
  return {found.begin(), found.end()};
}

}  // namespace

Collectives::Collectives(Loop& loop, std::vector<std::vector<std::int32_t>> holders, std::size_t ranks, double slowdown,
                         std::vector<GroupLinks> groups, Listener listener)
    : loop_(loop),
      holders_(std::move(holders)),
      groups_(std::move(groups)),
      listener_(std::move(listener)),
      slowdown_(slowdown),
      busy_(ranks, false),
      computing_(ranks, false),
      running_(ranks),
      waiting_(ranks) {}

void Collectives::post(std::int32_t rank, Kind kind, std::int32_t stage, std::int32_t unit, const Work& work) {
  const Key key{kind, stage, unit};
  const auto entry = incomplete_.find(key);
  if (entry != incomplete_.end()) {
    Posted& posted = posted_[entry->second];
    posted.run.ranks.push_back(rank);
    if (--posted.missing > 0) return;
    const std::size_t index = entry->second;
    incomplete_.erase(entry);
    return all_posted(index);
  }
  const std::size_t missing = holders_[static_cast<std::size_t>(stage)].size() - 1;
  posted_.push_back(
      {.run = {kind, stage, unit, {rank}, 0, 0}, .seconds = work.seconds, .missing = missing, .load = work.load});
  if (missing == 0) return all_posted(posted_.size() - 1);
  incomplete_[key] = posted_.size() - 1;
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
  for (const std::int32_t rank : posted.run.ranks) {
    busy_[static_cast<std::size_t>(rank)] = true;
    running_[static_cast<std::size_t>(rank)] = index;
  }
  posted.run.start = loop_.now();
  start_flows(index);
  if (posted.legs.empty()) schedule_end(index);
  for (const std::int32_t rank : posted.run.ranks) listener_.busy(rank, true);
}

bool Collectives::overlapped(const Posted& posted) const {
  return std::ranges::any_of(posted.run.ranks,
                             [this](std::int32_t rank) { return computing_[static_cast<std::size_t>(rank)]; });
}

// Every rank sends over the links of its own GPU, at the pace of the cost function unless a shared link is slower. The
// collective ends with the last flow.
void Collectives::start_flows(std::size_t index) {
  Posted& posted = posted_[index];
  if (groups_.empty() || posted.load.group < 0) return;
  const double seconds = to_seconds(to_time(posted.seconds * (overlapped(posted) ? slowdown_ : 1)));
  if (seconds <= 0) return;
  const auto& links = *groups_[static_cast<std::size_t>(posted.load.group)].ranks;
  std::vector<Flow> flows;
  for (const std::int32_t rank : posted.run.ranks) {
    const RankLinks& own = links[static_cast<std::size_t>(rank)];
    for (const auto& [leg, sent] :
         {std::pair(&own.network, posted.load.network_bytes), std::pair(&own.node, posted.load.node_bytes)}) {
      const double bytes = sent / leg->times;
      if (bytes > 0 && !leg->footprint.empty())
        flows.push_back({.footprint = &leg->footprint,
                         .bytes = bytes,
                         .rate_limit = bytes / seconds,
                         .owner = static_cast<std::uint32_t>(rank) + 1});
    }
  }
  posted.running = flows.size();
  for (const Flow& flow : flows) posted.legs.push_back({loop_.flow(flow, {this, flow_code, 0, index}), flow.bytes});
}

void Collectives::schedule_end(std::size_t index) {
  Posted& posted = posted_[index];
  posted.factor = overlapped(posted) ? slowdown_ : 1;
  posted.since = loop_.now();
  const std::uint64_t argument = (static_cast<std::uint64_t>(++posted.version) << 32) | index;
  loop_.at(loop_.now() + to_time(posted.seconds * posted.factor), {this, 0, 0, argument});
}

void Collectives::computing(std::int32_t rank, bool runs) {
  const auto r = static_cast<std::size_t>(rank);
  if (slowdown_ == 1 || computing_[r] == runs) return;
  computing_[r] = runs;
  if (!busy_[r]) return;
  Posted& posted = posted_[running_[r]];
  for (const Posted::Leg& leg : posted.legs)
    loop_.set_rate_limit(leg.flow, leg.bytes / (posted.seconds * (overlapped(posted) ? slowdown_ : 1)));
  if (!posted.legs.empty()) return;
  posted.seconds = std::max(0.0, posted.seconds - to_seconds(loop_.now() - posted.since) / posted.factor);
  schedule_end(running_[r]);
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

// No waiting collective could start before, so one that can start now was waiting for one of these ranks.
void Collectives::start_on(const std::vector<std::int32_t>& free_ranks) {
  while (const std::optional<std::size_t> index = first_to_start(free_ranks)) {
    for (const std::int32_t rank : posted_[*index].run.ranks) waiting_[static_cast<std::size_t>(rank)].erase(*index);
    start(*index);
  }
}

void Collectives::handle(std::uint32_t code, std::uint64_t argument) {
  Posted& posted = posted_[argument & 0xffffffff];
  if (code == flow_code) {
    if (--posted.running == 0) end(argument);
    return;
  }
  if (posted.version == static_cast<std::uint32_t>(argument >> 32)) end(argument & 0xffffffff);  // else another rate
}

void Collectives::end(std::size_t index) {
  posted_[index].legs.clear();
  Run run = posted_[index].run;
  run.end = loop_.now();
  for (const std::int32_t rank : run.ranks) busy_[static_cast<std::size_t>(rank)] = false;
  start_on(run.ranks);
  for (const std::int32_t rank : run.ranks)
    if (!busy_[static_cast<std::size_t>(rank)]) listener_.busy(rank, false);
  listener_.ended(run);
}

DataParallelRunner::DataParallelRunner(Loop& loop, const model::StepProgram& program,
                                       const std::vector<OptimizerTiming>& timings, bool reduces, double slowdown,
                                       const std::vector<GroupLinks>& groups, Collectives::Listener listener)
    : program_(program),
      timings_(timings),
      reduces_(reduces),
      listener_(std::move(listener)),
      ranks_(program.schedule.ranks.size()),
      collectives_(loop, holders(program.schedule), ranks_.size(), slowdown, groups,
                   {listener_.busy, [this](const Collectives::Run& run) { note(run); }}) {
  std::size_t units = 0;
  for (const OptimizerTiming& timing : timings_)
    first_unit_.push_back(std::exchange(units, units + timing.units.size()));
  first_unit_.push_back(units);
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) index(rank);
}

const std::vector<model::DataParallelCollectives>& DataParallelRunner::all(std::int32_t rank) const {
  static const std::vector<model::DataParallelCollectives> none;
  return program_.data_parallel.empty() ? none : program_.data_parallel[static_cast<std::size_t>(rank)];
}

void DataParallelRunner::index(std::int32_t rank) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const auto slots = static_cast<std::int32_t>(program_.schedule.ranks[static_cast<std::size_t>(rank)].size());
  sort_by(&model::DataParallelCollectives::after, all(rank), slots, r.starts, r.starts_of_slot);
  sort_by(&model::DataParallelCollectives::before, all(rank), slots, r.gates, r.gates_of_slot);
  r.gathered.resize(first_unit_.back());
  r.reduced.resize(first_unit_.back());
  std::vector<std::int32_t> gathers(first_unit_.back()), reductions(first_unit_.back());  // counted so far
  for (const model::DataParallelCollectives& s : all(rank))
    r.earlier.push_back((s.kind == Kind::reduce ? reductions : gathers)[unit_index(s.stage, s.unit)]++);
}

void DataParallelRunner::step_started() {
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) ended(rank, -1, -1);
}

void DataParallelRunner::ended(std::int32_t rank, std::int32_t slot, std::int32_t segment) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const auto here = of_slot(r.starts, r.starts_of_slot, slot);
  for (const std::uint32_t i : of_segment(here, segment, all(rank), &model::DataParallelCollectives::after)) {
    const model::DataParallelCollectives& s = all(rank)[i];
    if (!happens(s)) continue;
    const auto& unit = timings_[static_cast<std::size_t>(s.stage)].units[static_cast<std::size_t>(s.unit)];
    ++r.unfinished;
    const Collectives::Work reduce =
        reduces_ ? Collectives::Work{unit.reduce, unit.reduce_load} : Collectives::Work{unit.local, unit.local_load};
    collectives_.post(rank, s.kind, s.stage, s.unit,
                      s.kind == Kind::reduce ? reduce : Collectives::Work{unit.gather, unit.gather_load});
  }
}

bool DataParallelRunner::happens(const model::DataParallelCollectives& s) const {
  const auto& units = timings_[static_cast<std::size_t>(s.stage)].units;
  return reduces_ || s.kind == Kind::gather || units[static_cast<std::size_t>(s.unit)].local > 0;
}

// Repeated gathers (or reductions) of one unit end in the order of their uses.
bool DataParallelRunner::awaited(const Rank& r, std::int32_t rank, std::uint32_t i) const {
  const model::DataParallelCollectives& s = all(rank)[i];
  const auto& progress = s.kind == Kind::reduce ? r.reduced : r.gathered;
  return happens(s) && progress[unit_index(s.stage, s.unit)].done <= r.earlier[i];
}

bool DataParallelRunner::any_awaited(std::int32_t rank, std::span<const std::uint32_t> gates) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  return std::ranges::any_of(gates, [&](std::uint32_t i) { return awaited(r, rank, i); });
}

bool DataParallelRunner::open(std::int32_t rank, std::int32_t slot, std::int32_t segment) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const auto here = of_slot(r.gates, r.gates_of_slot, slot);
  if (here.empty()) return true;
  for (const std::int32_t gated : {std::int32_t{-1}, segment})
    if (any_awaited(rank, of_segment(here, gated, all(rank), &model::DataParallelCollectives::before))) return false;
  return true;
}

bool DataParallelRunner::quiet(std::int32_t rank, std::int32_t slot) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  if (r.unfinished > 0 || any_awaited(rank, of_slot(r.gates, r.gates_of_slot, slot))) return false;
  return std::ranges::none_of(of_slot(r.starts, r.starts_of_slot, slot), [&](std::uint32_t i) {
    const model::DataParallelCollectives& s = all(rank)[i];
    return s.after.segment >= 0 && happens(s);
  });
}

void DataParallelRunner::note(const Collectives::Run& run) {
  for (const std::int32_t rank : run.ranks) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    Progress& progress = (run.kind == Kind::reduce ? r.reduced : r.gathered)[unit_index(run.stage, run.unit)];
    --r.unfinished;
    ++progress.done;
    progress.end = to_seconds(run.end);
  }
  listener_.ended(run);
}

double DataParallelRunner::copy_seconds(std::int32_t stage, std::int32_t unit) const {
  return timings_[static_cast<std::size_t>(stage)].units[static_cast<std::size_t>(unit)].copy;
}

GradientsReady DataParallelRunner::ready(std::int32_t rank, double end) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  double last = 0;
  std::vector<std::pair<double, double>> copies;
  for (const model::DataParallelCollectives& s : all(rank)) {
    if (s.kind != Kind::reduce) continue;
    const Progress& progress = r.reduced[unit_index(s.stage, s.unit)];
    const double reduced = progress.done == 0 ? end : progress.end;
    if (progress.done > 0) last = std::max(last, reduced);
    const double copy = copy_seconds(s.stage, s.unit);
    const auto index = static_cast<std::size_t>(&s - all(rank).data());
    if (copy > 0 && r.earlier[index] == 0) copies.emplace_back(reduced, copy);  // each unit once
  }
  return gradients_ready(end, last, std::move(copies));
}

}  // namespace plumbline::sim
