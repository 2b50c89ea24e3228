#include "sim/step/detail/data_parallel_runner.h"

#include <algorithm>

namespace plumbline::sim {
namespace {

constexpr std::uint32_t leg_ended = 1;

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

Collectives::Collectives(Loop& loop, std::size_t gpus, std::int32_t replicas, double slowdown,
                         std::vector<GroupLinks> groups, Listener listener)
    : loop_(loop),
      replicas_(replicas),
      groups_(std::move(groups)),
      listener_(std::move(listener)),
      slowdown_(slowdown),
      busy_(gpus, false),
      computing_(gpus, false),
      running_(gpus),
      queues_(gpus) {}

void Collectives::post(std::int32_t gpu, std::int32_t rank, const Posting& posting, const Work& work) {
  const auto [turn, first] = turns_.try_emplace({posting.kind, posting.stage, posting.unit, posting.number});
  if (first) turn->second = {.order = ++begun_, .first_rank = rank, .running = posting.ranks * replicas_};
  std::uint64_t& reached = turn->second.reached;
  if (reached == 0 && (posting.ranks == 1 || rank != turn->second.first_rank)) reached = ++reached_;
  const std::pair group{turn->second.order, posting.group};
  const auto known = posting.members > 1 ? incomplete_.find(group) : incomplete_.end();
  const std::size_t index = known != incomplete_.end() ? known->second : add(posting, work, turn);
  if (posting.members > 1 && known == incomplete_.end()) incomplete_.emplace(group, index);
  Posted& posted = posted_[index];
  posted.run.gpus.push_back(gpu);
  queues_[static_cast<std::size_t>(gpu)].push_back(index);
  if (--posted.missing > 0) return;
  if (posting.members > 1) incomplete_.erase(group);
  start_on(posted.run.gpus);
}

// Returns the place of a collective that no GPU has posted.
std::size_t Collectives::add(const Posting& posting, const Work& work, Turns::iterator turn) {
  std::size_t index = posted_.size();
  if (free_.empty()) {
    posted_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  posted_[index] = {.run = {posting.kind, posting.stage, posting.unit, {}, 0, 0},
                    .order = ++posted_so_far_,
                    .seconds = work.seconds,
                    .missing = posting.members,
                    .turn = turn,
                    .version = posted_[index].version,
                    .load = work.load};
  return index;
}

// Of collectives that can start at the same time, the one whose turn was first starts first.
bool Collectives::in_the_way(std::size_t before, std::size_t index) const {
  const Turn &first = posted_[before].turn->second, &turn = posted_[index].turn->second;
  if (posted_[before].missing == 0) return first.order < turn.order;
  return first.reached > 0 && first.reached < turn.reached;
}

bool Collectives::can_start(std::size_t index) const {
  return std::ranges::none_of(posted_[index].run.gpus, [&](std::int32_t gpu) {
    const auto g = static_cast<std::size_t>(gpu);
    return busy_[g] || std::ranges::any_of(queues_[g], [&](std::size_t other) { return in_the_way(other, index); });
  });
}

// Starts what waited for these GPUs and can start now.
void Collectives::start_on(const std::vector<std::int32_t>& gpus) {
  candidates_.clear();
  for (const std::int32_t gpu : gpus)
    for (const std::size_t index : queues_[static_cast<std::size_t>(gpu)])
      if (posted_[index].missing == 0 && !std::exchange(posted_[index].candidate, true)) candidates_.push_back(index);
  std::ranges::sort(candidates_, {}, [this](std::size_t index) {
    return std::pair(posted_[index].turn->second.order, posted_[index].order);
  });
  for (const std::size_t index : candidates_) {
    posted_[index].candidate = false;
    if (can_start(index)) start(index);
  }
}

void Collectives::start(std::size_t index) {
  Posted& posted = posted_[index];
  for (const std::int32_t gpu : posted.run.gpus) {
    const auto g = static_cast<std::size_t>(gpu);
    busy_[g] = true;
    running_[g] = index;
    std::erase(queues_[g], index);
  }
  posted.run.start = loop_.now();
  start_flows(index);
  if (posted.legs.empty()) schedule_end(index);
  for (const std::int32_t gpu : posted.run.gpus) listener_.busy(gpu, true);
}

bool Collectives::overlapped(const Posted& posted) const {
  return std::ranges::any_of(posted.run.gpus,
                             [this](std::int32_t gpu) { return computing_[static_cast<std::size_t>(gpu)]; });
}

// Every rank sends over the links of its own GPU, at the pace of the cost function unless a shared link is slower. The
// collective ends with the last flow.
void Collectives::start_flows(std::size_t index) {
  Posted& posted = posted_[index];
  if (groups_.empty() || posted.load.group < 0) return;
  posted.factor = overlapped(posted) ? slowdown_ : 1;
  const double seconds = to_seconds(to_time(posted.seconds * posted.factor));
  if (seconds <= 0) return;
  const auto& links = *groups_[static_cast<std::size_t>(posted.load.group)].ranks;
  std::vector<Flow> flows;
  for (const std::int32_t gpu : posted.run.gpus) {
    const RankLinks& own = links[static_cast<std::size_t>(gpu / replicas_)];
    for (const auto& [leg, sent] :
         {std::pair(&own.network, posted.load.network_bytes), std::pair(&own.node, posted.load.node_bytes)}) {
      const double bytes = sent / leg->times;
      if (bytes > 0 && !leg->footprint.empty())
        flows.push_back({.footprint = &leg->footprint,
                         .bytes = bytes,
                         .rate_limit = bytes / seconds,
                         .owner = static_cast<std::uint32_t>(gpu) + 1});
    }
  }
  posted.running = flows.size();
  for (const Flow& flow : flows) posted.legs.push_back({loop_.flow(flow, {this, leg_ended, 0, index}), flow.bytes});
}

void Collectives::limit_flows(Posted& posted) {
  const double factor = overlapped(posted) ? slowdown_ : 1;
  if (factor == posted.factor) return;
  posted.factor = factor;
  for (const Posted::Leg& leg : posted.legs) loop_.set_rate_limit(leg.flow, leg.bytes / (posted.seconds * factor));
}

void Collectives::schedule_end(std::size_t index) {
  Posted& posted = posted_[index];
  posted.factor = overlapped(posted) ? slowdown_ : 1;
  posted.since = loop_.now();
  const std::uint64_t argument = (static_cast<std::uint64_t>(++posted.version) << 32) | index;
  loop_.at(loop_.now() + to_time(posted.seconds * posted.factor), {this, 0, 0, argument});
}

void Collectives::computing(std::int32_t gpu, bool runs) {
  const auto g = static_cast<std::size_t>(gpu);
  if (slowdown_ == 1 || computing_[g] == runs) return;
  computing_[g] = runs;
  if (!busy_[g]) return;
  Posted& posted = posted_[running_[g]];
  if (!posted.legs.empty()) return limit_flows(posted);
  posted.seconds = std::max(0.0, posted.seconds - to_seconds(loop_.now() - posted.since) / posted.factor);
  schedule_end(running_[g]);
}

void Collectives::handle(std::uint32_t code, std::uint64_t argument) {
  Posted& posted = posted_[argument & 0xffffffff];
  if (code == leg_ended) {
    if (--posted.running == 0) end(argument);
    return;
  }
  if (posted.version == static_cast<std::uint32_t>(argument >> 32)) end(argument & 0xffffffff);  // else another rate
}

void Collectives::end(std::size_t index) {
  Run run = std::move(posted_[index].run);
  run.end = loop_.now();
  const Turns::iterator turn = posted_[index].turn;
  turn->second.running -= static_cast<std::int32_t>(run.gpus.size());
  if (turn->second.running == 0) turns_.erase(turn);
  free_.push_back(index);
  for (const std::int32_t gpu : run.gpus) busy_[static_cast<std::size_t>(gpu)] = false;
  start_on(run.gpus);
  for (const std::int32_t gpu : run.gpus)
    if (!busy_[static_cast<std::size_t>(gpu)]) listener_.busy(gpu, false);
  listener_.ended(run);
}

DataParallelRunner::DataParallelRunner(Loop& loop, const model::StepProgram& program,
                                       const std::vector<OptimizerTiming>& timings, std::int64_t replicas, bool reduces,
                                       double slowdown, const std::vector<GroupLinks>& groups,
                                       Collectives::Listener listener)
    : program_(program),
      timings_(timings),
      replicas_(static_cast<std::int32_t>(replicas)),
      reduces_(reduces),
      listener_(std::move(listener)),
      ranks_(program.schedule.ranks.size()),
      gpus_(ranks_.size() * static_cast<std::size_t>(replicas)),
      collectives_(loop, gpus_.size(), replicas_, slowdown, groups,
                   {listener_.busy, [this](const Collectives::Run& run) { note(run); }}) {
  const auto stages = stages_of(program.schedule);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) index(static_cast<std::int32_t>(rank), stages[rank]);
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    const std::size_t units = rank_on(static_cast<std::int32_t>(gpu)).units;
    gpus_[gpu].gathered.resize(units);
    gpus_[gpu].reduced.resize(units);
  }
  find_members();
}

const std::vector<model::DataParallelCollectives>& DataParallelRunner::all(std::int32_t rank) const {
  static const std::vector<model::DataParallelCollectives> none;
  return program_.data_parallel.empty() ? none : program_.data_parallel[static_cast<std::size_t>(rank)];
}

void DataParallelRunner::index(std::int32_t rank, const std::vector<std::int32_t>& stages) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const auto slots = static_cast<std::int32_t>(program_.schedule.ranks[static_cast<std::size_t>(rank)].size());
  sort_by(&model::DataParallelCollectives::after, all(rank), slots, r.starts, r.starts_of_slot);
  sort_by(&model::DataParallelCollectives::before, all(rank), slots, r.gates, r.gates_of_slot);
  r.first_unit.resize(timings_.size());
  for (const std::int32_t stage : stages) {
    r.first_unit[static_cast<std::size_t>(stage)] = r.units;
    r.units += timings_[static_cast<std::size_t>(stage)].units.size();
  }
  std::vector<std::int32_t> gathers(r.units), reductions(r.units);  // counted so far
  for (const model::DataParallelCollectives& s : all(rank))
    r.earlier.push_back((s.kind == Kind::reduce ? reductions : gathers)[unit_index(r, s.stage, s.unit)]++);
}

// Where two pipeline ranks hold a stage, half of a group that spans both lies on each.
void DataParallelRunner::find_members() {
  std::vector<std::size_t> holders(timings_.size(), 0);
  for (const auto& stages : stages_of(program_.schedule))
    for (const std::int32_t stage : stages) ++holders[static_cast<std::size_t>(stage)];
  for (std::size_t stage = 0; stage < timings_.size(); ++stage) {
    auto& units = members_.emplace_back();
    for (const UnitTiming& unit : timings_[stage].units)
      units.push_back({Members{groups_index(unit.gatherers), holders[stage]},
                       Members{groups_index(reduces_ ? unit.reducers : unit.local_reducers), holders[stage]}});
  }
}

std::size_t DataParallelRunner::groups_index(const model::RankGroup& group) {
  const model::RankGroup here{std::max<std::int64_t>(1, std::min(group.ranks, replicas_ / group.stride)),
                              std::min<std::int64_t>(group.stride, replicas_)};
  const auto known = std::ranges::find_if(
      groups_, [&](const auto& entry) { return entry.first.ranks == here.ranks && entry.first.stride == here.stride; });
  const auto index = static_cast<std::size_t>(known - groups_.begin());
  if (known == groups_.end()) groups_.emplace_back(here, join_groups({&here, 1}, replicas_));
  return index;
}

void DataParallelRunner::step_started() {
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) ended(static_cast<std::int32_t>(gpu), -1, -1);
}

void DataParallelRunner::ended(std::int32_t gpu, std::int32_t slot, std::int32_t segment) {
  const std::int32_t rank = rank_of(gpu);
  const Rank& r = rank_on(gpu);
  const auto here = of_slot(r.starts, r.starts_of_slot, slot);
  for (const std::uint32_t i : of_segment(here, segment, all(rank), &model::DataParallelCollectives::after)) {
    const model::DataParallelCollectives& s = all(rank)[i];
    if (!happens(s)) continue;
    const auto stage = static_cast<std::size_t>(s.stage), unit = static_cast<std::size_t>(s.unit);
    const UnitTiming& timing = timings_[stage].units[unit];
    const Members& members = members_[stage][unit][static_cast<std::size_t>(s.kind)];
    const GpuGroups& groups = groups_[members.groups].second;
    const std::int32_t group = groups.of[static_cast<std::size_t>(gpu % replicas_)];
    ++gpus_[static_cast<std::size_t>(gpu)].unfinished;
    const Collectives::Work reduce = reduces_ ? Collectives::Work{timing.reduce, timing.reduce_load}
                                              : Collectives::Work{timing.local, timing.local_load};
    collectives_.post(gpu, rank,
                      {s.kind, s.stage, s.unit, r.earlier[i], static_cast<std::int32_t>(members.holders), group,
                       members.holders * groups.members[static_cast<std::size_t>(group)].size()},
                      s.kind == Kind::reduce ? reduce : Collectives::Work{timing.gather, timing.gather_load});
  }
}

bool DataParallelRunner::happens(const model::DataParallelCollectives& s) const {
  const auto& units = timings_[static_cast<std::size_t>(s.stage)].units;
  return reduces_ || s.kind == Kind::gather || units[static_cast<std::size_t>(s.unit)].local > 0;
}

// Repeated gathers (or reductions) of one unit end in the order of their uses.
bool DataParallelRunner::awaited(std::int32_t gpu, std::uint32_t i) const {
  const Rank& r = rank_on(gpu);
  const model::DataParallelCollectives& s = all(rank_of(gpu))[i];
  const Gpu& g = gpus_[static_cast<std::size_t>(gpu)];
  const auto& progress = s.kind == Kind::reduce ? g.reduced : g.gathered;
  return happens(s) && progress[unit_index(r, s.stage, s.unit)].done <= r.earlier[i];
}

bool DataParallelRunner::any_awaited(std::int32_t gpu, std::span<const std::uint32_t> gates) const {
  return std::ranges::any_of(gates, [&](std::uint32_t i) { return awaited(gpu, i); });
}

bool DataParallelRunner::open(std::int32_t gpu, std::int32_t slot, std::int32_t segment) const {
  const Rank& r = rank_on(gpu);
  const auto here = of_slot(r.gates, r.gates_of_slot, slot);
  if (here.empty()) return true;
  for (const std::int32_t gated : {std::int32_t{-1}, segment})
    if (any_awaited(gpu, of_segment(here, gated, all(rank_of(gpu)), &model::DataParallelCollectives::before)))
      return false;
  return true;
}

bool DataParallelRunner::quiet(std::int32_t gpu, std::int32_t slot) const {
  const Rank& r = rank_on(gpu);
  if (gpus_[static_cast<std::size_t>(gpu)].unfinished > 0) return false;
  if (any_awaited(gpu, of_slot(r.gates, r.gates_of_slot, slot))) return false;
  return std::ranges::none_of(of_slot(r.starts, r.starts_of_slot, slot), [&](std::uint32_t i) {
    const model::DataParallelCollectives& s = all(rank_of(gpu))[i];
    return s.after.segment >= 0 && happens(s);
  });
}

void DataParallelRunner::note(const Collectives::Run& run) {
  for (const std::int32_t gpu : run.gpus) {
    Gpu& g = gpus_[static_cast<std::size_t>(gpu)];
    Progress& progress =
        (run.kind == Kind::reduce ? g.reduced : g.gathered)[unit_index(rank_on(gpu), run.stage, run.unit)];
    --g.unfinished;
    ++progress.done;
    progress.end = to_seconds(run.end);
  }
  listener_.ended(run);
}

double DataParallelRunner::copy_seconds(std::int32_t stage, std::int32_t unit) const {
  return timings_[static_cast<std::size_t>(stage)].units[static_cast<std::size_t>(unit)].copy;
}

GradientsReady DataParallelRunner::ready(std::int32_t gpu, double end) const {
  const Rank& r = rank_on(gpu);
  const std::vector<model::DataParallelCollectives>& collectives = all(rank_of(gpu));
  double last = 0;
  std::vector<std::pair<double, double>> copies;
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const model::DataParallelCollectives& s = collectives[i];
    if (s.kind != Kind::reduce) continue;
    const Progress& progress = gpus_[static_cast<std::size_t>(gpu)].reduced[unit_index(r, s.stage, s.unit)];
    const double reduced = progress.done == 0 ? end : progress.end;
    if (progress.done > 0) last = std::max(last, reduced);
    const double copy = copy_seconds(s.stage, s.unit);
    if (copy > 0 && r.earlier[i] == 0) copies.emplace_back(reduced, copy);  // each unit once
  }
  return gradients_ready(end, last, std::move(copies));
}

}  // namespace plumbline::sim
