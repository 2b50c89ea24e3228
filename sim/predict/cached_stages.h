// What plans that differ only in other things have in common, computed when it is first asked for:
//   StageLibrary   blocks, slots and their memory, of plans with the same graphs
//   TimedStages    durations of those slots, of plans with the same costs too
//   ShardedStages  reductions, gathers, optimizer and training state, of plans with the same sharding too
//   OptimizerTimings  of stages with the same parameters, whatever their graphs are
// Stage kinds and slots have indices in the library. Not for several threads at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/memory/slot_memory.h"
#include "model/program/plan_context.h"
#include "model/program/program.h"
#include "model/program/stage_units.h"
#include "model/program/synchronisation.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/plan_key.h"
#include "sim/predict/step_recurrence.h"
#include "sim/step/segment_time.h"
#include "sim/step/stragglers.h"

namespace plumbline::sim {

using BlockList = std::vector<std::pair<model::BlockKind, bool>>;  // of a stage; recomputed or not

// What is reduced and gathered together in stages of one kind, under one grouping.
struct UnitPlaces {
  std::vector<model::StageUnit> units;
  std::vector<model::SynchronisationUnit> places;  // the same without operators
};

class StageLibrary {
 public:
  StageLibrary(model::LayerContext context, std::int64_t pieces);  // of an overlapped tensor collective

  std::int32_t kind(const BlockList& blocks);
  // -1 for a side that the op does not have.
  std::int32_t slot(model::OpType type, std::int32_t f_kind, std::int32_t b_kind);
  // By the plan's zero_stage and overlap.gradient_bucket_bytes.
  const UnitPlaces& units(std::int32_t kind, const model::Plan& plan);
  // Of those units in a slot, as model::segment_spans.
  const std::vector<model::SegmentSpan>& spans(std::int32_t slot, bool forward, const UnitPlaces& units, bool writing);

  const std::vector<model::Graph>& blocks() const { return program_.blocks; }
  const model::StageKind& stage(std::int32_t kind) const {
    return program_.stage_kinds[static_cast<std::size_t>(kind)];
  }
  const model::SlotTemplate& slot_template(std::int32_t slot) const {
    return slots_[static_cast<std::size_t>(slot)]->slot;
  }
  model::Bytes fullest(std::int32_t slot) const { return slots_[static_cast<std::size_t>(slot)]->fullest; }
  // Of one micro-batch between its phases.
  model::Bytes kept_after_forward(std::int32_t kind) const { return kept_[static_cast<std::size_t>(kind)].first; }
  model::Bytes kept_for_weights(std::int32_t kind) const { return kept_[static_cast<std::size_t>(kind)].second; }
  model::Bytes hop() const { return hop_; }
  const model::StepProgram& program() const { return program_; }

 private:
  struct Slot {
    model::SlotTemplate slot;
    model::Bytes fullest;  // beside what was kept when it began
  };
  std::uint16_t block(const std::pair<model::BlockKind, bool>& block);

  model::LayerContext context_;
  std::int64_t pieces_;
  model::Bytes hop_;
  model::StepProgram program_;  // blocks and stage kinds only
  std::map<std::pair<model::BlockKind, bool>, std::uint16_t> known_blocks_;
  std::map<BlockList, std::int32_t> known_kinds_;
  std::vector<model::StageTensors> tensors_;                 // [kind]
  std::vector<std::pair<model::Bytes, model::Bytes>> kept_;  // [kind]
  std::map<std::tuple<model::OpType, std::int32_t, std::int32_t>, std::int32_t> known_slots_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::map<std::tuple<std::int32_t, bool, double>, UnitPlaces> units_;  // kind, by block, bytes of a bucket
  std::map<std::tuple<std::int32_t, bool, const UnitPlaces*, bool>, std::vector<model::SegmentSpan>> spans_;
};

class OptimizerTimings {
 public:
  // `costs` must stay where they are.
  const OptimizerTiming& of(const std::vector<model::StageUnit>& units, const model::Plan& plan,
                            const model::Layout& layout, const CostModels& costs);
  void clear() { known_.clear(); }

 private:
  PlanKey key_;
  std::unordered_map<std::string, std::unique_ptr<OptimizerTiming>> known_;
};

class TimedStages {
 public:
  // Both must outlive it. Imbalance without a seed; ranks of the expert group.
  TimedStages(StageLibrary& library, const CostModels& costs, Imbalance imbalance, std::int64_t ranks);

  const TemplateRun& run(std::int32_t slot);
  // Of its segments, waits for stragglers included; put together each time, because they are large.
  std::vector<SegmentTime> times(std::int32_t slot);
  StageLibrary& stage_library() { return library_; }
  const CostModels& costs() const { return costs_; }

 private:
  struct Timed {
    TemplateRun run;
    std::vector<double> waits;  // [segment] where ranks are uneven
  };
  const Timed& timed(std::int32_t slot);

  StageLibrary& library_;
  const CostModels& costs_;
  SegmentTimer timer_;
  Imbalance imbalance_;
  std::int64_t ranks_;
  bool even_;
  std::map<std::int32_t, std::unique_ptr<Timed>> runs_;
};

class ShardedStages {
 public:
  // `timed` and `timings` must outlive it; plan and layout are examples of the sharding.
  ShardedStages(TimedStages& timed, OptimizerTimings& timings, const model::Plan& plan, const model::Layout& layout);

  struct State {
    double bytes = 0;  // parameters, gradients and optimizer states
    model::Bytes gradients;
    RankWork work;
    double average = 0;  // copy of the parameters to the host
  };
  // Of a rank that holds stages of these kinds.
  const State& state(const std::vector<std::int32_t>& kinds);
  const SlotSync& sync(std::int32_t slot, const TemplateRun& run);

  struct Stage {
    const UnitPlaces* units = nullptr;
    const OptimizerTiming* timing = nullptr;
  };
  const Stage& stage(std::int32_t kind);

 private:
  void add_reduces(std::int32_t slot, const TemplateRun& run, SlotSync& sync);
  void add_gathers(std::int32_t slot, SlotSync& sync);
  void add_uses(std::int32_t slot, bool forward, SlotSync& sync);

  TimedStages& timed_;
  OptimizerTimings& timings_;
  model::Plan plan_;
  model::Layout layout_;
  std::map<std::int32_t, Stage> stages_;
  std::map<std::vector<std::int32_t>, State> states_;
  std::map<std::pair<std::int32_t, const TemplateRun*>, std::unique_ptr<SlotSync>> syncs_;
};

}  // namespace plumbline::sim
