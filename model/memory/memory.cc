#include "model/memory/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/memory/memory_reserve.h"
#include "model/memory/slot_memory.h"
#include "model/memory/stage_tensors.h"
#include "model/memory/training_state.h"
#include "model/plan/plan.h"

namespace plumbline::model {
namespace {

std::string largest_item(const TrainingState& state, const RankMemory& memory) {
  using Item = std::pair<std::string_view, double>;
  const std::array<Item, 10> items = {Item{"parameters of the experts", state.experts.parameters.value()},
                                      Item{"gradients of the experts", state.experts.gradients.value()},
                                      Item{"optimizer states of the experts", state.experts.optimizer.value()},
                                      Item{"parameters outside experts", state.others.parameters.value()},
                                      Item{"gradients outside experts", state.others.gradients.value()},
                                      Item{"optimizer states outside experts", state.others.optimizer.value()},
                                      Item{"activations", memory.activations_bytes},
                                      Item{"temporary tensors", memory.temporary_bytes},
                                      Item{"communication buffers", memory.communication_bytes},
                                      Item{"reserve", memory.reserve_bytes}};
  const auto& [name, bytes] = *std::ranges::max_element(items, {}, &Item::second);
  return fmt::format("{}, {:.1f} GB", name, bytes / 1e9);
}

double state_bytes(const RankMemory& memory) {
  return memory.parameters_bytes + memory.gradients_bytes + memory.optimizer_bytes;
}

class Accountant {
 public:
  Accountant(const Plan& plan, const Layout& layout, const StepProgram& program, const Device& device,
             const std::vector<SlotMemory>& slots)
      : plan_(plan),
        layout_(layout),
        program_(program),
        device_(device),
        slots_(slots),
        stages_(program.schedule.stages_by_rank()),
        waiting_(waiting_on_host(plan, program)) {}

  RankMemory of(std::int32_t rank) {
    RankMemory memory;
    const auto index = static_cast<std::size_t>(rank);
    memory.rank = rank;
    memory.stages.assign(stages_[index].begin(), stages_[index].end());
    const TrainingState& state = state_of(memory.stages);
    memory.parameters_bytes = (state.experts.parameters + state.others.parameters).value();
    memory.gathered_bytes = state.gathered_parameters.value();
    memory.gradients_bytes = (state.experts.gradients + state.others.gradients).value();
    memory.optimizer_bytes = (state.experts.optimizer + state.others.optimizer).value();
    const MemoryTimeline timeline = memory_timeline(program_, slots_, index);
    const MemoryMoment& fullest = timeline.ops[timeline.fullest];
    memory.activations_bytes = fullest.activations.value();
    memory.temporary_bytes = fullest.temporary.value();
    const RankPeak peak = rank_peak(plan_, layout_, device_,
                                    {Bytes(state_bytes(memory)), Bytes(memory.gradients_bytes), state.counts,
                                     fullest.sum(), fullest.kept, program_.stage_message * in_flight(rank)});
    if (device_.reserve.master_shards) memory.parameters_bytes -= state.counts.shards.value();
    memory.temporary_bytes += peak.software.value();
    memory.communication_bytes = (fullest.communication + peak.buffers).value();
    memory.reserve_bytes = peak.reserve.value();
    memory.peak_bytes = peak.sum().value();
    memory.low_bytes = peak.low.value();
    memory.high_bytes = peak.high.value();
    memory.allocated_bytes = peak.allocated().value();
    memory.segments_bytes = peak.segments().value();
    memory.host_bytes = state.counts.on_host.value() + waiting_[index];
    memory.routed_bytes = fullest.routed.value();
    memory.library_bytes = peak.libraries().value();
    memory.unused_low_bytes = peak.held_low.value();
    memory.unused_bytes = peak.held_usual.value();
    memory.unused_high_bytes = peak.held_high.value();
    memory.activations_peak_bytes = timeline.activations_peak.value();
    memory.peak_operator = describe(program_, slots_, index, fullest);
    memory.largest = largest_item(state, memory);
    return memory;
  }

 private:
  // Returns the most micro-batches that wait for their backward.
  std::int32_t in_flight(std::int32_t rank) const {
    std::int32_t now = 0, most = 0;
    for (const ScheduleOp& op : program_.schedule.ranks[static_cast<std::size_t>(rank)]) {
      if (op.type == OpType::F) most = std::max(most, ++now);
      if (op.type == OpType::B || op.type == OpType::I) --now;
    }
    return most;
  }

  // Stages of one kind hold the same state, and most ranks hold stages of one kind.
  const TrainingState& state_of(const std::vector<std::int64_t>& stages) {
    std::vector<std::int32_t> kinds;
    for (const std::int64_t stage : stages) kinds.push_back(program_.stages[static_cast<std::size_t>(stage)].kind);
    const auto [known, added] = states_.try_emplace(std::move(kinds));
    if (added) known->second = training_state(plan_, layout_, program_, stages);
    return known->second;
  }

  const Plan& plan_;
  const Layout& layout_;
  const StepProgram& program_;
  const Device& device_;
  const std::vector<SlotMemory>& slots_;
  std::vector<std::vector<std::int32_t>> stages_;  // by rank
  std::vector<double> waiting_;                    // of activations on the host, by rank
  std::map<std::vector<std::int32_t>, TrainingState> states_;
};

std::string op_type(const Schedule& schedule, std::size_t rank, std::int32_t op) {
  const std::vector<ScheduleOp>& ops = schedule.ranks[rank];
  const auto index = static_cast<std::size_t>(op);
  return index < ops.size() ? std::string(to_string(ops[index].type)) : "";
}

}  // namespace

Memory memory(const Plan& plan, const Layout& layout, const StepProgram& program, const Device& device,
              const std::vector<SlotMemory>& slots) {
  Accountant accountant(plan, layout, program, device, slots);
  Memory result;
  std::vector<double> on_hosts;
  for (std::int32_t rank = 0; rank < program.schedule.shape.ranks; ++rank) {
    result.ranks.push_back(accountant.of(rank));
    result.peak_bytes = std::max(result.peak_bytes, result.ranks.back().peak_bytes);
    on_hosts.push_back(result.ranks.back().host_bytes);
  }
  result.capacity_bytes = device.memory.value();
  result.host_bytes = fullest_host(plan, device, on_hosts);
  result.host_capacity_bytes = device.host_memory.value();
  result.fits = result.peak_bytes <= result.capacity_bytes && result.host_fits();
  return result;
}

Memory memory(const Plan& plan, const Layout& layout, const StepProgram& program, const Device& device) {
  return memory(plan, layout, program, device, slot_memories(program));
}

const RankMemory* fullest_rank(const Memory& memory) {
  constexpr double nearly_all = 0.999;
  const bool full = memory.peak_bytes > nearly_all * memory.capacity_bytes;
  const auto found = full ? std::ranges::max_element(memory.ranks, {}, &RankMemory::least_bytes)
                          : std::ranges::max_element(memory.ranks, {}, &RankMemory::peak_bytes);
  return found == memory.ranks.end() ? nullptr : &*found;
}

RankLevels rank_levels(const Memory& memory, const StepProgram& program, const std::vector<SlotMemory>& slots,
                       std::size_t rank) {
  RankLevels levels;
  levels.rank = memory.ranks[rank];
  const MemoryTimeline timeline = memory_timeline(program, slots, rank);
  const MemoryMoment& fullest = timeline.ops[timeline.fullest];
  const double buffers = levels.rank.communication_bytes - fullest.communication.value();
  const double software = levels.rank.temporary_bytes - fullest.temporary.value();
  const double base = state_bytes(levels.rank) + levels.rank.reserve_bytes + buffers + software;
  const auto level = [&](const MemoryMoment& moment) {
    return MemoryLevel{describe(program, slots, rank, moment),
                       op_type(program.schedule, rank, moment.op),
                       moment.activations.value(),
                       moment.temporary.value() + software,
                       moment.communication.value() + buffers,
                       base + moment.sum().value()};
  };
  for (const MemoryMoment& moment : timeline.ops) levels.ops.push_back(level(moment));
  for (const MemoryMoment& moment : memory_within(program, slots, rank, fullest.op))
    levels.peak.push_back(level(moment));
  levels.fullest = timeline.fullest;
  return levels;
}

Fit fit_of(const Memory& memory) { return fit_of(memory.fit_probability()); }

Fit fit_of(double probability) {
  if (probability >= surely_fits) return Fit::fits;
  return probability < hardly_fits ? Fit::does_not_fit : Fit::at_the_edge;
}

std::string_view to_string(Fit fit) {
  constexpr std::array<std::string_view, 3> words = {"fits", "at the edge", "does not fit"};
  return words[static_cast<std::size_t>(fit)];
}

std::string infeasible_reason(const Memory& memory) {
  constexpr double giga = 1e9;
  const RankMemory* rank = fullest_rank(memory);
  if (rank == nullptr || fit_of(memory) != Fit::does_not_fit) return "";
  const std::string how_likely =
      memory.fits_probability ? fmt::format(" (it fits with {})", chance(*memory.fits_probability, 1)) : "";
  const double host_share = memory.host_capacity_bytes > 0 ? memory.host_bytes / memory.host_capacity_bytes : 0;
  if (host_share > rank->least_bytes() / memory.capacity_bytes)
    return fmt::format("does not fit{}: a host needs {:.1f} GB or more of {:.1f} GB for what is offloaded", how_likely,
                       memory.host_bytes / giga, memory.host_capacity_bytes / giga);
  return fmt::format("does not fit{}: rank {} needs {:.1f} GB of {:.1f} GB; largest: {}", how_likely, rank->rank,
                     rank->peak_bytes / giga, memory.capacity_bytes / giga, rank->largest);
}

std::string infeasible_reason(const RolloutMemory& memory) {
  if (memory.fits) return "";
  const auto needs = [](const char* what, double bytes, double capacity) {
    constexpr double giga = 1e9;
    return fmt::format("does not fit: {} needs {:.1f} GB of {:.1f} GB", what, bytes / giga, capacity / giga);
  };
  if (memory.training_bytes > memory.capacity_bytes)
    return needs("a GPU that trains", memory.training_bytes, memory.capacity_bytes);
  if (memory.generation_bytes > memory.capacity_bytes)
    return needs("a GPU that generates", memory.generation_bytes, memory.capacity_bytes);
  return needs("a host", memory.host_bytes, memory.host_capacity_bytes);
}

std::string infeasible_reason(const StepResult& result) {
  std::string own = infeasible_reason(result.memory);
  if (!own.empty()) return own;
  if (result.rollout_error) return reason_of(*result.rollout_error);
  return result.rollout ? infeasible_reason(result.rollout->memory) : "";
}

std::vector<double> waiting_on_host(const Plan& plan, const StepProgram& program) {
  const Schedule& schedule = program.schedule;
  std::vector<double> most(schedule.ranks.size(), 0);
  if (plan.offload.activations == 0) return most;
  std::vector<double> kinds;
  for (std::size_t kind = 0; kind < program.stage_kinds.size(); ++kind)
    kinds.push_back(StageTensors(program, static_cast<std::int32_t>(kind)).on_host().value());
  const auto of_stage = [&](std::int32_t stage) {
    return kinds[static_cast<std::size_t>(program.stages[static_cast<std::size_t>(stage)].kind)];
  };
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    double now = 0;
    for (const ScheduleOp& op : schedule.ranks[rank]) {
      const bool pair = op.type == OpType::FB;
      if (pair || op.type == OpType::F) most[rank] = std::max(most[rank], now += of_stage(op.f_stage));
      if (pair || op.type == OpType::B || op.type == OpType::W) now -= of_stage(op.b_stage);
    }
  }
  return most;
}

double fullest_host(const Plan& plan, const Device& device, const std::vector<double>& ranks) {
  if (std::ranges::all_of(ranks, [](double bytes) { return bytes == 0; })) return 0;
  const std::int64_t gpus = plan.cluster.gpus, of_rank = gpus / static_cast<std::int64_t>(ranks.size());
  double most = 0;
  for (std::int64_t first = 0; first < gpus; first += device.host_gpus) {
    double bytes = 0;
    for (std::int64_t gpu = first; gpu < std::min(gpus, first + device.host_gpus); ++gpu)
      bytes += ranks[static_cast<std::size_t>(gpu / of_rank)];
    most = std::max(most, bytes);
  }
  return most;
}

double fits_on_host(double bytes, double capacity) {
  constexpr double most_more = 0.5;
  if (capacity == 0 || bytes == 0) return 1;
  return std::clamp((capacity / bytes - 1) / most_more, 0.0, 1.0);
}

Bytes weight_bytes(const Graph& block) {
  Bytes sum;
  for (const Tensor& tensor : block.tensors)
    if (tensor.role == Role::parameter && !tensor.shared) sum += tensor.bytes();
  return sum;
}

Bytes activation_bytes(const Graph& block) {
  std::vector<std::size_t> last(block.tensors.size(), 0);
  for (std::size_t i = 0; i < block.operators.size(); ++i)
    for (const TensorId id : block.operators[i].reads) last[id] = i;
  last[block.output] = block.operators.size();
  const auto passes = [&](TensorId id) {
    const Role role = block.tensor(id).role;
    return role == Role::activation || role == Role::input;
  };
  Bytes now = passes(block.input) ? block.tensor(block.input).bytes() : Bytes(), most = now;
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    if (op.phase != Phase::F) break;
    for (const TensorId id : op.writes)
      if (passes(id)) now += block.tensor(id).bytes();
    most = std::max(most, now);
    std::vector<TensorId> ends = op.reads;
    ends.insert(ends.end(), op.writes.begin(), op.writes.end());  // those that no operator reads
    std::ranges::sort(ends);
    ends.erase(std::ranges::unique(ends).begin(), ends.end());
    for (const TensorId id : ends)
      if (passes(id) && last[id] <= i) now -= block.tensor(id).bytes();
  }
  return most;
}

}  // namespace plumbline::model
