#include "sim/predict/cached_stages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/program/data_parallel.h"
#include "sim/predict/memos.h"

namespace plumbline::sim {
namespace {

using model::CoRunner;

bool writes_gradients(model::OpType type) {
  return type == model::OpType::B || type == model::OpType::W || type == model::OpType::FB;
}

bool uses(const model::SlotTemplate& slot, model::Stream stream) {
  return std::ranges::find(slot.segments, stream, &model::Segment::stream) != slot.segments.end();
}

// Adds a kernel that moves so many bytes to a compute segment.
void add_copy(model::Bytes bytes, const CostModels& costs, SegmentTime& time) {
  for (std::size_t state = 0; state < communication_states; ++state)
    time.compute[state] += costs.kernels.moving(bytes, costs.partition.overlapped(static_cast<CoRunner>(state)));
}

// Returns the waits between two known ones, or in proportion to the nearest. Even ranks do not wait.
std::vector<double> waits_at(double deviation, const std::vector<StragglerWaits>& known) {
  const auto above = std::ranges::lower_bound(known, deviation, {}, &StragglerWaits::deviation);
  const StragglerWaits& near = above == known.end() ? known.back() : *above;
  if (above == known.begin() || above == known.end()) {
    std::vector<double> waits = near.seconds;
    for (double& wait : waits) wait *= near.deviation > 0 ? deviation / near.deviation : 1;
    return waits;
  }
  const StragglerWaits& below = *(above - 1);
  const double part = (deviation - below.deviation) / (near.deviation - below.deviation);
  std::vector<double> waits = below.seconds;
  for (std::size_t s = 0; s < waits.size(); ++s) waits[s] += part * (near.seconds[s] - waits[s]);
  return waits;
}

// Late launches rest on what the host takes to issue all of them, and on its waits for the GPU.
void attribute_host(const SlotHost& host, const model::HostCost& costs, Attribution& result) {
  if (host.late == 0) return;
  result.classes["host"] += host.late;
  const auto add = [&](const model::Share& share, double factor) {
    if (share.index >= 0) result.constants[share.index] += factor * share.seconds;
  };
  const double waited = costs.idle(host.calls), issued = costs.issue(host.calls);
  const double idle = issued > 0 ? std::min(host.late, waited) : host.late;
  if (waited > 0) add(costs.idle_share(host.calls), idle / waited);
  if (issued == 0) return;
  for (const model::Share& share : costs.issue_shares(host.calls)) add(share, (host.late - idle) / issued);
}

// `clock` is that of the slot (sim/step/slot_power.h), `host` what the host adds to it.
Attribution attribute(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                      double clock, const SlotHost& host) {
  Attribution result;
  attribute_host(host, costs.host, result);
  model::Conditions alone = costs.partition.overlapped(model::CoRunner::none);
  alone.clock = clock;
  const auto add_transfer = [&](const model::Share& share) { result.communication[share.index] += share.seconds; };
  for (const model::Segment& segment : slot.segments) {
    const model::Graph& graph = program.blocks[segment.block];
    for (std::uint16_t index : segment.operators) {
      const model::Operator& op = graph.operators[index];
      const model::OperatorClass kind = model::operator_class(graph, op);
      if (kind == model::OperatorClass::exchange) {
        add_transfer(costs.communication.all_to_all(graph, op).share);
      } else if (kind == model::OperatorClass::collective) {
        add_transfer(costs.communication.collective_share(graph, op));
      } else if (kind == model::OperatorClass::host_link) {
        add_transfer(costs.host.copy_share(graph, op));
      } else if (segment.stream != model::Stream::communication) {
        const model::KernelTime time = costs.kernels.time(graph, op, alone);
        result.classes[std::string(model::breakdown_name(kind))] += segment.share * time.seconds;
        for (const model::Share& share : time.shares)
          if (share.index >= 0) result.constants[share.index] += segment.share * share.seconds;
      }
    }
  }
  return result;
}

}  // namespace

StageLists stage_lists(const model::Plan& plan, const model::Architecture& architecture, const model::Layout& layout) {
  StageLists lists;
  for (std::int64_t stage = 0; stage < layout.stages; ++stage) {
    model::BlockList blocks = model::block_list(plan, architecture, layout, stage);
    const auto known = std::ranges::find(lists.kinds, blocks);
    lists.kind_of_stage.push_back(static_cast<std::int32_t>(known - lists.kinds.begin()));
    if (known == lists.kinds.end()) lists.kinds.push_back(std::move(blocks));
  }
  return lists;
}

// FP16 gradients are added up as they are written; BF16 ones are cast first where the sum has another format. Copies of
// reductions that come once in a run of slots or in a step are not counted.
SlotPasses passes_in_slots(const model::Plan& plan, const CostModels& costs) {
  const std::int64_t zero = plan.parallelism.zero_stage;
  const auto& precision = plan.precision;
  const bool fp32 = precision.gradients == model::Precision::fp32;
  const bool fp32_wire = precision.gradient_reduce.value_or(precision.gradients) == model::Precision::fp32;
  const bool defers = zero >= 2 && plan.parallelism.reduce_after != "pass";
  const double adds = defers ? costs.run_passes : costs.accumulate_passes;
  const double sums = fp32 && precision.gemm != model::Precision::fp16 ? adds : 0;
  const double copies = fp32_wire ? costs.fp32_reduce_passes : costs.reduce_passes;
  return {zero == 3 ? costs.gather_passes : 0, sums + (zero >= 2 && !defers ? copies : 0)};
}

TimedOptimizer& StageOptimizers::of(const std::vector<model::StageUnit>& units, const model::Plan& plan,
                                    const model::Layout& layout, const CostModels& costs) {
  add_sharding(plan, layout, key_.clear().add(&costs));
  for (const model::StageUnit& unit : units) key_.add(unit.expert, unit.pieces);
  std::unique_ptr<TimedOptimizer>& known = known_[key_.bytes()];
  if (known) return *known;
  const model::StageOptimizer optimizer = model::make_stage_optimizer(plan, layout, units);
  known = std::make_unique<TimedOptimizer>(TimedOptimizer{optimizer_timing(optimizer.graph, optimizer.units, costs)});
  return *known;
}

TimedStages::TimedStages(model::StageLibrary& library, const CostModels& costs, const model::Device& device,
                         Imbalance imbalance, std::int64_t ranks, ExpertGroupMemo& routing,
                         std::optional<model::Plan> copying, const SlotWaits* kept)
    : library_(library),
      costs_(costs),
      device_(device),
      timer_(library.program(), costs),
      loads_(library.program(), costs, device),
      imbalance_(std::move(imbalance)),
      ranks_(ranks),
      even_(ranks == 1 || imbalance_.even()),
      routing_(routing),
      copying_(std::move(copying)),
      kept_(kept) {}

// Parameters are copied before their unit's first segment, gradients after its last.
void TimedStages::add_copies(std::int32_t slot, bool forward, bool reduces, std::vector<SegmentTime>& times) {
  const model::SlotTemplate& whole = library_.slot_template(slot);
  const std::int32_t kind = forward ? whole.f_stage_kind : whole.b_stage_kind;
  if (kind < 0) return;
  const model::UnitPlaces& units = library_.units(kind, *copying_);
  const std::vector<model::SegmentSpan>& spans = library_.spans(slot, forward, units, reduces);
  const SlotPasses all = passes_in_slots(*copying_, costs_);
  const double passes = reduces ? all.gradients : all.parameters;
  if (passes == 0) return;
  for (std::size_t u = 0; u < spans.size(); ++u) {
    const std::int32_t segment = reduces ? spans[u].last : spans[u].first;
    if (segment < 0) continue;
    double bytes = 0;
    for (const model::UnitPiece& piece : units.units[u].pieces)
      if (!reduces || !piece.frozen) bytes += piece.elements * model::bytes_per_element(piece.stored);
    add_copy(model::Bytes(passes * bytes), costs_, times[static_cast<std::size_t>(segment)]);
  }
}

std::vector<SegmentTime> TimedStages::times_of(std::int32_t slot, double clock) {
  const model::SlotTemplate& whole = library_.slot_template(slot);
  std::vector<SegmentTime> times = timer_.times(whole, clock);
  if (!copying_) return times;
  if (writes_gradients(whole.type)) add_copies(slot, false, true, times);
  add_copies(slot, true, false, times);
  if (whole.type != model::OpType::W) add_copies(slot, false, false, times);
  return times;
}

StragglerWaits TimedStages::waits_of(std::int32_t slot, const std::vector<SegmentTime>& times) const {
  const model::SlotTemplate& whole = library_.slot_template(slot);
  StragglerWaits waits;
  for (const SegmentTime& time : times)
    waits.deviation += time.compute_per_row[static_cast<std::size_t>(CoRunner::none)];
  if (imbalance_.rank_rows.empty()) waits.deviation *= imbalance_.variation;
  if (kept_ != nullptr && kept_->contains(slot)) {
    waits.seconds = waits_at(waits.deviation, kept_->at(slot));
    return waits;
  }
  Imbalance imbalance = imbalance_;
  imbalance.seed = slot_seed(whole.type);
  const std::int64_t sms = costs_.partition.device_sms;
  waits.seconds = routing_.straggler_waits(group_run_bytes(whole, times, ranks_, sms, imbalance),
                                           [&] { return run_group(whole, times, ranks_, sms, imbalance).waits; });
  return waits;
}

TimedStages::Timed& TimedStages::timed(std::int32_t slot) {
  std::unique_ptr<Timed>& known = slots_[slot];
  if (known) return *known;
  known = std::make_unique<Timed>();
  const model::SlotTemplate& whole = library_.slot_template(slot);
  known->power = slot_power(library_.program(), whole, costs_, windows_);
  std::vector<SegmentTime> times = times_of(slot, known->power.clock);
  if (!even_ && uses(whole, model::Stream::communication)) {
    known->waits = waits_of(slot, times);
    for (std::size_t s = 0; s < times.size(); ++s) times[s].wait = known->waits.seconds[s];
  }
  known->host = slot_host(library_.program(), whole, costs_, times, calls_);
  add_host(library_.program(), whole, costs_, known->host, times);
  known->run = run_template(whole, times, costs_.partition.device_sms);
  return *known;
}

void TimedStages::add_waits(SlotWaits& waits) const {
  for (const auto& [slot, timed] : slots_) {
    if (timed->waits.seconds.empty()) continue;
    std::vector<StragglerWaits>& known = waits[slot];
    const auto place = std::ranges::lower_bound(known, timed->waits.deviation, {}, &StragglerWaits::deviation);
    if (place == known.end() || place->deviation > timed->waits.deviation) known.insert(place, timed->waits);
  }
}

double TimedStages::collective_slowdown(std::int32_t slot) {
  Timed& known = timed(slot);
  const model::SmPartition& partition = costs_.partition;
  const bool some = partition.collective_sms > 0 && known.run.seconds > 0 && std::isfinite(known.run.seconds);
  if (!some) return 1;
  if (!known.with_collective)
    known.with_collective = std::max(1.0, seconds_with_collective(library_.slot_template(slot), times(slot),
                                                                  partition.device_sms, partition.collective_sms) /
                                              known.run.seconds);
  return *known.with_collective;
}

std::vector<SegmentTime> TimedStages::times(std::int32_t slot) {
  const Timed& known = timed(slot);
  std::vector<SegmentTime> times = times_of(slot, known.power.clock);
  for (std::size_t s = 0; s < known.waits.seconds.size(); ++s) times[s].wait = known.waits.seconds[s];
  add_host(library_.program(), library_.slot_template(slot), costs_, known.host, times);
  return times;
}

const SlotLoad& TimedStages::load(std::int32_t slot) {
  Timed& known = timed(slot);
  if (known.load) return *known.load;
  const model::SlotTemplate& whole = library_.slot_template(slot);
  known.load = loads_.of(whole, known.power.clock);
  if (!copying_) return *known.load;
  const std::vector<SegmentTime> with = times_of(slot, known.power.clock);
  const std::vector<SegmentTime> without = timer_.times(whole, known.power.clock);
  for (std::size_t s = 0; s < with.size(); ++s)
    known.load->load.loss.copies += with[s].compute[0] - without[s].compute[0];
  return *known.load;
}

const Attribution& TimedStages::attribution(std::int32_t slot) {
  Timed& known = timed(slot);
  if (!known.attribution)
    known.attribution =
        attribute(library_.program(), library_.slot_template(slot), costs_, known.power.clock, known.host);
  return *known.attribution;
}

const TimedStages::Account& TimedStages::account(std::int32_t slot) {
  Timed& one = timed(slot);
  if (one.account) return *one.account;
  const model::SlotTemplate& whole = library_.slot_template(slot);
  const std::vector<SegmentTime> all = times(slot);
  const auto busy = [](const TemplateRun& run, const Exposure& exposed) {
    return run.seconds - std::accumulate(exposed.begin(), exposed.end(), 0.0);
  };
  Account& account = one.account.emplace(Account());
  account.exposed = exposure(whole, all, one.run);
  account.host = one.host.late;
  account.busy = account.undisturbed = busy(one.run, account.exposed);
  if (uses(whole, model::Stream::communication) || uses(whole, model::Stream::collective)) {
    const std::vector<SegmentTime> freed = undisturbed(all);
    const TemplateRun alone = run_template(whole, freed, costs_.partition.device_sms);
    account.undisturbed = busy(alone, exposure(whole, freed, alone));
  }
  return account;
}

ShardedStages::ShardedStages(TimedStages& timed, StageOptimizers& optimizers, const model::Plan& plan,
                             const model::Layout& layout)
    : timed_(timed), optimizers_(optimizers), plan_(plan), layout_(layout) {}

TimedOptimizer& ShardedStages::optimizer(std::int32_t kind) {
  TimedOptimizer*& known = optimizer_of_[kind];
  if (known == nullptr) known = &optimizers_.of(units(kind).units, plan_, layout_, timed_.costs());
  return *known;
}

// The optimizer's graph is built again here: graphs are large, and few timed optimizers are asked for their load.
const OptimizerLoad& ShardedStages::optimizer_load(std::int32_t kind) {
  std::optional<OptimizerLoad>& known = optimizer(kind).load;
  if (!known)
    known = sim::optimizer_load(model::make_stage_optimizer(plan_, layout_, units(kind).units), timed_.costs());
  return *known;
}

const ShardedStages::State& ShardedStages::state(const std::vector<std::int32_t>& kinds) {
  const auto [entry, fresh] = states_.try_emplace(kinds);
  State& state = entry->second;
  if (!fresh) return state;
  std::vector<model::StageParameters> parameters;
  for (const std::int32_t kind : kinds)
    parameters.push_back({&timed_.stage_library().stage(kind), &units(kind).places});
  const model::TrainingState whole = model::training_state(plan_, layout_, timed_.stage_library().blocks(), parameters);
  const model::Bytes gradients = whole.experts.gradients + whole.others.gradients;
  state.gradients = gradients;
  state.counts = whole.counts;
  state.bytes = (whole.experts.parameters + whole.others.parameters).value() + gradients.value() +
                (whole.experts.optimizer + whole.others.optimizer).value();
  return state;
}

const ShardedStages::Update& ShardedStages::update(const std::vector<std::int32_t>& kinds) {
  const auto [entry, fresh] = updates_.try_emplace(kinds);
  Update& update = entry->second;
  if (!fresh) return update;
  const bool gathers = plan_.parallelism.zero_stage < 3 && !plan_.overlap.parameter_gather;
  for (const std::int32_t kind : kinds) {
    update.work.add(optimizer_timing(kind), gathers);
    update.average += optimizer_timing(kind).average;
    update.joules += optimizer_timing(kind).joules;
  }
  return update;
}

const SlotSync& ShardedStages::sync(std::int32_t slot, const TemplateRun& run) {
  std::unique_ptr<SlotSync>& known = syncs_[{slot, &run}];
  if (known) return *known;
  known = std::make_unique<SlotSync>();
  add_reduces(slot, run, *known);
  add_gathers(slot, *known);
  known->slowdown = timed_.collective_slowdown(slot);
  return *known;
}

void ShardedStages::add_reduces(std::int32_t slot, const TemplateRun& run, SlotSync& sync) {
  const model::SlotTemplate& whole = timed_.stage_library().slot_template(slot);
  if (!writes_gradients(whole.type)) return;
  const std::vector<UnitTiming>& timings = optimizer_timing(whole.b_stage_kind).units;
  std::vector<model::SegmentSpan> spans(timings.size());
  if (plan_.overlap.gradient_reduce) spans = timed_.stage_library().spans(slot, false, units(whole.b_stage_kind), true);
  for (std::size_t u = 0; u < timings.size(); ++u)
    sync.reduces.push_back({spans[u].last, timings[u].reduce, timings[u].copy, timings[u].local});
  std::ranges::stable_sort(sync.reduces, {},
                           [](const SlotSync::Part& part) { return part.segment < 0 ? INT32_MAX : part.segment; });
  for (auto part = sync.reduces.rbegin(); part != sync.reduces.rend(); ++part) {
    sync.reduce_seconds += part->seconds;
    sync.local_seconds += part->local;
    const double at =
        part->segment < 0 ? run.seconds : to_seconds(run.segments[static_cast<std::size_t>(part->segment)].end);
    sync.reduce_tail = std::max(sync.reduce_tail, at + sync.reduce_seconds);
  }
}

void ShardedStages::add_uses(std::int32_t slot, bool forward, SlotSync& sync) {
  const model::SlotTemplate& whole = timed_.stage_library().slot_template(slot);
  const std::int32_t kind = forward ? whole.f_stage_kind : whole.b_stage_kind;
  const std::vector<UnitTiming>& timings = optimizer_timing(kind).units;
  const auto& spans = timed_.stage_library().spans(slot, forward, units(kind), false);
  for (std::size_t u = 0; u < spans.size(); ++u)
    if (spans[u].first >= 0)
      sync.uses.push_back({forward, static_cast<std::int32_t>(u), spans[u].first, spans[u].last, timings[u].gather});
}

void ShardedStages::add_gathers(std::int32_t slot, SlotSync& sync) {
  const model::SlotTemplate& whole = timed_.stage_library().slot_template(slot);
  if (plan_.parallelism.zero_stage == 3) {
    if (whole.f_stage_kind >= 0) add_uses(slot, true, sync);
    if (whole.b_stage_kind >= 0 && whole.type != model::OpType::W) add_uses(slot, false, sync);
    std::ranges::stable_sort(sync.uses, {}, &SlotSync::Use::first);
    return;
  }
  if (whole.f_stage_kind < 0 || plan_.parallelism.zero_stage == 0 || !plan_.overlap.parameter_gather) return;
  const std::vector<UnitTiming>& timings = optimizer_timing(whole.f_stage_kind).units;
  const auto& spans = timed_.stage_library().spans(slot, true, units(whole.f_stage_kind), false);
  for (std::size_t u = 0; u < spans.size(); ++u) sync.gathers.push_back({spans[u].first, timings[u].gather});
  std::ranges::stable_sort(sync.gathers, {}, &SlotSync::Part::segment);
}

}  // namespace plumbline::sim
