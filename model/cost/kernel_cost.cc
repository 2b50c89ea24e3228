#include "model/cost/kernel_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/cost/work.h"

namespace plumbline::model {

namespace {

bool is_memory_class(OperatorClass value) { return value >= OperatorClass::norm && value <= OperatorClass::optimizer; }

// Launches behind one operator, beyond the first.
double kernels(const Operator& op, double experts) {
  if (op.kind == OperatorKind::grouped_matmul && op.phase == Phase::W) return experts;
  if (op.kind == OperatorKind::attention_grad) return 3;  // row sums, main kernel, query-gradient conversion
  if (op.kind == OperatorKind::rmsnorm_grad) return 3;    // main kernel, two reductions of the scale's gradient
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  return cast != nullptr && cast->scales_transposed ? 2 : 1;
}

}  // namespace

Result<KernelCost> KernelCost::make(const Profile& profile, std::int64_t device_sms) {
  ConstantReader reader(profile);
  KernelCost cost;
  cost.device_sms_ = device_sms;
  const auto wave = [&](std::string_view kind) {
    return Wave{reader.require(fmt::format("gemm.{}.wave_overhead", kind)),
                reader.require(fmt::format("gemm.{}.k_time", kind))};
  };
  cost.fp8_ = wave("fp8");
  cost.fp8_weight_gradient_ = wave("fp8_weight_gradient");
  cost.bf16_ = wave("bf16");
  cost.bf16_weight_gradient_ = wave("bf16_weight_gradient");
  cost.fp32_ = wave("fp32");
  cost.fp32_weight_gradient_ = wave("fp32_weight_gradient");
  cost.tile_ = reader.require("gemm.tile");
  cost.gemm_slowdown_ = reader.require("gemm.slowdown_beside_transfer").value;
  cost.attention_forward_ = reader.require("attention.forward_rate");
  cost.attention_backward_ = reader.require("attention.backward_rate");
  cost.attention_sms_ = reader.require("attention.reference_sms");
  cost.attention_slowdown_ = reader.require("attention.slowdown_beside_transfer").value;
  for (std::size_t i = 0; i < cost.memory_.size(); ++i) {
    const auto value = static_cast<OperatorClass>(i);
    if (!is_memory_class(value)) continue;
    const std::string_view name = to_string(value);
    cost.memory_[i].bandwidth =
        reader.require_either(fmt::format("memory.{}.bandwidth", name), "memory.default.bandwidth");
    const auto factor = [&](std::string_view what) {
      return reader.require_either(fmt::format("memory.{}.{}", name, what), fmt::format("memory.default.{}", what))
          .value;
    };
    cost.memory_[i].beside_transfer = factor("slowdown_beside_transfer");
    cost.memory_[i].on_partition = factor("slowdown_on_partition");
  }
  cost.saturation_sms_ = reader.require("memory.saturation_sms");
  cost.launch_gap_ = reader.require("kernel.launch_gap");
  cost.shortest_kernel_ = reader.require("kernel.shortest");
  cost.scale_layout_ = reader.require("kernel.scale_layout");
  cost.router_forward_ = reader.require("router.forward");
  cost.router_backward_ = reader.require("router.backward");
  cost.map_time_ = reader.require("permute.map");
  if (reader.error()) return tl::unexpected(*reader.error());
  return cost;
}

KernelTime KernelCost::time(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  switch (operator_class(graph, op)) {
    case OperatorClass::gemm:
    case OperatorClass::weight_gradient_gemm:
      return product(graph, op, conditions);
    case OperatorClass::attention:
      return attention(graph, op, conditions);
    case OperatorClass::router:
      return router(op);
    default:
      return memory_bound(graph, op, conditions);
  }
}

const KernelCost::Wave& KernelCost::wave(const Graph& graph, const Operator& op) const {
  const bool weight_gradient = op.phase == Phase::W;
  switch (graph.tensor(op.reads[0]).type) {
    case DataType::fp8_tile:
    case DataType::fp8_block:
      return weight_gradient ? fp8_weight_gradient_ : fp8_;
    case DataType::fp32:
      return weight_gradient ? fp32_weight_gradient_ : fp32_;
    default:
      return weight_gradient ? bf16_weight_gradient_ : bf16_;
  }
}

// Persistent kernels: the tiles of all groups fill waves over the SMs; a grouped weight gradient is one
// kernel per expert, so every expert ends with its own partial wave.
KernelTime KernelCost::product(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const ProductShape shape = product_shape(graph, op, conditions.row_scale);
  const double tile = tile_.value;
  const double tiles = std::ceil(shape.m / tile) * std::ceil(shape.n / tile);
  const auto sms = static_cast<double>(conditions.sms);
  const bool per_expert = op.phase == Phase::W;
  const double waves = per_expert ? shape.groups * std::ceil(tiles / sms) : std::ceil(shape.groups * tiles / sms);
  const Wave& constants = wave(graph, op);
  const double overhead = waves * constants.overhead.value;
  const double main = waves * shape.k * constants.k_time.value;
  KernelTime result;
  result.alone = overhead + main;
  result.beside = result.alone * gemm_slowdown_;
  result.shares = {Share{constants.overhead.index, overhead}, Share{constants.k_time.index, main}};
  return with_gaps(result, kernels(op, shape.groups));
}

// Not persistent: one block per query tile, so the rate follows the SMs that are left. The backward
// rate includes its auxiliary kernels (row sums of dO and O, conversion of the query gradient).
KernelTime KernelCost::attention(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const Constant& rate = op.kind == OperatorKind::attention ? attention_forward_ : attention_backward_;
  const double sms_share = static_cast<double>(conditions.sms) / attention_sms_.value;
  KernelTime result;
  result.alone = flops(graph, op, 1, true).value() / (rate.value * sms_share);
  result.beside = result.alone * attention_slowdown_;
  result.shares = {Share{rate.index, result.alone}};
  return with_gaps(result, kernels(op, 1));
}

double KernelCost::streaming(const Memory& memory, Bytes bytes, std::int64_t sms) const {
  const double sms_share = std::min(1.0, static_cast<double>(sms) / saturation_sms_.value);
  const double wave_effect = sms < device_sms_ ? memory.on_partition : 1;
  return bytes.value() / (memory.bandwidth.value * sms_share) * wave_effect;
}

KernelTime KernelCost::memory_bound(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const Memory& memory = memory_[static_cast<std::size_t>(operator_class(graph, op))];
  const double seconds = streaming(memory, bytes_moved(graph, op, conditions.row_scale), conditions.sms);
  KernelTime result;
  if (seconds >= shortest_kernel_.value) {
    result.alone = seconds;
    result.beside = seconds * memory.beside_transfer;
    result.shares[0] = {memory.bandwidth.index, seconds};
  } else {
    result.alone = result.beside = shortest_kernel_.value;
    result.shares[0] = {shortest_kernel_.index, shortest_kernel_.value};
  }
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  const bool lays_out = cast != nullptr && cast->scales_transposed;
  const Constant* extra = lays_out ? &scale_layout_ : op.kind == OperatorKind::permute ? &map_time_ : nullptr;
  if (extra != nullptr) {
    result.alone += extra->value;
    result.beside += extra->value;
    result.shares[1] = {extra->index, extra->value};
  }
  return with_gaps(result, kernels(op, 1));
}

KernelTime KernelCost::router(const Operator& op) const {
  const Constant& constant = op.kind == OperatorKind::router ? router_forward_ : router_backward_;
  KernelTime result;
  result.alone = result.beside = constant.value;
  result.shares[0] = {constant.index, constant.value};
  return result;
}

KernelTime KernelCost::with_gaps(KernelTime time, double count) const {
  const double gaps = count * launch_gap_.value;
  time.alone += gaps;
  time.beside += gaps;
  time.shares[3] = {launch_gap_.index, gaps};
  return time;
}

}  // namespace plumbline::model
