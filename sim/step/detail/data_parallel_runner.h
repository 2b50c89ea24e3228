// Starts the reductions and gathers of a step program after their dependencies, and reports which segments must wait.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "model/program/program.h"
#include "sim/engine/loop.h"
#include "sim/network/step_links.h"
#include "sim/step/detail/gpu_groups.h"
#include "sim/step/step_end.h"

namespace plumbline::sim {

// Reductions and gathers between GPUs, each with one stream for them. One runs when all that take part have posted it
// and none of them runs another. Replicas of a pipeline rank run one program, so their streams are in order: on a GPU a
// collective waits for those before it that some GPU of every pipeline rank has posted.
class Collectives final : public Handler {
 public:
  using Kind = model::DataParallelCollectives::Kind;
  struct Run {
    Kind kind = Kind::reduce;
    std::int32_t stage = 0, unit = 0;
    std::vector<std::int32_t> gpus;  // that take part
    Time start = 0, end = 0;
  };
  struct Listener {
    std::function<void(std::int32_t gpu, bool runs)> busy;  // a GPU's stream starts or stops being busy
    std::function<void(const Run&)> ended;
  };

  // slowdown: the factor on the time of a collective while one of its GPUs computes. replicas: GPUs of a pipeline rank.
  // groups: the links that collectives cross, by WireLoad::group; they take their seconds where it is empty.
  Collectives(Loop& loop, std::size_t gpus, std::int32_t replicas, double slowdown, std::vector<GroupLinks> groups,
              Listener listener);

  // A collective of a unit between `members` GPUs: those with the same `group`. A unit's collectives of a kind have
  // numbers; a GPU posts them in this order.
  struct Posting {
    Kind kind = Kind::reduce;
    std::int32_t stage = 0, unit = 0, number = 0;
    std::int32_t ranks = 1;  // pipeline ranks that the members are of: 1 or 2
    std::int32_t group = 0;
    std::size_t members = 1;
  };
  // What a collective takes once it runs. All GPUs that take part must give the same.
  struct Work {
    double seconds = 0;  // while it shares no link and no GPU computes
    WireLoad load;
  };
  // `rank` is the pipeline rank of the GPU.
  void post(std::int32_t gpu, std::int32_t rank, const Posting& posting, const Work& work);

  // Compute starts or ends on a GPU.
  void computing(std::int32_t gpu, bool runs);

  // Returns how many collectives may be in flight in the memory that is held: no more than the most that were.
  std::size_t places() const { return posted_.size(); }

  void handle(std::uint32_t code, std::uint64_t argument) override;

 private:
  // The collectives of all groups with the same unit, kind and number. Order is that in which the first GPU posted one.
  struct Turn {
    std::uint64_t order = 0;
    std::int32_t first_rank = 0;
    std::uint64_t reached = 0;  // when a GPU of every rank had posted one, as a place in an order; 0: not yet
    std::int32_t running = 0;   // GPUs whose collective has not ended
  };
  using Key = std::tuple<Kind, std::int32_t, std::int32_t, std::int32_t>;
  using Turns = std::map<Key, Turn>;
  struct Posted {
    Run run;
    std::uint64_t order = 0;  // among all that are posted
    double seconds = 0;       // that are left, while no GPU computes
    std::size_t missing = 0;  // GPUs that have not posted it
    Turns::iterator turn;
    bool candidate = false;  // it is in candidates_
    double factor = 1;       // on the seconds, since `since`
    Time since = 0;
    std::uint32_t version = 0;  // of its end's event; that of the collective before it in its place goes on
    WireLoad load;
    struct Leg {
      FlowId flow{};
      double bytes = 0;
    };
    std::vector<Leg> legs;    // of the flows of all ranks; without any the collective is a timer
    std::size_t running = 0;  // flows
  };
  std::size_t add(const Posting& posting, const Work& work, Turns::iterator turn);
  bool in_the_way(std::size_t before, std::size_t index) const;
  bool can_start(std::size_t index) const;
  void start_on(const std::vector<std::int32_t>& gpus);
  void start(std::size_t index);
  void start_flows(std::size_t index);
  void limit_flows(Posted& posted);
  void schedule_end(std::size_t index);
  bool overlapped(const Posted& posted) const;
  void end(std::size_t index);

  Loop& loop_;
  std::int32_t replicas_;
  std::vector<GroupLinks> groups_;
  Listener listener_;
  double slowdown_;
  std::vector<bool> busy_, computing_;  // per GPU
  std::vector<std::size_t> running_;    // [gpu] where busy: what runs
  // Places of collectives that have not ended, and those that are free again: a step has millions of collectives, of
  // which few are in flight.
  std::vector<Posted> posted_;
  std::vector<std::size_t> free_;
  Turns turns_;                                                               // that have not ended
  std::map<std::pair<std::uint64_t, std::int32_t>, std::size_t> incomplete_;  // [order of a turn, group]
  std::vector<std::vector<std::size_t>> queues_;                              // [gpu] posted, not started
  std::vector<std::size_t> candidates_;                                       // to start, each once
  std::uint64_t begun_ = 0, posted_so_far_ = 0, reached_ = 0;                 // turns, collectives, turns
};

class DataParallelRunner {
 public:
  // All arguments must outlive the runner. replicas: GPUs of a pipeline rank. reduces: gradients are reduced in this
  // step. slowdown: the factor on a collective's time while one of its GPUs computes. groups: as of Collectives.
  DataParallelRunner(Loop& loop, const model::StepProgram& program, const std::vector<OptimizerTiming>& timings,
                     std::int64_t replicas, bool reduces, double slowdown, const std::vector<GroupLinks>& groups,
                     Collectives::Listener listener);

  // Compute starts or ends on a GPU.
  void computing(std::int32_t gpu, bool runs) { collectives_.computing(gpu, runs); }
  void step_started();
  // A segment of a GPU's slot, or with -1 the whole slot, has ended.
  void ended(std::int32_t gpu, std::int32_t slot, std::int32_t segment);
  // Returns whether no collective keeps the segment of the slot from starting.
  bool open(std::int32_t gpu, std::int32_t slot, std::int32_t segment) const;
  // Called before the slot. Returns whether no collective of the GPU overlaps the slot or delays it. A collective
  // needs the GPU's own posting, so one that is not posted before or within the slot cannot run in it.
  bool quiet(std::int32_t gpu, std::int32_t slot) const;

  // Returns when the gradients of a GPU are ready whose last slot ended at `end`. Call it after the loop has finished.
  GradientsReady ready(std::int32_t gpu, double end) const;

 private:
  using Kind = Collectives::Kind;
  struct Rank {  // of the pipeline
    // Indices of data-parallel collectives: `starts` by the event that lets them start, `gates` by the event that waits
    // for them. Those of a slot are contiguous by segment and begin at [slot + 1]; [0] has those of no slot.
    std::vector<std::uint32_t> starts, starts_of_slot, gates, gates_of_slot;
    std::vector<std::int32_t> earlier;    // per collective: earlier ones of its unit
    std::vector<std::size_t> first_unit;  // [stage] of those that the rank holds, among their units
    std::size_t units = 0;
  };
  struct Progress {         // of one unit's collectives of one kind on one GPU
    std::int32_t done = 0;  // how many have ended
    double end = 0;         // of the last of them, s
  };
  struct Gpu {
    std::vector<Progress> gathered, reduced;  // [unit of its rank]
    std::int32_t unfinished = 0;              // posted, not ended
  };
  struct Members {           // of a unit's collectives: the same replicas of every pipeline rank that holds the stage
    std::size_t groups = 0;  // index of groups_
    std::size_t holders = 1;
  };

  const std::vector<model::DataParallelCollectives>& all(std::int32_t rank) const;
  std::int32_t rank_of(std::int32_t gpu) const { return gpu / replicas_; }
  const Rank& rank_on(std::int32_t gpu) const { return ranks_[static_cast<std::size_t>(rank_of(gpu))]; }
  void index(std::int32_t rank, const std::vector<std::int32_t>& stages);
  void find_members();
  std::size_t groups_index(const model::RankGroup& group);
  static std::size_t unit_index(const Rank& rank, std::int32_t stage, std::int32_t unit) {
    return rank.first_unit[static_cast<std::size_t>(stage)] + static_cast<std::size_t>(unit);
  }
  bool happens(const model::DataParallelCollectives& s) const;
  bool awaited(std::int32_t gpu, std::uint32_t data_parallel) const;
  bool any_awaited(std::int32_t gpu, std::span<const std::uint32_t> gates) const;
  void note(const Collectives::Run& run);
  double copy_seconds(std::int32_t stage, std::int32_t unit) const;

  const model::StepProgram& program_;
  const std::vector<OptimizerTiming>& timings_;
  std::int32_t replicas_;
  bool reduces_;
  Collectives::Listener listener_;
  std::vector<Rank> ranks_;
  std::vector<Gpu> gpus_;
  std::vector<std::pair<model::RankGroup, GpuGroups>> groups_;  // each once
  std::vector<std::vector<std::array<Members, 2>>> members_;    // [stage][unit][gather, reduce]
  Collectives collectives_;
};

}  // namespace plumbline::sim
