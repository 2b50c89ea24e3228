// Results that predictions of related plans share, passed to each by their owner. Safe to use from several threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/memo.h"
#include "model/program/program.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::sim {

// What groups of ranks that share experts have in common: how tokens spread over them, and how long they wait for each
// other.
class ExpertGroupMemo {
 public:
  // Returns model::routing_spread(), bit for bit.
  model::RoutingSpread spread(const model::MixtureOfExperts& experts, std::int64_t groups_per_token,
                              std::int64_t expert_parallel, std::int64_t ranks_per_node);
  // Returns the waits of a group run, which `run` gives; `bytes` are everything that it reads.
  std::vector<double> straggler_waits(const std::string& bytes, const std::function<std::vector<double>()>& run);

 private:
  // The four fields of the experts that routing reads, then the other arguments.
  using Key = std::array<std::int64_t, 7>;
  model::Memo<Key, model::RoutingSpread> spreads_;
  // Two hashes of those bytes, which are many. Above this number of runs the memo of waits
  // is cleared: a run has some hundred segments.
  using RunKey = std::pair<std::size_t, std::uint64_t>;
  static constexpr std::size_t most_runs = 20'000;
  model::Memo<RunKey, std::vector<double>> waits_;
  std::atomic<std::size_t> runs_ = 0;
};

struct Inputs;

// Returns the routing spread of the plan's experts over its expert-parallel group, from the memo if there is one.
// `plan` stands in place of that of the inputs.
model::RoutingSpread spread_of(const Inputs& inputs, const model::Plan& plan);
model::RoutingSpread spread_of(const Inputs& inputs);

// Returns the GPUs of a node that ranks of an expert group have between them.
std::int64_t expert_node_gpus(const Inputs& inputs, const model::Plan& plan);

struct PreparedSchedule {
  model::ScheduleTable table;
  model::ScheduleOutline outline;  // of the table
};

class ScheduleTables {
 public:
  // A schedule that deadlocks is infeasible.
  using Prepared = model::Result<std::shared_ptr<const PreparedSchedule>>;
  Prepared find(const model::ScheduleKind& kind, const model::ScheduleShape& shape);

 private:
  using Key = std::array<std::int64_t, 5>;
  // Above this number of ops in all tables the memo is cleared. Tables stay alive while they are in use.
  static constexpr std::size_t most_ops = 50'000'000;
  model::Memo<Key, Prepared> known_;
  std::atomic<std::size_t> ops_ = 0;
};

}  // namespace plumbline::sim
