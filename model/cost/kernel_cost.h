// How long an operator's kernels take on one GPU, by the constants of a profile. One cost function per
// class of operators, used by every fidelity. Formulas and their derivations: docs/costs.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "model/cost/constants.h"
#include "model/cost/measured_operators.h"
#include "model/cost/occupancy.h"
#include "model/cost/operator_class.h"
#include "model/cost/sm_partition.h"
#include "model/graph/graph.h"
#include "model/profile/cluster.h"

namespace plumbline::model {

struct KernelTime {
  double seconds = 0;           // under the conditions that were asked for, launch gaps included
  double gaps = 0;              // of these, launch gaps; a router's are part of its constant
  std::array<Share, 6> shares;  // which constants it rests on; they add up to it
};

class KernelCost {
 public:
  // Input error naming the constant when the profile lacks one.
  static Result<KernelCost> make(const Profile& profile, const Device& device);

  // Any operator that runs on one GPU (not exchanges or collectives). One that the profile holds as measured on the SMs
  // on which its kernels run takes that time and one launch gap, beside a transfer the one that was measured beside a
  // transfer; what else the conditions change of it (rows, slowdowns) changes it by the same factor as the form.
  KernelTime time(const Graph& graph, const Operator& op, const Conditions& conditions) const;

  // Seconds of what the operator computes or moves at the highest rate that its class reaches for any shape and under
  // any conditions: products at gemm.<kind>.k_time on every SM of the device, without ramps, waves, partial tiles and
  // the writing of results; attention at its rate on every SM; memory-bound kernels at their class's bandwidth, without
  // fixed parts; a router its constant, which has no rate. Without launch gaps. A measured operator that was faster, on
  // as many SMs as it ran on, is its own best. For all conditions
  //   time(graph, op, conditions).seconds >= best(graph, op), and for products
  //   time(graph, op, conditions).seconds * conditions.sms >= best(graph, op) * SMs of the device,
  // at the same rows: the slowdowns of a profile are at least 1.
  double best(const Graph& graph, const Operator& op) const;

  // Launches behind one operator: weight gradients of e experts are e kernels.
  static int kernels(const Graph& graph, const Operator& op);

 private:
  struct Wave {  // one tile on every SM: overhead + k * k_time, and its results written
    Constant overhead, k_time;
    Constant operand_time;  // of one element of an operand, where they are laid out anew before
  };
  struct Memory {
    Constant bandwidth;              // on the whole GPU
    double saturation_sms = 0;       // fewer SMs than these reach a proportional part of it
    std::int64_t blocks_per_sm = 0;  // of a grid sized for the whole GPU; 0: many small blocks
  };

  KernelTime by_form(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  double form_at_best(const Graph& graph, const Operator& op) const;
  std::optional<KernelTime> as_measured(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  double gemm_at_best(const Graph& graph, const Operator& op) const;
  KernelTime gemm(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime attention(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime memory_bound(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime router(const Operator& op) const;
  SmOccupancy occupancy(const Conditions& conditions) const;
  double streaming(const Memory& memory, Bytes bytes, const SmOccupancy& occupancy) const;
  KernelTime scaled(KernelTime time, double factor) const;
  KernelTime with_gaps(KernelTime time, double kernels) const;
  const Wave& wave(const Graph& graph, const Operator& op) const;
  void read_memory_classes(ConstantReader& reader);
  void read_free_shares(ConstantReader& reader, const Device& device);

  Wave fp8_, fp8_weight_gradient_, bf16_, bf16_weight_gradient_, fp32_, fp32_weight_gradient_;
  Constant tile_, k_block_, ramp_, output_bandwidth_, attention_forward_, attention_backward_, attention_sms_;
  std::int64_t device_sms_ = 0;
  double tf32_slowdown_ = 1;  // of BF16's multiply-adds, by the datasheet's peaks: TF32 has no waves of its own
  double gemm_slowdown_ = 1, attention_slowdown_ = 1, sustained_clock_ = 1, latency_share_ = 1;
  std::array<double, 5> free_share_{};  // of an SM, beside each CoRunner
  std::int64_t streaming_blocks_ = 1;   // of kernels with many small blocks, on an SM
  std::array<Memory, 32> memory_;       // by OperatorClass
  Constant launch_gap_, shortest_kernel_, scale_layout_, router_forward_, router_backward_, map_time_;
  MeasuredOperators measured_;
};

}  // namespace plumbline::model
