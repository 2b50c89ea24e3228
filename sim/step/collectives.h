// Reductions and gathers of the pipeline ranks, each on one stream of its own: who posts what when, and when each
// ends. A unit that several pipeline ranks hold runs when all have posted it and none runs another.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "model/program/program.h"
#include "sim/engine/loop.h"

namespace plumbline::sim {

class Collectives final : public Handler {
 public:
  using Kind = model::Synchronisation::Kind;
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
  std::map<Key, std::size_t> meeting_;          // units that not all holders have posted yet
  std::vector<std::set<std::size_t>> waiting_;  // [rank] that all have posted, in order of posting
};

}  // namespace plumbline::sim
