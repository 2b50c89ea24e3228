#include "model/memory/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include "model/base/text.h"
#include "model/cost/constants.h"
#include "model/plan/plan.h"
#include "model/program/data_parallel.h"

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

namespace {

struct Whole {  // the unsharded bytes of a unit
  Bytes parameters, gradients;
};
using StageUnits = std::vector<std::vector<Whole>>;  // [stage of the rank][unit]

// Returns the bytes of master weight and moments of a parameter, of which Muon has one.
double optimizer_bytes(const Plan& plan, DataType stored, bool muon) {
  const double master =
      has_master_weights(plan, stored) ? bytes_per_element(activation_type(plan.precision.master_weights)) : 0;
  return master + (muon ? 1 : 2) * bytes_per_element(activation_type(plan.precision.optimizer_moments));
}

class StateCounter {
 public:
  StateCounter(const Plan& plan, const Layout& layout)
      : plan_(plan),
        zero_(plan.parallelism.zero_stage),
        copies_(plan.optimizer.gradient_copy == "fp32"),
        expert_shards_(static_cast<double>(shard_group(plan, layout, true).shards)),
        dense_shards_(static_cast<double>(shard_group(plan, layout, false).shards)),
        expert_replicas_(static_cast<double>(shard_group(plan, layout, true).replicas)),
        dense_replicas_(static_cast<double>(shard_group(plan, layout, false).replicas)) {}

  void add(const Tensor& tensor, double times) {
    StateBytes& bytes = tensor.expert ? state_.experts : state_.others;
    const double shards = tensor.expert ? expert_shards_ : dense_shards_;
    if (tensor.role == Role::gradient) {
      const Bytes copy(tensor.elements() * (copies_ ? bytes_per_element(DataType::fp32) : 0));
      bytes.gradients += times * (tensor.bytes() + copy) / (zero_ >= 2 ? shards : 1);
      if (plan_.offload.optimizer) state_.counts.on_host += times * tensor.bytes() / shards;
      return;
    }
    if (!tensor.frozen) count(tensor, times, shards);
    bytes.parameters += times * tensor.bytes() / (zero_ >= 3 ? shards : 1);
    bytes.parameters += times * Bytes(tensor.copies * tensor.elements() * bytes_per_element(operand_type(tensor)));
    if (tensor.frozen) return;
    const Bytes states =
        times * Bytes(tensor.elements() * optimizer_bytes(plan_, tensor.type, updated_by_muon(plan_, tensor)) / shards);
    (plan_.offload.optimizer ? state_.counts.on_host : bytes.optimizer) += states;
    if (plan_.optimizer.ema == "host") state_.counts.on_host += times * average_bytes(tensor) / shards;
  }

  // Adds the tensors that exist for a while only, in addition to the shards.
  void add_whole(const StageUnits& stages) {
    std::vector<Whole> units, whole_stages;
    for (const std::vector<Whole>& stage : stages) {
      units.insert(units.end(), stage.begin(), stage.end());
      Whole& sum = whole_stages.emplace_back();
      for (const Whole& unit : stage) sum.gradients += unit.gradients;
    }
    const auto all = static_cast<std::size_t>(units.size());
    const std::size_t gathered =
        plan_.parallelism.reshard_after_forward ? static_cast<std::size_t>(plan_.overlap.prefetch) + 1 : all;
    if (zero_ >= 3)
      state_.gathered_parameters = std::max(state_.gathered_parameters, most(units, gathered, &Whole::parameters));
    // A unit is written while the one before is reduced. When a stage's run begins, what the run before it needed is
    // freed, which is more than the gradients that are reduced. Without runs the sums of all stages wait at once.
    const std::string& after = plan_.parallelism.reduce_after;
    const Bytes gradients = after == "pass"
                                ? most(units, 2, &Whole::gradients)
                                : most(whole_stages, after == "run" ? 1 : whole_stages.size(), &Whole::gradients);
    if (zero_ >= 2) most_gradients_ = std::max(most_gradients_, gradients);
    const double held = bytes_per_element(activation_type(plan_.precision.gradients));
    const double wire =
        bytes_per_element(activation_type(plan_.precision.gradient_reduce.value_or(plan_.precision.gradients)));
    if (wire != held) most_copied_ = std::max(most_copied_, most(units, 2, &Whole::gradients) * (wire / held));
  }

  TrainingState state() {
    state_.others.parameters += state_.gathered_parameters;
    state_.others.gradients += most_gradients_ + most_copied_;
    return state_;
  }

 private:
  void count(const Tensor& tensor, double times, double shards) {
    ParameterCounts& counts = state_.counts;
    counts.held += times * tensor.elements() / (zero_ >= 3 ? shards : 1);
    counts.updated += times * tensor.elements() / shards;
    if (zero_ >= 3 && has_master_weights(plan_, tensor.type)) counts.shards += times * tensor.bytes() / shards;
    std::vector<std::int64_t> shape;
    double elements = 1;
    for (const Dimension& dimension : tensor.shape) shape.push_back(dimension.size);
    if (tensor.expert && shape.size() > 1) shape.erase(shape.begin());
    for (const std::int64_t size : shape) elements *= static_cast<double>(size);
    counts.largest = std::max(counts.largest, elements);
    const bool table = tensor.name.ends_with("embedding") || tensor.name == "positions";
    if (shape.size() >= 2 && !table && shapes_.insert(std::move(shape)).second) counts.shapes += elements;
  }

  // Returns the bytes of the average of a tensor, which its replicas divide, in the format of the master weights.
  Bytes average_bytes(const Tensor& tensor) const {
    const DataType type =
        has_master_weights(plan_, tensor.type) ? activation_type(plan_.precision.master_weights) : tensor.type;
    return Bytes(tensor.elements() * bytes_per_element(type) / (tensor.expert ? expert_replicas_ : dense_replicas_));
  }

  // Returns the format in which GEMMs read a weight.
  DataType operand_type(const Tensor& weight) const {
    const auto& precision = plan_.precision;
    return activation_type(weight.expert ? precision.experts.value_or(precision.gemm) : precision.gemm);
  }

  // Returns the largest sum over `count` consecutive units.
  static Bytes most(const std::vector<Whole>& units, std::size_t count, Bytes Whole::*part) {
    Bytes largest;
    for (std::size_t first = 0; first < units.size(); ++first) {
      Bytes sum;
      for (std::size_t i = first; i < std::min(units.size(), first + count); ++i) sum += units[i].*part;
      largest = std::max(largest, sum);
    }
    return largest;
  }

  const Plan& plan_;
  std::int64_t zero_;
  bool copies_;
  TrainingState state_;
  std::set<std::vector<std::int64_t>> shapes_;
  Bytes most_gradients_, most_copied_;
  double expert_shards_, dense_shards_, expert_replicas_, dense_replicas_;
};

StageUnits whole_units(const std::vector<Graph>& blocks, const std::vector<StageParameters>& stages) {
  StageUnits units;
  for (const StageParameters& stage : stages) {
    if (stage.units == nullptr) continue;
    std::vector<Whole>& whole = units.emplace_back();
    const auto bytes = [&](const std::vector<ShardUnit::Place>& places) {
      Bytes sum;
      for (const auto& place : places) {
        const Tensor& tensor = blocks[stage.kind->blocks[place.block_of_stage]].tensor(place.tensor);
        if (!tensor.shared) sum += tensor.bytes();
      }
      return sum;
    };
    for (const ShardUnit& unit : *stage.units) whole.push_back({bytes(unit.parameters), bytes(unit.gradients)});
  }
  return units;
}

bool is_state(const Tensor& tensor) { return tensor.role == Role::parameter || tensor.role == Role::gradient; }

}  // namespace

TrainingState training_state(const Plan& plan, const Layout& layout, const StepProgram& program,
                             const std::vector<std::int64_t>& stages) {
  std::vector<StageParameters> parameters;
  for (const std::int64_t stage : stages) {
    const auto index = static_cast<std::size_t>(stage);
    parameters.push_back({&program.stage_kinds[static_cast<std::size_t>(program.stages[index].kind)],
                          program.stage_units.empty() ? nullptr : &program.stage_units[index]});
  }
  return training_state(plan, layout, program.blocks, parameters);
}

TrainingState training_state(const Plan& plan, const Layout& layout, const std::vector<Graph>& blocks,
                             const std::vector<StageParameters>& stages) {
  std::map<std::uint16_t, double> times;  // how often the rank has each block
  for (const StageParameters& stage : stages)
    for (const std::uint16_t block : stage.kind->blocks) ++times[block];
  StateCounter counter(plan, layout);
  std::map<std::pair<std::string_view, bool>, const Tensor*> borrowed;  // a copy is frozen where the policy is not
  for (const auto& [block, count] : times)
    for (const Tensor& tensor : blocks[block].tensors) {
      if (!is_state(tensor)) continue;
      if (tensor.shared)
        borrowed.emplace(std::pair(std::string_view(tensor.name), tensor.frozen), &tensor);
      else
        counter.add(tensor, count);
    }
  if (!borrowed.empty())
    for (const auto& [block, count] : times)
      for (const Tensor& tensor : blocks[block].tensors)
        if (is_state(tensor) && !tensor.shared) borrowed.erase({tensor.name, tensor.frozen});
  for (const auto& [key, tensor] : borrowed) counter.add(*tensor, 1);
  counter.add_whole(whole_units(blocks, stages));
  return counter.state();
}

double state_bytes_per_parameter(const Plan& plan) {
  const DataType stored = weight_type(plan.precision.gemm);
  return bytes_per_element(stored) + optimizer_bytes(plan, stored, plan.optimizer.kind == "muon");
}

namespace {

int groups_of_ranks(const Plan& plan, const Layout& layout) {
  const auto& degrees = plan.parallelism;
  const bool experts = layout.experts_per_rank > 0 && layout.expert_group != layout.dense_group;
  const auto groups =
      std::ranges::count_if(layer_groups(degrees), [](const RankGroup& group) { return group.ranks > 1; });
  return static_cast<int>(groups) + (degrees.pipeline > 1) + (layout.dense_group > 1) +
         (experts && layout.expert_group > 1);
}

bool reduces(const Layout& layout) { return layout.dense_group > 1 || layout.expert_group > 1; }

Bytes communication_buffers(const Plan& plan, const Layout& layout, const MemoryReserve& reserve, Bytes gradients) {
  Bytes sum = reserve.communicator * groups_of_ranks(plan, layout);
  if (plan.parallelism.expert > 1) sum += reserve.all_to_all;
  constexpr double buckets = 2;
  if (reduces(layout) && !reserve.reduction_buffers)
    sum += std::min(buckets * Bytes(plan.overlap.gradient_bucket_bytes), gradients);
  return sum;
}

bool copies_gradients(const Plan& plan) { return plan.optimizer.gradient_copy == "fp32"; }

Bytes separate_gradients(const Plan& plan, const MemoryReserve& reserve, const ParameterCounts& counts) {
  Bytes sum;
  if (reserve.shape_gradients) sum += Bytes(counts.shapes * bytes_per_element(DataType::bf16));
  if (!reserve.separate_gradients) return sum;
  const DataType added = copies_gradients(plan) ? DataType::fp32 : activation_type(plan.precision.gradients);
  return sum + Bytes(counts.largest * bytes_per_element(added));
}

Bytes update_copies(const Plan& plan, const MemoryReserve& reserve, const ParameterCounts& counts) {
  return copies_gradients(plan) ? reserve.reduced_copies * counts.held : reserve.update_copies * counts.updated;
}

}  // namespace

Device with_allocator(Device device, const Profile& profile) {
  MemoryReserve& reserve = device.reserve;
  ConstantReader constants(profile);
  const auto take = [&](std::string_view name, auto& value) {
    if (const auto constant = constants.find(name)) value = std::remove_cvref_t<decltype(value)>(constant->value);
  };
  take("allocator.context", reserve.context);
  take("allocator.update_copies", reserve.update_copies);
  take("allocator.reduced_copies", reserve.reduced_copies);
  take("allocator.separate_gradients", reserve.separate_gradients);
  take("allocator.shape_gradients", reserve.shape_gradients);
  take("allocator.master_shards", reserve.master_shards);
  take("allocator.stage_outputs", reserve.stage_outputs);
  const auto connection = constants.find("allocator.connection"), connections = constants.find("allocator.connections"),
             channels = constants.find("collective.channels");
  if (connection && connections && channels)
    reserve.communicator = Bytes(connection->value * connections->value * channels->value);
  if (const auto buffers = constants.find("allocator.reduction_buffers"))
    reserve.reduction_buffers = Bytes(buffers->value);
  if (const auto index = profile.find("allocator.fragmentation")) {
    const Parameter& share = profile.parameters()[*index];
    const double spread = share.value * share.relative_uncertainty.value_or(0);
    reserve.fragmentation = share.value;
    reserve.fragmentation_low = share.low.value_or(std::max(0.0, share.value - spread));
    reserve.fragmentation_high = share.high.value_or(share.value + spread);
  }
  return device;
}

RankPeak rank_peak(const Plan& plan, const Layout& layout, const Device& device, const RankHolding& holding) {
  constexpr double gemm_streams = 2;
  const MemoryReserve& reserve = device.reserve;
  const Bytes dynamic = holding.dynamic;
  const Bytes runtime = reserve.context + gemm_streams * reserve.matmul_workspace;
  RankPeak peak;
  peak.state = holding.state;
  peak.dynamic = dynamic;
  if (reserve.master_shards) peak.state -= holding.counts.shards;
  peak.buffers = communication_buffers(plan, layout, reserve, holding.gradients);
  if (reduces(layout)) peak.workspaces = reserve.reduction_buffers.value_or(Bytes());
  peak.buffers += peak.workspaces;
  peak.software = separate_gradients(plan, reserve, holding.counts);
  if (reserve.stage_outputs) peak.software += holding.outputs;
  peak.held = peak.held_low = peak.held_usual = peak.held_high = dynamic * reserve.fragmentation;
  if (reserve.fragmentation_high > 0) {
    const Bytes copies = update_copies(plan, reserve, holding.counts);
    const Bytes room = device.memory - (peak.state + peak.buffers + peak.software + runtime);
    const bool even = plan.recompute.policy == "full" && !plan.recompute.layers;
    const Bytes uneven = even ? std::max(dynamic - holding.kept, Bytes()) : dynamic;
    const Bytes least = std::max(dynamic + uneven * reserve.fragmentation_low, copies);
    const auto unlimited = [&](double share) { return std::max(least, dynamic + uneven * share + copies); };
    const auto held = [&](double share) { return std::max(least, std::min(unlimited(share), room)) - dynamic; };
    peak.held = held(reserve.fragmentation);
    peak.low = least - dynamic - peak.held;
    peak.high = held(reserve.fragmentation_high) - peak.held;
    peak.held_low = least - dynamic;
    peak.held_usual = unlimited(reserve.fragmentation) - dynamic;
    peak.held_high = unlimited(reserve.fragmentation_high) - dynamic;
  }
  peak.reserve = runtime + peak.held;
  peak.low += peak.sum();
  peak.high += peak.sum();
  return peak;
}

FullestMoment fullest_moment(const ScheduleTable::Rank& rank, const std::vector<ChunkBytes>& chunks,
                             const std::vector<Bytes>& slots, Bytes message) {
  FullestMoment most;
  for (const ScheduleTable::Moment& moment : rank.moments) {
    FullestMoment now{message * static_cast<double>(moment.messages), Bytes()};
    for (std::size_t i = 0; i < rank.stages.size(); ++i) {
      const ChunkBytes& chunk = chunks[static_cast<std::size_t>(rank.stages[i])];
      const Bytes forwards = chunk.after_forward * static_cast<double>(moment.forwards[i]);
      const Bytes weights = chunk.for_weights * static_cast<double>(moment.weights[i]);
      now.sum += forwards;
      now.sum += weights;
      now.kept += forwards + weights;
    }
    if (moment.slot_class >= 0) now.sum += slots[static_cast<std::size_t>(moment.slot_class)];
    if (now.sum > most.sum) most = now;
  }
  return most;
}

}  // namespace plumbline::model
