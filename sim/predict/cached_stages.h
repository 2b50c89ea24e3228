// Parts of a prediction that plans share when they differ elsewhere. Each part is computed on first use:
//   model::StageLibrary  blocks, slots and their memory, of plans with the same graphs
//   TimedStages          durations and loads of those slots, of plans that also have the same costs
//   ShardedStages        reductions, gathers, optimizer and training state, of plans that also have the same sharding
//   StageOptimizers      optimizers of stages with the same parameters, whatever their graphs
// For one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/program/compile.h"
#include "model/program/data_parallel.h"
#include "sim/analysis/exposure.h"
#include "sim/analysis/load.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/plan_key.h"
#include "sim/predict/step_walk.h"
#include "sim/step/optimizer_timing.h"
#include "sim/step/segment_time.h"
#include "sim/step/slot_host.h"
#include "sim/step/slot_power.h"
#include "sim/step/stragglers.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

class ExpertGroupMemo;

// The stages of a plan by their blocks.
struct StageLists {
  std::vector<model::BlockList> kinds;      // distinct ones
  std::vector<std::int32_t> kind_of_stage;  // index into kinds
};
// The layout needs no more than its stages and their layers.
StageLists stage_lists(const model::Plan& plan, const model::Architecture& architecture, const model::Layout& layout);

// A stage's optimizer step under one cost model.
struct TimedOptimizer {
  OptimizerTiming timing;
  std::optional<OptimizerLoad> load;  // set when it is first needed
};

class StageOptimizers {
 public:
  // `costs` must not move.
  TimedOptimizer& of(const std::vector<model::StageUnit>& units, const model::Plan& plan, const model::Layout& layout,
                     const CostModels& costs);
  void clear() { known_.clear(); }

 private:
  PlanKey key_;
  std::unordered_map<std::string, std::unique_ptr<TimedOptimizer>> known_;
};

// The bytes that kernels move in every slot, over those of the parameters that it uses: of gathered parameters before
// their first use, of gradients after they are written.
struct SlotPasses {
  double parameters = 0, gradients = 0;
  bool any() const { return parameters > 0 || gradients > 0; }
};
SlotPasses passes_in_slots(const model::Plan& plan, const CostModels& costs);

// The busy seconds of a slot by operator class and by constant of the profile.
struct Attribution {
  std::map<std::string, double> classes;         // breakdown row -> seconds of compute
  std::map<std::int32_t, double> constants;      // profile constant -> seconds of compute
  std::map<std::int32_t, double> communication;  // profile constant -> seconds of transfer
};

// The waits of a slot for stragglers, and what they grow with.
struct StragglerWaits {
  std::vector<double> seconds;  // [segment]
  double deviation = 0;         // s; of what the rows of experts take on the ranks
};
using SlotWaits = std::map<std::int32_t, std::vector<StragglerWaits>>;  // by deviation

class TimedStages {
 public:
  // All references must outlive the object. `imbalance` has no seed yet; `ranks` is the size of the expert group. With
  // a plan whose units are gathered and reduced in every slot, slots have the copies that this costs (passes_in_slots).
  // `routing` remembers groups of ranks that were run. `kept` are waits of the same slots under other costs and
  // imbalances, or null: between them waits are linear in the deviation, and a group of ranks is run for slots that it
  // lacks.
  TimedStages(model::StageLibrary& library, const CostModels& costs, const model::Device& device, Imbalance imbalance,
              std::int64_t ranks, ExpertGroupMemo& routing, std::optional<model::Plan> copying = std::nullopt,
              const SlotWaits* kept = nullptr);

  // Returns the run of a slot on a GPU alone.
  const TemplateRun& run(std::int32_t slot) { return timed(slot).run; }
  // Returns the factor on the slot's time while a dense collective runs.
  double collective_slowdown(std::int32_t slot);
  // Returns the times of the slot's segments, with waits for stragglers. They are large and so not cached.
  std::vector<SegmentTime> times(std::int32_t slot);
  const SlotLoad& load(std::int32_t slot);
  const SlotPower& power(std::int32_t slot) { return timed(slot).power; }
  const Attribution& attribution(std::int32_t slot);
  // The exposed waits of a slot, and its busy seconds with and without overlapped communication.
  struct Account {
    Exposure exposed{};
    double busy = 0, undisturbed = 0;  // s
    double host = 0;                   // s of `undisturbed` in which the GPU waits for the host
  };
  const Account& account(std::int32_t slot);

  void add_waits(SlotWaits& waits) const;
  model::StageLibrary& stage_library() { return library_; }
  const CostModels& costs() const { return costs_; }

 private:
  struct Timed {
    SlotPower power;
    SlotHost host;
    TemplateRun run;
    StragglerWaits waits;                   // none where ranks are even
    std::optional<double> with_collective;  // collective_slowdown()
    std::optional<SlotLoad> load;
    std::optional<Attribution> attribution;
    std::optional<Account> account;
  };
  Timed& timed(std::int32_t slot);
  std::vector<SegmentTime> times_of(std::int32_t slot, double clock);  // without waits
  void add_copies(std::int32_t slot, bool forward, bool reduces, std::vector<SegmentTime>& times);
  StragglerWaits waits_of(std::int32_t slot, const std::vector<SegmentTime>& times) const;

  model::StageLibrary& library_;
  const CostModels& costs_;
  const model::Device& device_;
  SegmentTimer timer_;
  PowerWindows windows_;
  SegmentCalls calls_;
  SegmentLoads loads_;
  Imbalance imbalance_;
  std::int64_t ranks_;
  bool even_;
  ExpertGroupMemo& routing_;
  std::optional<model::Plan> copying_;
  const SlotWaits* kept_;
  std::map<std::int32_t, std::unique_ptr<Timed>> slots_;
};

class ShardedStages {
 public:
  // `timed` and `optimizers` must outlive the object. Plan and layout are any that have the sharding.
  ShardedStages(TimedStages& timed, StageOptimizers& optimizers, const model::Plan& plan, const model::Layout& layout);

  // The training state of a rank that holds stages of these kinds.
  struct State {
    double bytes = 0;  // parameters, gradients and optimizer states
    model::Bytes gradients;
    model::ParameterCounts counts;
  };
  const State& state(const std::vector<std::int32_t>& kinds);
  struct Update {
    RankWork work;
    double average = 0;  // copy of the parameters to the host
    double joules = 0;   // as in OptimizerTiming
  };
  const Update& update(const std::vector<std::int32_t>& kinds);
  const SlotSync& sync(std::int32_t slot, const TemplateRun& run);

  const OptimizerTiming& optimizer_timing(std::int32_t kind) { return optimizer(kind).timing; }
  const OptimizerLoad& optimizer_load(std::int32_t kind);

 private:
  const model::UnitPlaces& units(std::int32_t kind) { return timed_.stage_library().units(kind, plan_); }
  TimedOptimizer& optimizer(std::int32_t kind);
  void add_reduces(std::int32_t slot, const TemplateRun& run, SlotSync& sync);
  void add_gathers(std::int32_t slot, SlotSync& sync);
  void add_uses(std::int32_t slot, bool forward, SlotSync& sync);

  TimedStages& timed_;
  StageOptimizers& optimizers_;
  model::Plan plan_;
  model::Layout layout_;
  std::map<std::int32_t, TimedOptimizer*> optimizer_of_;  // [kind]
  std::map<std::vector<std::int32_t>, State> states_;
  std::map<std::vector<std::int32_t>, Update> updates_;
  std::map<std::pair<std::int32_t, const TemplateRun*>, std::unique_ptr<SlotSync>> syncs_;
};

}  // namespace plumbline::sim
