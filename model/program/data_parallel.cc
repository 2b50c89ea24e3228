#include "model/program/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "model/plan/plan.h"

namespace plumbline::model {
namespace {

using CollectiveKind = DataParallelCollectives::Kind;

class Planner {
 public:
  Planner(const Plan& plan, const StepProgram& program, std::size_t rank)
      : plan_(plan), program_(program), ops_(program.schedule.ranks[rank]), slots_(program.slot_templates[rank]) {}

  std::vector<DataParallelCollectives> run() {
    const std::int64_t zero = plan_.parallelism.zero_stage;
    if (zero == 1 || zero == 2) gather_once();
    if (zero == 3) gather_every_time();
    if (zero <= 1 || plan_.parallelism.reduce_after == "step")
      reduce_once();
    else
      reduce_every_time();
    std::ranges::stable_sort(result_, {}, [](const DataParallelCollectives& s) {
      return std::pair(s.after.slot, s.after.segment < 0 && s.after.slot >= 0 ? INT32_MAX : s.after.segment);
    });
    return std::move(result_);
  }

 private:
  static bool writes_gradients(const ScheduleOp& op) {
    return op.type == OpType::B || op.type == OpType::W || op.type == OpType::FB;
  }
  static bool reads_parameters(const ScheduleOp& op) { return op.type != OpType::W; }

  const std::vector<ShardUnit>& units(std::int32_t stage) const {
    return program_.stage_units[static_cast<std::size_t>(stage)];
  }

  // Returns a unit's span in a slot; slots with the same template share it.
  SegmentSpan span_of(std::int32_t slot, bool forward, std::int32_t stage, std::int32_t unit, bool writing) {
    const std::uint16_t index = slots_[static_cast<std::size_t>(slot)];
    const auto [entry, fresh] = spans_.try_emplace(std::tuple(index, forward, stage, writing));
    if (fresh)
      entry->second = segment_spans(program_.blocks, program_.templates[index], forward, units(stage), writing);
    return entry->second[static_cast<std::size_t>(unit)];
  }

  void gather_once() {
    if (program_.gather_after_update) return;
    std::map<std::int32_t, bool> seen;
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(ops_.size()); ++slot) {
      const std::int32_t stage = ops_[static_cast<std::size_t>(slot)].f_stage;
      if (stage < 0 || std::exchange(seen[stage], true)) continue;
      std::vector<DataParallelCollectives> gathers;
      for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(units(stage).size()); ++unit)
        gathers.push_back(
            {CollectiveKind::gather, stage, unit, {}, {slot, span_of(slot, true, stage, unit, false).first}});
      std::ranges::stable_sort(gathers, {}, [](const DataParallelCollectives& s) { return s.before.segment; });
      result_.insert(result_.end(), gathers.begin(), gathers.end());
    }
  }

  void reduce(std::int32_t slot, std::int32_t stage) {
    const bool overlap = plan_.overlap.gradient_reduce;
    const auto last = static_cast<std::int32_t>(ops_.size()) - 1;
    const bool waits = !overlap && plan_.parallelism.zero_stage >= 2 && slot < last;
    for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(units(stage).size()); ++unit) {
      if (units(stage)[static_cast<std::size_t>(unit)].gradients.empty()) continue;  // frozen
      DataParallelCollectives s{CollectiveKind::reduce, stage, unit, {slot, -1}, {}};
      if (overlap) s.after.segment = span_of(slot, false, stage, unit, true).last;
      if (waits) s.before = {slot + 1, -1};
      if (!overlap && plan_.parallelism.zero_stage < 2) s.after.slot = last;
      result_.push_back(s);
    }
  }

  void reduce_once() {
    std::map<std::int32_t, std::int32_t> last;  // the last slot that writes gradients of a stage
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(ops_.size()); ++slot)
      if (writes_gradients(ops_[static_cast<std::size_t>(slot)]))
        last[ops_[static_cast<std::size_t>(slot)].b_stage] = slot;
    for (const auto& [stage, slot] : last) reduce(slot, stage);
  }

  void reduce_every_time() {
    const bool runs = plan_.parallelism.reduce_after == "run";
    std::int32_t last = -1;  // slot that writes gradients, not reduced yet
    const auto stage = [this](std::int32_t slot) { return ops_[static_cast<std::size_t>(slot)].b_stage; };
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(ops_.size()); ++slot) {
      if (!writes_gradients(ops_[static_cast<std::size_t>(slot)])) continue;
      if (last >= 0 && (!runs || stage(last) != stage(slot))) reduce(last, stage(last));
      last = slot;
    }
    if (last >= 0) reduce(last, stage(last));
  }

  void add_uses(std::int32_t slot, bool forward, std::int32_t stage, std::vector<ParameterUse>& uses) {
    for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(units(stage).size()); ++unit) {
      const SegmentSpan span = span_of(slot, forward, stage, unit, false);
      if (span.first >= 0) uses.push_back({stage, unit, {slot, span.first}, {slot, span.last}});
    }
  }

  void gather_every_time() {
    std::vector<ParameterUse> all;  // in the order in which the rank reaches them
    const auto stages_of = [this](std::int32_t slot) {
      const ScheduleOp& op = ops_[static_cast<std::size_t>(slot)];
      return std::pair(op.f_stage, reads_parameters(op) ? op.b_stage : -1);
    };
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(ops_.size()); ++slot) {
      const auto [forward, backward] = stages_of(slot);
      std::vector<ParameterUse> now;
      if (forward >= 0) add_uses(slot, true, forward, now);
      if (backward >= 0) add_uses(slot, false, backward, now);
      std::ranges::stable_sort(now, {}, [](const ParameterUse& use) { return use.first.segment; });
      for (const ParameterUse& use : now) add_use(all, use);
    }
    plan_gathers(all, static_cast<std::size_t>(plan_.overlap.prefetch) + 1, plan_.parallelism.reshard_after_forward,
                 stages_of);
    for (const ParameterUse& use : all)
      if (use.gathered) result_.push_back({CollectiveKind::gather, use.stage, use.unit, use.after, use.first});
  }

  const Plan& plan_;
  const StepProgram& program_;
  const std::vector<ScheduleOp>& ops_;
  const std::vector<std::uint16_t>& slots_;
  std::vector<DataParallelCollectives> result_;
  std::map<std::tuple<std::uint16_t, bool, std::int32_t, bool>, std::vector<SegmentSpan>> spans_;
};

}  // namespace

std::vector<SegmentSpan> segment_spans(const std::vector<Graph>& blocks, const SlotTemplate& slot, bool forward,
                                       const std::vector<ShardUnit>& units, bool writing) {
  std::vector<std::vector<std::int32_t>> owners;  // [block of stage][tensor]: unit, -1 for none
  const auto owner = [&owners](std::size_t block, TensorId tensor) -> std::int32_t& {
    if (owners.size() <= block) owners.resize(block + 1);
    if (owners[block].size() <= tensor) owners[block].resize(tensor + 1, -1);
    return owners[block][tensor];
  };
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    for (const ShardUnit::Place& place : writing ? units[unit].gradients : units[unit].parameters)
      owner(place.block_of_stage, place.tensor) = static_cast<std::int32_t>(unit);
  std::vector<SegmentSpan> spans(units.size());
  for (std::size_t i = 0; i < slot.segments.size(); ++i) {
    const Segment& segment = slot.segments[i];
    if (segment.forward_side != forward || segment.block_of_stage >= owners.size()) continue;
    const std::vector<std::int32_t>& here = owners[segment.block_of_stage];
    for (const std::uint16_t index : segment.operators) {
      const Operator& op = blocks[segment.block].operators[index];
      for (const TensorId id : writing ? op.writes : op.reads) {
        if (id >= here.size() || here[id] < 0) continue;
        SegmentSpan& span = spans[static_cast<std::size_t>(here[id])];
        if (span.first < 0) span.first = static_cast<std::int32_t>(i);
        span.last = static_cast<std::int32_t>(i);
      }
    }
  }
  return spans;
}

std::vector<std::vector<DataParallelCollectives>> data_parallel(const Plan& plan, const StepProgram& program) {
  std::vector<std::vector<DataParallelCollectives>> all;
  for (std::size_t rank = 0; rank < program.schedule.ranks.size(); ++rank)
    all.push_back(Planner(plan, program, rank).run());
  return all;
}

namespace {

class OptimizerWriter {
 public:
  OptimizerWriter(const Plan& plan, const Layout& layout) : plan_(plan), layout_(layout) {
    result_.graph.name = "optimizer";
  }

  StageOptimizer run(const std::vector<StageUnit>& units) {
    for (const StageUnit& unit : units) {
      ShardUnit& written = result_.units.emplace_back();
      written.parameters = unit.parameters;
      written.gradients = unit.gradients;
      for (const UnitPiece& piece : unit.pieces)
        if (!piece.frozen) reduce(unit, piece, written);
    }
    if (plan_.precision.gemm == Precision::fp16) unscale();
    if (plan_.optimizer.gradient_clipping) norm();
    if (plan_.optimizer.kind == "muon")
      for (const bool expert : {false, true}) orthogonalize(units, expert);
    for (const Shard& shard : shards_) update(shard);
    gather_frozen(units);
    for (const StageUnit& unit : units)
      for (const UnitPiece& piece : unit.pieces) cast_weights(unit, piece);
    if (plan_.precision.gemm == Precision::fp8_tensor && plan_.precision.scaling == "delayed") share_largest_entries();
    return std::move(result_);
  }

 private:
  struct Shard {  // this rank's part of a piece after the reduction of its gradient
    std::string name;
    std::int64_t whole = 0, elements = 0;
    DataType stored = DataType::bf16;
    bool muon = false;
    ShardGroup group;
    std::size_t unit = 0;
    TensorId gradient = 0;
  };

  Shard shard_of(const StageUnit& unit, const UnitPiece& piece, std::size_t index) const {
    const ShardGroup group = shard_group(plan_, layout_, unit.expert);
    const bool one_format = unit.pieces.size() == 1;
    std::string name = one_format ? unit.name : unit.name + "_" + std::string(to_string(piece.stored));
    if (piece.muon) name += "_muon";
    const auto elements = static_cast<std::int64_t>(std::ceil(piece.elements / static_cast<double>(group.shards)));
    return {piece.frozen ? "frozen_" + name : name,
            static_cast<std::int64_t>(piece.elements),
            elements,
            piece.stored,
            piece.muon,
            group,
            index,
            0};
  }

  void gather_frozen(const std::vector<StageUnit>& units) {
    for (std::size_t i = 0; i < units.size(); ++i)
      for (const UnitPiece& piece : units[i].pieces) {
        if (!piece.frozen) continue;
        const Shard shard = shard_of(units[i], piece, i);
        gather(shard, add("shard_" + shard.name, shard.elements, shard.stored, Role::constant), result_.units[i]);
      }
  }

  void reduce(const StageUnit& unit, const UnitPiece& piece, ShardUnit& written) {
    Shard shard = shard_of(unit, piece, result_.units.size() - 1);
    const std::string& name = shard.name;
    const ShardGroup& group = shard.group;
    const DataType accumulated = activation_type(plan_.precision.gradients);
    const DataType wire = activation_type(plan_.precision.gradient_reduce.value_or(plan_.precision.gradients));
    TensorId gradient = add("d_" + name, shard.whole, accumulated, Role::gradient);
    if (wire != accumulated) {
      const TensorId cast = add("cast_d_" + name, shard.whole, wire, Role::activation);
      written.reduce.push_back(emit(OperatorKind::cast, "cast_" + name, {gradient}, {cast}, CastAttributes{}));
      gradient = cast;
    }
    sum_over_tensor_ranks(name, piece, wire, written);
    const bool sharded = plan_.parallelism.zero_stage >= 1;
    if (sharded) {
      const TensorId scattered = add("scattered_d_" + name, shard.elements, wire, Role::activation);
      written.reduce.push_back(emit(OperatorKind::reduce_scatter, "reduce_" + name, {gradient}, {scattered},
                                    CollectiveAttributes{group.shards, group.stride}));
      gradient = scattered;
    }
    if (!sharded || group.replicas > 1) {
      const TensorId reduced = add("reduced_d_" + name, shard.elements, wire, Role::activation);
      written.reduce.push_back(emit(OperatorKind::all_reduce, "all_reduce_" + name, {gradient}, {reduced},
                                    CollectiveAttributes{group.replicas, group.replica_stride}));
      gradient = reduced;
    }
    shard.gradient = gradient;
    shards_.push_back(shard);
  }

  // Where ranks divide the tokens, each has a part of the gradients of parameters that all of them hold.
  void sum_over_tensor_ranks(const std::string& name, const UnitPiece& piece, DataType wire, ShardUnit& written) {
    const auto& degrees = plan_.parallelism;
    if (degrees.tensor == 1 || !degrees.sequence || piece.whole == 0) return;
    const auto elements = static_cast<std::int64_t>(piece.whole);
    const TensorId part = add("part_d_" + name, elements, wire, Role::gradient);
    const TensorId sum = add("sum_d_" + name, elements, wire, Role::activation);
    written.reduce.push_back(
        emit(OperatorKind::all_reduce, "sum_" + name, {part}, {sum}, CollectiveAttributes{degrees.tensor, 1}));
  }

  std::vector<TensorId> gradients() const {
    std::vector<TensorId> ids;
    for (const Shard& shard : shards_) ids.push_back(shard.gradient);
    return ids;
  }

  // FP16 gradients were scaled; if an element is not finite on any rank, the step is skipped.
  void unscale() {
    std::vector<TensorId> reads = gradients(), writes;
    reads.push_back(add("loss_scale", 1, DataType::fp32, Role::constant));
    for (Shard& shard : shards_) {
      shard.gradient =
          add("unscaled_d_" + shard.name, shard.elements, activation_type(plan_.precision.gradients), Role::activation);
      writes.push_back(shard.gradient);
    }
    const TensorId found = add("found_inf", 1, DataType::fp32, Role::activation);
    writes.push_back(found);
    emit(OperatorKind::unscale, "unscale", reads, writes, {});
    agree(found, "found_inf_anywhere");
  }

  void norm() {
    const TensorId squares = add("sum_of_squares", 1, DataType::fp32, Role::activation);
    emit(OperatorKind::sum_of_squares, "sum_of_squares", gradients(), {squares}, {});
    squares_ = {agree(squares, "sum_of_all_squares")};
  }

  // Sums a number over the ranks that hold different parts of the gradient.
  TensorId agree(TensorId number, const std::string& name) {
    const std::int64_t replicas = shard_group(plan_, layout_, false).replicas;
    const std::int64_t ranks = std::max<std::int64_t>(1, plan_.cluster.gpus / replicas);
    if (ranks == 1) return number;
    const TensorId sum = add(name, 1, DataType::fp32, Role::activation);
    const std::int64_t stride = plan_.parallelism.zero_stage == 0 ? replicas : 1;
    emit(OperatorKind::all_reduce, name, {number}, {sum}, CollectiveAttributes{ranks, stride});
    return sum;
  }

  void update(const Shard& shard) {
    const bool on_host = plan_.offload.optimizer;
    const DataType moment = activation_type(plan_.precision.optimizer_moments);
    ShardUnit& unit = result_.units[shard.unit];
    std::vector<TensorId> reads = {shard.gradient};
    if (on_host) {
      reads[0] =
          add("host_d_" + shard.name, shard.elements, result_.graph.tensor(shard.gradient).type, Role::activation);
      unit.copy.push_back(emit(OperatorKind::copy_to_host, "copy_d_" + shard.name, {shard.gradient}, {reads[0]}, {}));
    }
    reads.insert(reads.end(), squares_.begin(), squares_.end());
    const bool master = has_master_weights(plan_, shard.stored);
    const TensorId updated =
        add("updated_" + shard.name, shard.elements, on_wire(shard.stored), master ? Role::activation : Role::gradient);
    std::vector<TensorId> writes = {updated};
    if (master)
      writes.push_back(
          add("master_" + shard.name, shard.elements, activation_type(plan_.precision.master_weights), Role::gradient));
    writes.push_back(add("first_moment_" + shard.name, shard.elements, moment, Role::gradient));
    if (shard.muon) {
      const TensorId copy = add("bf16_moment_" + shard.name, shard.elements, DataType::bf16, Role::activation);
      emit(OperatorKind::cast, "cast_moment_" + shard.name, {writes.back()}, {copy}, CastAttributes{});
      reads.push_back(add("orthogonal_" + shard.name, shard.elements, DataType::bf16, Role::constant));
    } else {
      writes.push_back(add("second_moment_" + shard.name, shard.elements, moment, Role::gradient));
    }
    unit.update.push_back(emit(OperatorKind::adamw, (shard.muon ? "muon_" : "adamw_") + shard.name, reads, writes,
                               AdamwAttributes{.on_host = on_host}));
    gather(shard, on_host ? to_device(shard, updated) : updated, unit);
    if (plan_.optimizer.ema == "host" && !on_host) average(shard, writes[master ? 1 : 0]);
  }

  // The matrices of all pieces are one list, of which each rank's shard is a piece.
  void orthogonalize(const std::vector<StageUnit>& units, bool expert) {
    std::map<std::pair<std::int64_t, std::int64_t>, double> matrices;
    double all = 0, elements = 0;
    for (const StageUnit& unit : units)
      for (const UnitPiece& piece : unit.pieces)
        for (const auto& [shape, count] : piece.matrices) {
          if (unit.expert != expert) continue;
          matrices[shape] += count;
          all += count;
          elements += count * static_cast<double>(shape.first * shape.second);
        }
    if (all == 0) return;
    const std::string name = expert ? "experts" : "dense";
    const ShardGroup group = shard_group(plan_, layout_, expert);
    double share = 1;
    if (group.shards > 1) {
      share = std::min(1.0, 1 / static_cast<double>(group.shards) + 1 / all);
      const auto met = static_cast<std::int64_t>(std::ceil(share * elements));
      const TensorId own = add("own_moment_" + name, met / group.shards, DataType::bf16, Role::constant);
      const TensorId whole = add("met_moment_" + name, met, DataType::bf16, Role::activation);
      emit(OperatorKind::all_gather, "gather_moment_" + name, {own}, {whole},
           CollectiveAttributes{group.shards, group.stride});
    }
    for (const auto& [shape, count] : matrices) newton_schulz(name, shape, share * count);
  }

  // Matrices follow each other, three GEMMs an iteration.
  void newton_schulz(const std::string& name, const std::pair<std::int64_t, std::int64_t>& shape, double matrices) {
    constexpr double iterations = 5;
    const std::int64_t m = std::min(shape.first, shape.second), n = std::max(shape.first, shape.second);
    const auto times = static_cast<std::int64_t>(std::ceil(iterations * matrices));
    const MatmulAttributes attributes{.chunks = times};
    const std::string suffix = name + "_" + std::to_string(m) + "x" + std::to_string(n);
    const auto all = [&](const char* what, std::int64_t columns, Role role) {
      const TensorId id = add(what + suffix, 0, DataType::bf16, role);
      result_.graph.tensors[id].shape = {{times * m}, {columns}};
      return id;
    };
    const TensorId x = all("x_", n, Role::constant), a = all("a_", m, Role::activation),
                   b = all("b_", m, Role::activation), next = all("next_x_", n, Role::activation);
    emit(OperatorKind::matmul, "gram_" + suffix, {x, x}, {a}, attributes);
    emit(OperatorKind::matmul, "square_" + suffix, {a, a}, {b}, attributes);
    emit(OperatorKind::matmul, "apply_" + suffix, {b, x}, {next}, attributes);
  }

  TensorId to_device(const Shard& shard, TensorId updated) {
    const TensorId copy = add("new_" + shard.name, shard.elements, on_wire(shard.stored), Role::activation);
    emit(OperatorKind::copy_to_device, "copy_" + shard.name, {updated}, {copy}, {});
    return copy;
  }

  // Returns the format in which parameters are gathered once a step. Blocks of MXFP8 along one direction cannot be made
  // of those along the other, so Megatron gathers 16 bits and casts them on every rank (NVIDIA/Megatron-LM
  // megatron/core/distributed/param_and_grad_buffer.py, finish_param_sync: reuse_grad_buf_for_mxfp8_param_ag).
  DataType on_wire(DataType stored) const {
    const std::int64_t zero = plan_.parallelism.zero_stage;
    return stored == DataType::mxfp8 && (zero == 1 || zero == 2) ? DataType::bf16 : stored;
  }

  void gather(const Shard& shard, TensorId updated, ShardUnit& unit) {
    if (plan_.parallelism.zero_stage == 0) return;
    const TensorId parameter = add(shard.name, shard.whole, on_wire(shard.stored), Role::parameter);
    unit.gather.push_back(emit(OperatorKind::all_gather, "gather_" + shard.name, {updated}, {parameter},
                               CollectiveAttributes{shard.group.shards, shard.group.stride}));
  }

  // One kernel reads each weight and writes its copies: as the forward GEMM reads it, and as that of the input
  // gradient. Of a weight that is gathered in another format than it is stored in, it writes the latter too.
  void cast_weights(const StageUnit& unit, const UnitPiece& piece) {
    const bool arrives_wide = on_wire(piece.stored) != piece.stored;
    const int copies = piece.copies + (arrives_wide ? 1 : 0);
    if (piece.cast == 0 && !arrives_wide) return;
    const auto elements = static_cast<std::int64_t>(arrives_wide ? piece.elements : piece.cast);
    const auto& precision = plan_.precision;
    const DataType type = activation_type(unit.expert ? precision.experts.value_or(precision.gemm) : precision.gemm);
    const TensorId weights = add("cast_" + unit.name, elements, on_wire(piece.stored), Role::parameter);
    std::vector<TensorId> layouts = {add(unit.name + "_operand", elements, type, Role::activation)};
    if (copies > 1) layouts.push_back(add(unit.name + "_operand_t", elements, type, Role::activation));
    emit(OperatorKind::cast_transpose, "cast_" + unit.name + "_weights", {weights}, layouts, {});
  }

  // Delayed scaling agrees on the largest entries of all tensors in one message, whose time is latency.
  void share_largest_entries() {
    const std::int64_t ranks = plan_.cluster.gpus / plan_.parallelism.pipeline;
    if (ranks <= 1) return;
    const TensorId own = add("largest_entries", 1, DataType::fp32, Role::constant);
    const TensorId all = add("largest_entries_anywhere", 1, DataType::fp32, Role::activation);
    emit(OperatorKind::all_reduce, "share_largest_entries", {own}, {all}, CollectiveAttributes{ranks, 1});
  }

  // Every replica copies its part of the shard to the host.
  void average(const Shard& shard, TensorId weights) {
    const auto part = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(shard.elements) / static_cast<double>(shard.group.replicas)));
    const TensorId copy = add("ema_" + shard.name, part, result_.graph.tensor(weights).type, Role::activation);
    emit(OperatorKind::copy_to_host, "ema_" + shard.name, {weights}, {copy}, {});
  }

  TensorId add(std::string name, std::int64_t elements, DataType type, Role role) {
    auto& tensors = result_.graph.tensors;
    tensors.push_back({.name = std::move(name), .shape = {{elements}}, .type = type, .role = role});
    return static_cast<TensorId>(tensors.size() - 1);
  }

  std::uint16_t emit(OperatorKind kind, std::string name, std::vector<TensorId> reads, std::vector<TensorId> writes,
                     Attributes attributes) {
    auto& operators = result_.graph.operators;
    operators.push_back({.kind = kind,
                         .name = std::move(name),
                         .phase = Phase::W,
                         .section = Section::optimizer,
                         .reads = std::move(reads),
                         .writes = std::move(writes),
                         .attributes = attributes});
    return static_cast<std::uint16_t>(operators.size() - 1);
  }

  const Plan& plan_;
  const Layout& layout_;
  StageOptimizer result_;
  std::vector<Shard> shards_;
  std::vector<TensorId> squares_;
};

}  // namespace

bool has_master_weights(const Plan& plan, DataType stored) {
  const DataType master = activation_type(plan.precision.master_weights);
  return master != stored || bytes_per_element(master) > 2;
}

StageOptimizer make_stage_optimizer(const Plan& plan, const Layout& layout, const std::vector<StageUnit>& units) {
  return OptimizerWriter(plan, layout).run(units);
}

}  // namespace plumbline::model
