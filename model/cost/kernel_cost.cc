#include "model/cost/kernel_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/cost/measured_operators.h"
#include "model/cost/work.h"

namespace plumbline::model {

namespace {

bool is_memory_class(OperatorClass value) { return value >= OperatorClass::norm && value <= OperatorClass::optimizer; }

Block read_block(ConstantReader& reader, std::string_view name) {
  const auto part = [&](std::string_view what) { return reader.require(fmt::format("{}.{}", name, what)).value; };
  return {part("threads"), part("registers"), part("shared_memory")};
}

// Returns the bytes written per element of the result; an accumulated gradient is also read.
double output_bytes(const Graph& graph, const Operator& op) {
  const auto* attributes = std::get_if<MatmulAttributes>(&op.attributes);
  const bool accumulates = attributes != nullptr && attributes->accumulate;
  return bytes_per_element(graph.tensor(op.writes[0]).type) * (accumulates ? 2 : 1);
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

Result<KernelCost> KernelCost::make(const Profile& profile, const Device& device) {
  ConstantReader reader(profile);
  KernelCost cost;
  cost.device_sms_ = device.sms;
  if (device.tf32_peak.value() > 0) cost.tf32_slowdown_ = device.bf16_peak / device.tf32_peak;
  const auto wave = [&](std::string_view kind) {
    return Wave{reader.require(fmt::format("gemm.{}.wave_overhead", kind)),
                reader.require(fmt::format("gemm.{}.k_time", kind)),
                reader.require_either(fmt::format("gemm.{}.operand_time", kind), "gemm.operand_time")};
  };
  cost.fp8_ = wave("fp8");
  cost.fp8_weight_gradient_ = wave("fp8_weight_gradient");
  cost.bf16_ = wave("bf16");
  cost.bf16_weight_gradient_ = wave("bf16_weight_gradient");
  cost.fp32_ = wave("fp32");
  cost.fp32_weight_gradient_ = wave("fp32_weight_gradient");
  cost.tile_ = reader.require("gemm.tile");
  cost.k_block_ = reader.require("gemm.k_block");
  cost.ramp_ = reader.require("gemm.ramp");
  cost.output_bandwidth_ = reader.require_either("gemm.output_bandwidth", "memory.default.bandwidth");
  cost.gemm_slowdown_ = reader.require("gemm.slowdown_beside_transfer").value;
  cost.attention_forward_ = reader.require("attention.forward_rate");
  cost.attention_backward_ = reader.require("attention.backward_rate");
  cost.attention_sms_ = reader.require("attention.reference_sms");
  cost.attention_slowdown_ = reader.require("attention.slowdown_beside_transfer").value;
  cost.sustained_clock_ = reader.require("kernel.sustained_clock").value;
  cost.latency_share_ = reader.require("kernel.latency_share").value;
  cost.launch_gap_ = reader.require("kernel.launch_gap");
  cost.shortest_kernel_ = reader.require("kernel.shortest");
  cost.scale_layout_ = reader.require("kernel.scale_layout");
  cost.router_forward_ = reader.require("router.forward");
  cost.router_backward_ = reader.require("router.backward");
  cost.map_time_ = reader.require("permute.map");
  cost.read_memory_classes(reader);
  cost.read_free_shares(reader, device);
  if (reader.error()) return tl::unexpected(*reader.error());
  auto measured = TRY(MeasuredOperators::read(profile));
  cost.measured_ = std::move(measured);
  return cost;
}

void KernelCost::read_memory_classes(ConstantReader& reader) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const auto value = static_cast<OperatorClass>(i);
    if (!is_memory_class(value)) continue;
    const auto constant = [&](std::string_view what) {
      return reader.require_either(fmt::format("memory.{}.{}", to_string(value), what),
                                   fmt::format("memory.default.{}", what));
    };
    memory_[i] = {constant("bandwidth"), constant("saturation_sms").value,
                  std::llround(constant("blocks_per_sm").value)};
  }
}

void KernelCost::read_free_shares(ConstantReader& reader, const Device& device) {
  const auto left_by = [&](std::string_view block) { return free_share(device.sm, read_block(reader, block)); };
  streaming_blocks_ = blocks_per_sm(device.sm, read_block(reader, "block.streaming"));
  free_share_[static_cast<std::size_t>(CoRunner::none)] = 1;
  free_share_[static_cast<std::size_t>(CoRunner::waiting)] = left_by("block.notify");
  free_share_[static_cast<std::size_t>(CoRunner::transferring)] = left_by("block.transfer");
  free_share_[static_cast<std::size_t>(CoRunner::collective)] = left_by("block.transfer");
  free_share_[static_cast<std::size_t>(CoRunner::computing)] = left_by("block.gemm");
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
  then_under.row_scale = 1;
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

const KernelCost::Wave& KernelCost::wave(const Graph& graph, const Operator& op) const {
  const bool weight_gradient = op.phase == Phase::W;
  switch (graph.tensor(op.reads[0]).type) {
    case DataType::fp8_tile:
    case DataType::fp8_block:
    case DataType::fp8:
      return weight_gradient ? fp8_weight_gradient_ : fp8_;
    case DataType::fp32:
      return weight_gradient ? fp32_weight_gradient_ : fp32_;
    default:
      return weight_gradient ? bf16_weight_gradient_ : bf16_;
  }
}

// Persistent kernels have one block per SM; the tiles of all groups fill waves over the SMs of the launch. A grouped
// weight gradient is one kernel per expert, so every expert ends with its own partial wave. Blocks whose SM is taken by
// a co-runner run when the others are done.
KernelTime KernelCost::gemm(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const GemmShape shape = gemm_shape(graph, op, conditions.row_scale);
  const double tile = tile_.value;
  const bool per_expert = op.phase == Phase::W;
  const double launches = per_expert ? shape.groups : 1;
  const double tiles = std::ceil(shape.m / tile) * std::ceil(shape.n / tile) * shape.groups / launches;
  const auto sms = static_cast<double>(conditions.sms);
  const double waves = launches * std::ceil(tiles / sms);
  const double k = std::ceil(shape.k / k_block_.value) * k_block_.value;
  const Wave& constants = wave(graph, op);
  const double slower = graph.tensor(op.reads[0]).type == DataType::tf32 ? tf32_slowdown_ : 1;
  const double written = launches * tiles * tile * tile * output_bytes(graph, op);
  const double operands = shape.groups * (shape.m + shape.n) * shape.k / sms;
  KernelTime result;
  result.shares = {Share{ramp_.index, launches * ramp_.value},
                   Share{constants.overhead.index, waves * constants.overhead.value},
                   Share{constants.k_time.index, waves * k * constants.k_time.value * slower},
                   Share{output_bandwidth_.index, written / output_bandwidth_.value},
                   Share{constants.operand_time.index, operands * constants.operand_time.value}};
  const double again = rounds(std::min(conditions.sms, static_cast<std::int64_t>(tiles)), 1, occupancy(conditions), 1);
  const double slowdown = moves_data(conditions.co_runner) ? gemm_slowdown_ : 1;
  return with_gaps(scaled(result, again * slowdown / sustained_clock_), launches);
}

// The kernel is not persistent: one block per query tile fills an SM, so the rate is proportional to the free SMs. The
// backward rate includes the auxiliary kernels (row sums of dO and O, conversion of the query gradient).
KernelTime KernelCost::attention(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const Constant& rate = op.kind == OperatorKind::attention ? attention_forward_ : attention_backward_;
  const double sms_share = static_cast<double>(occupancy(conditions).free) / attention_sms_.value;
  KernelTime result;
  result.shares[0] = {rate.index, flops(graph, op, 1, true).value() / (rate.value * sms_share)};
  const double slowdown = moves_data(conditions.co_runner) ? attention_slowdown_ : 1;
  return with_gaps(scaled(result, slowdown / sustained_clock_), kernels(graph, op));
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
