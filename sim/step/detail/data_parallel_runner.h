// Starts the reductions and gathers of a step program after their dependencies, and reports which segments must wait.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "model/program/program.h"
#include "sim/engine/loop.h"
#include "sim/network/group_links.h"
#include "sim/step/step_end.h"

namespace plumbline::sim {

// Reductions and gathers of the pipeline ranks, each rank with one stream for them. A unit that several pipeline ranks
// hold runs when all of them have posted it and none of them runs another.
class Collectives final : public Handler {
 public:
  using Kind = model::DataParallelCollectives::Kind;
  struct Run {
    Kind kind = Kind::reduce;
    std::int32_t stage = 0, unit = 0;
    std::vector<std::int32_t> ranks;  // pipeline ranks that take part
    Time start = 0, end = 0;
  };
  struct Listener {
    std::function<void(std::int32_t rank, bool runs)> busy;  // a rank's stream starts or stops being busy
    std::function<void(const Run&)> ended;
  };

  // holders[stage] are the pipeline ranks that hold the stage.
  // slowdown: the factor on the time of a collective while one of its ranks computes.
  // groups: the links that collectives cross, by WireLoad::group; they take their seconds where it is empty.
  Collectives(Loop& loop, std::vector<std::vector<std::int32_t>> holders, std::size_t ranks, double slowdown,
              std::vector<GroupLinks> groups, Listener listener);

  // What a collective takes once it runs. All ranks that take part must give the same.
  struct Work {
    double seconds = 0;  // while it shares no link and no rank computes
    WireLoad load;
  };
  void post(std::int32_t rank, Kind kind, std::int32_t stage, std::int32_t unit, const Work& work);

  // Compute starts or ends on a rank.
  void computing(std::int32_t rank, bool runs);

  void handle(std::uint32_t code, std::uint64_t argument) override;

 private:
  struct Posted {
    Run run;
    double seconds = 0;  // that are left, while no rank computes
    std::size_t missing = 0;
    double factor = 1;  // on the seconds, since `since`
    Time since = 0;
    std::uint32_t version = 0;  // of its end's event
    WireLoad load;
    struct Leg {
      FlowId flow{};
      double bytes = 0;
    };
    std::vector<Leg> legs;    // of the flows of all ranks; without any the collective is a timer
    std::size_t running = 0;  // flows
  };
  using Key = std::tuple<Kind, std::int32_t, std::int32_t>;
  bool can_start(const Posted& posted) const;
  void all_posted(std::size_t index);
  void start(std::size_t index);
  void start_flows(std::size_t index);
  void schedule_end(std::size_t index);
  bool overlapped(const Posted& posted) const;
  void end(std::size_t index);
  std::optional<std::size_t> first_to_start(const std::vector<std::int32_t>& ranks) const;
  void start_on(const std::vector<std::int32_t>& free_ranks);

  Loop& loop_;
  std::vector<std::vector<std::int32_t>> holders_;
  std::vector<GroupLinks> groups_;
  Listener listener_;
  double slowdown_;
  std::vector<bool> busy_, computing_;  // per rank
  std::vector<std::size_t> running_;    // [rank] where busy: what runs
  std::vector<Posted> posted_;
  std::map<Key, std::size_t> incomplete_;       // units that some holders have not posted yet
  std::vector<std::set<std::size_t>> waiting_;  // [rank] posted by all holders, in order of posting
};

class DataParallelRunner {
 public:
  // All arguments must outlive the runner. reduces: gradients are reduced in this step.
  // slowdown: the factor on a collective's time while its rank computes. groups: as of Collectives.
  DataParallelRunner(Loop& loop, const model::StepProgram& program, const std::vector<OptimizerTiming>& timings,
                     bool reduces, double slowdown, const std::vector<GroupLinks>& groups,
                     Collectives::Listener listener);

  // Compute starts or ends on a rank.
  void computing(std::int32_t rank, bool runs) { collectives_.computing(rank, runs); }
  void step_started();
  // A segment of a rank's slot, or with -1 the whole slot, has ended.
  void ended(std::int32_t rank, std::int32_t slot, std::int32_t segment);
  // Returns whether no collective keeps the segment of the slot from starting.
  bool open(std::int32_t rank, std::int32_t slot, std::int32_t segment) const;
  // Called before the slot. Returns whether no collective of the rank overlaps the slot or delays it. A collective
  // needs the rank's own posting, so one that is not posted before or within the slot cannot run in it.
  bool quiet(std::int32_t rank, std::int32_t slot) const;

  // Returns when the gradients of a rank are ready whose last slot ended at `end`. Call it after the loop has finished.
  GradientsReady ready(std::int32_t rank, double end) const;

 private:
  using Kind = Collectives::Kind;
  struct Progress {         // of one unit's collectives of one kind
    std::int32_t done = 0;  // how many have ended
    double end = 0;         // of the last of them, s
  };
  struct Rank {
    // Indices of data-parallel collectives: `starts` by the event that lets them start, `gates` by the event that waits
    // for them. Those of a slot are contiguous by segment and begin at [slot + 1]; [0] has those of no slot.
    std::vector<std::uint32_t> starts, starts_of_slot, gates, gates_of_slot;
    std::vector<std::int32_t> earlier;        // per collective: earlier ones of its unit
    std::vector<Progress> gathered, reduced;  // [unit_index]
    std::int32_t unfinished = 0;              // posted, not ended
  };

  const std::vector<model::DataParallelCollectives>& all(std::int32_t rank) const;
  void index(std::int32_t rank);
  std::size_t unit_index(std::int32_t stage, std::int32_t unit) const {
    return first_unit_[static_cast<std::size_t>(stage)] + static_cast<std::size_t>(unit);
  }
  bool happens(const model::DataParallelCollectives& s) const;
  bool awaited(const Rank& r, std::int32_t rank, std::uint32_t data_parallel) const;
  bool any_awaited(std::int32_t rank, std::span<const std::uint32_t> gates) const;
  void note(const Collectives::Run& run);
  double copy_seconds(std::int32_t stage, std::int32_t unit) const;

  const model::StepProgram& program_;
  const std::vector<OptimizerTiming>& timings_;
  bool reduces_;
  Collectives::Listener listener_;
  std::vector<std::size_t> first_unit_;  // [stage] index into the list of all stages' units
  std::vector<Rank> ranks_;
  Collectives collectives_;
};

}  // namespace plumbline::sim
