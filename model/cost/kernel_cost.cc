#include "model/cost/kernel_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/cost/measured_operators.h"
#include "model/cost/work.h"

namespace plumbline::model {

namespace {

// Returns the bytes written per element of the result; an accumulated gradient is also read.
double output_bytes(const Graph& graph, const Operator& op) {
  const auto* attributes = std::get_if<MatmulAttributes>(&op.attributes);
  const bool accumulates = attributes != nullptr && attributes->accumulate;
  return bytes_per_element(graph.tensor(op.writes[0]).type) * (accumulates ? 2 : 1);
}

// Returns the bytes per element of the operands, weighed by their elements.
double operand_bytes(const Graph& graph, const Operator& op, const GemmShape& shape) {
  const auto bytes = [&](std::size_t i) { return bytes_per_element(graph.tensor(op.reads[i]).type); };
  return (shape.m * bytes(0) + shape.n * bytes(1)) / (shape.m + shape.n);
}

bool moves_data(CoRunner co_runner) { return co_runner == CoRunner::transferring || co_runner == CoRunner::collective; }

}  // namespace

int KernelCost::kernels(const Graph& graph, const Operator& op) {
  if (op.kind == OperatorKind::grouped_matmul && op.phase == Phase::W)
    return static_cast<int>(gemm_shape(graph, op, 1).groups);
  if (op.kind == OperatorKind::attention_grad) return 3;  // row sums, main kernel, query-gradient conversion
  if (op.kind == OperatorKind::rmsnorm_grad || op.kind == OperatorKind::layernorm_grad)
    return 3;  // main kernel, two reductions of the scale's gradient
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  return cast != nullptr && (cast->scales_transposed || cast->finds_scale) ? 2 : 1;
}

KernelTime KernelCost::time(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  if (!measured_.empty())
    if (const auto measured = as_measured(graph, op, conditions)) return *measured;
  return by_form(graph, op, conditions);
}

// Scales the measured time by the formula's ratio between these conditions and those of the measurement. Measurements
// have the expected rows, and either no co-runner or a transfer and the SMs that it leaves. Memory-bound kernels were
// measured on as many SMs as are free of a co-runner.
std::optional<KernelTime> KernelCost::as_measured(const Graph& graph, const Operator& op,
                                                  const Conditions& conditions) const {
  const OperatorClass kind = operator_class(graph, op);
  const std::string key = operator_key(graph, op);
  const std::int64_t free = occupancy(conditions).free;
  Conditions then_under = conditions;
  then_under.row_scale = then_under.clock = 1;
  std::optional<Constant> measured;
  if (conditions.co_runner == CoRunner::transferring) measured = measured_.find(key, {free, true});
  if (!measured) {
    measured = measured_.find(key, {is_gemm(kind) ? conditions.sms : free});
    if (is_gemm(kind)) then_under.held = 0;
    if (is_gemm(kind) || kind == OperatorClass::attention) then_under.co_runner = CoRunner::none;
  }
  if (!measured) return std::nullopt;
  const KernelTime now = by_form(graph, op, conditions), then = by_form(graph, op, then_under);
  const double factor = (now.seconds - now.gaps) / (then.seconds - then.gaps);
  KernelTime result;
  result.shares[0] = {measured->index, measured->value};
  return with_gaps(scaled(result, factor), 1);
}

KernelTime KernelCost::by_form(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  switch (operator_class(graph, op)) {
    case OperatorClass::gemm:
    case OperatorClass::weight_gradient_gemm:
      return gemm(graph, op, conditions);
    case OperatorClass::attention:
      return attention(graph, op, conditions);
    case OperatorClass::router:
      return router(op);
    default:
      return memory_bound(graph, op, conditions);
  }
}

SmOccupancy KernelCost::occupancy(const Conditions& conditions) const {
  return {std::max<std::int64_t>(1, device_sms_ - conditions.held), conditions.held,
          free_share_[static_cast<std::size_t>(conditions.co_runner)]};
}

KernelCost::GemmFormat KernelCost::gemm_format(DataType operand) {
  switch (operand) {
    case DataType::fp8_tile:
    case DataType::fp8_block:
      return GemmFormat::fp8;
    case DataType::fp8:
      return GemmFormat::fp8_tensor;
    case DataType::mxfp8:
      return GemmFormat::mxfp8;
    case DataType::nvfp4:
      return GemmFormat::nvfp4;
    case DataType::mxfp4:
      return GemmFormat::mxfp4;
    case DataType::fp32:
      return GemmFormat::fp32;
    default:
      return GemmFormat::bf16;
  }
}

const KernelCost::GemmKind& KernelCost::gemm_kind(const Graph& graph, const Operator& op) const {
  const GemmFormat format = gemm_format(graph.tensor(op.reads[0]).type);
  return gemms_[static_cast<std::size_t>(format)][op.phase == Phase::W ? 1 : 0];
}

bool KernelCost::knows(Precision precision) const {
  return gemms_[static_cast<std::size_t>(gemm_format(activation_type(precision)))][0].k_time.index >= 0;
}

// Persistent kernels have one block per SM; the tiles of all groups fill waves over the SMs of the launch. A grouped
// weight gradient is one kernel per expert, so every expert ends with its own partial wave. Blocks whose SM is taken by
// a co-runner run when the others are done.
KernelTime KernelCost::gemm(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const GemmShape shape = gemm_shape(graph, op, conditions.row_scale);
  const GemmKind& kind = gemm_kind(graph, op);
  GemmConstants form = kind.form;
  if (graph.tensor(op.reads[0]).type == DataType::tf32) form.k_time *= tf32_slowdown_;
  const bool per_expert = op.phase == Phase::W;
  const double launches = per_expert ? shape.groups : 1;
  const bool grouped = op.kind == OperatorKind::grouped_matmul && !per_expert;
  const GemmWork work{shape.groups / launches, shape.m, shape.n, shape.k, operand_bytes(graph, op, shape),
                      output_bytes(graph, op)};
  const auto sms = static_cast<double>(conditions.sms);
  const double tiles = gemm_tiles(form, work), count = launches * (grouped ? kind.grouped_slowdown : 1);
  const GemmSeconds core = gemm_core(form, work, sms);
  const double written = launches * tiles * form.tile_m * form.tile_n * work.output_bytes;
  const double operands = shape.groups * (shape.m + shape.n) * shape.k / sms;
  const bool streams = form.memory_bandwidth > 0;
  KernelTime result;
  result.shares = {Share{kind.ramp.index, launches * form.ramp},
                   Share{kind.wave_overhead.index, count * core.waves},
                   Share{kind.k_time.index, count * core.tiles},
                   streams ? Share{kind.memory_bandwidth.index, count * core.memory}
                           : Share{gemm_output_bandwidth_.index, written / gemm_output_bandwidth_.value},
                   Share{kind.operand_time.index, operands * kind.operand_time.value},
                   Share{kind.droop.index, count * core.droop}};
  const double again = rounds(std::min(conditions.sms, static_cast<std::int64_t>(tiles)), 1, occupancy(conditions), 1);
  const double slowdown = moves_data(conditions.co_runner) ? gemm_slowdown_ : 1;
  return with_gaps(scaled(result, again * slowdown / (sustained_clock_ * conditions.clock)), launches);
}

// The kernel is not persistent: one block per query tile fills an SM, so the rate is proportional to the free SMs. The
// backward constants include the auxiliary kernels (row sums of dO and O, conversion of the query gradient).
KernelTime KernelCost::attention(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const AttentionWork work = attention_work(graph, op, true);
  const AttentionKind& kind = attention_[work.backward ? 1 : 0];
  const AttentionSeconds parts =
      attention_parts(kind.form, work, attention_sms_, static_cast<double>(occupancy(conditions).free));
  KernelTime result;
  result.shares = {Share{kind.rate.index, parts.gemms}, Share{kind.pair_time.index, parts.pairs},
                   Share{kind.row_time.index, parts.rows}, Share{kind.tail.index, parts.tail},
                   Share{kv_bandwidth_.index, parts.keys_values}};
  const double slowdown = moves_data(conditions.co_runner) ? attention_slowdown_ : 1;
  return with_gaps(scaled(result, slowdown / (sustained_clock_ * conditions.clock)), kernels(graph, op));
}

// Many small blocks use whatever a co-runner leaves of an SM; a grid sized for the whole GPU needs another round.
double KernelCost::streaming(const Memory& memory, Bytes bytes, const SmOccupancy& occupancy) const {
  const double whole = bytes.value() / memory.bandwidth.value;
  if (memory.blocks_per_sm > 0)
    return whole * rounds(memory.blocks_per_sm * device_sms_, memory.blocks_per_sm, occupancy, latency_share_);
  return whole / std::min(1.0, occupancy.effective(streaming_blocks_) / memory.saturation_sms);
}

KernelTime KernelCost::memory_bound(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const Memory& memory = memory_[static_cast<std::size_t>(operator_class(graph, op))];
  const double seconds = streaming(memory, bytes_moved(graph, op, conditions.row_scale), occupancy(conditions));
  KernelTime result;
  result.shares[0] = seconds >= shortest_kernel_.value ? Share{memory.bandwidth.index, seconds}
                                                       : Share{shortest_kernel_.index, shortest_kernel_.value};
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  const bool lays_out = cast != nullptr && cast->scales_transposed;
  const Constant* extra = lays_out ? &scale_layout_ : op.kind == OperatorKind::permute ? &map_time_ : nullptr;
  if (extra != nullptr) result.shares[1] = {extra->index, extra->value};
  return with_gaps(scaled(result, 1), kernels(graph, op));
}

// The router consists of tens of tiny kernels; the constant includes their gaps.
KernelTime KernelCost::router(const Operator& op) const {
  const Constant& constant = op.kind == OperatorKind::router ? router_forward_ : router_backward_;
  return {constant.value, 0, {Share{constant.index, constant.value}}};
}

// Returns the time with each share multiplied by the factor; the seconds are the sum of the shares.
KernelTime KernelCost::scaled(KernelTime time, double factor) const {
  time.seconds = 0;
  for (Share& share : time.shares) {
    share.seconds *= factor;
    time.seconds += share.seconds;
  }
  return time;
}

KernelTime KernelCost::with_gaps(KernelTime time, double count) const {
  const double gaps = count * launch_gap_.value;
  time.seconds += gaps;
  time.gaps = gaps;
  time.shares.back() = {launch_gap_.index, gaps};
  return time;
}

}  // namespace plumbline::model
