// Lets the reductions and gathers of a step program start when what they wait for has ended, and says which segments
// have to wait for them.
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
#include "sim/step/step_end.h"

namespace plumbline::sim {

// Reductions and gathers of the pipeline ranks, each on one stream of its own: who posts what when, and when each
// ends. A unit that several pipeline ranks hold runs when all have posted it and none runs another.
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
    std::function<void(std::int32_t rank, bool runs)> busy;  // a rank's stream has something to do, or no longer
    std::function<void(const Run&)> ended;
  };

  // holders[stage]: pipeline ranks that hold it.
  Collectives(Loop& loop, std::vector<std::vector<std::int32_t>> holders, std::size_t ranks, Listener listener);

  // Takes `seconds` once it runs; the same for all who take part.
  void post(std::int32_t rank, Kind kind, std::int32_t stage, std::int32_t unit, double seconds);

  void handle(std::uint32_t code, std::uint64_t argument) override;

 private:
  struct Posted {
    Run run;
    double seconds = 0;
    std::size_t missing = 0;
  };
  using Key = std::tuple<Kind, std::int32_t, std::int32_t>;
  bool can_start(const Posted& posted) const;
  void all_posted(std::size_t index);
  void start(std::size_t index);
  std::optional<std::size_t> first_to_start(const std::vector<std::int32_t>& ranks) const;
  void start_on(const std::vector<std::int32_t>& free_ranks);

  Loop& loop_;
  std::vector<std::vector<std::int32_t>> holders_;
  Listener listener_;
  std::vector<bool> busy_;  // per rank
  std::vector<Posted> posted_;
  std::map<Key, std::size_t> incomplete_;       // units that not all holders have posted yet
  std::vector<std::set<std::size_t>> waiting_;  // [rank] that all have posted, in order of posting
};

class DataParallelRunner {
 public:
  // All must outlive it. reduces: gradients are reduced in this step.
  DataParallelRunner(Loop& loop, const model::StepProgram& program, const std::vector<OptimizerTiming>& timings,
                     bool reduces, Collectives::Listener listener);

  void step_started();
  // A segment (or with -1 the whole slot) of a rank's slot has ended.
  void ended(std::int32_t rank, std::int32_t slot, std::int32_t segment);
  // Nothing keeps the segment of the slot from starting.
  bool open(std::int32_t rank, std::int32_t slot, std::int32_t segment) const;
  // Asked before the slot: no collective of the rank runs beside it, and none keeps it waiting. A collective needs its
  // rank's own posting, so what has not been posted by now and is not posted within the slot cannot run in it.
  bool quiet(std::int32_t rank, std::int32_t slot) const;

  // Of a rank whose last slot ended at `end`, once the loop has run dry.
  GradientsReady ready(std::int32_t rank, double end) const;

 private:
  using Kind = Collectives::Kind;
  struct Progress {         // of one unit's collectives of one kind
    std::int32_t done = 0;  // how many have ended
    double end = 0;         // of the last of them, s
  };
  struct Rank {
    // Indices of synchronisations by the moment whose end lets them start, and by the moment that waits for them: those
    // of a slot lie together, by segment, and begin at [slot + 1] ([0]: those of no slot).
    std::vector<std::uint32_t> starts, starts_of_slot, gates, gates_of_slot;
    std::vector<std::int32_t> earlier;        // per synchronisation: others of its unit before it
    std::vector<Progress> gathered, reduced;  // [unit_index]
    std::int32_t unfinished = 0;              // posted, not ended
  };

  const std::vector<model::DataParallelCollectives>& all(std::int32_t rank) const;
  void index(std::int32_t rank);
  std::size_t unit_index(std::int32_t stage, std::int32_t unit) const {
    return first_unit_[static_cast<std::size_t>(stage)] + static_cast<std::size_t>(unit);
  }
  bool happens(const model::DataParallelCollectives& s) const { return reduces_ || s.kind == Kind::gather; }
  bool awaited(const Rank& r, std::int32_t rank, std::uint32_t data_parallel) const;
  bool any_awaited(std::int32_t rank, std::span<const std::uint32_t> gates) const;
  void note(const Collectives::Run& run);
  double copy_seconds(std::int32_t stage, std::int32_t unit) const;

  const model::StepProgram& program_;
  const std::vector<OptimizerTiming>& timings_;
  bool reduces_;
  Collectives::Listener listener_;
  std::vector<std::size_t> first_unit_;  // [stage] in a list of all stages' units
  std::vector<Rank> ranks_;
  Collectives collectives_;
};

}  // namespace plumbline::sim
