// How long an operator's kernels take on one GPU, by the constants of a profile. One cost function per
// class of operators, used by every fidelity. Formulas and their derivations: docs/costs.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "model/cost/conditions.h"
#include "model/cost/constants.h"
#include "model/cost/operator_class.h"
#include "model/graph/graph.h"

namespace plumbline::model {

struct KernelTime {
  double alone = 0;             // seconds, launch gaps included
  double beside = 0;            // seconds while a transfer runs on the communication stream all the time
  std::array<Share, 4> shares;  // which constants `alone` rests on
};

class KernelCost {
 public:
  // Input error naming the constant when the profile lacks one.
  static Result<KernelCost> make(const Profile& profile, std::int64_t device_sms);

  // Any operator that runs on one GPU (not exchanges or collectives).
  KernelTime time(const Graph& graph, const Operator& op, const Conditions& conditions) const;

 private:
  struct Wave {  // one 128x128 tile on every SM: overhead + k * k_time
    Constant overhead, k_time;
  };
  struct Memory {
    Constant bandwidth;
    double beside_transfer = 1;  // slowdown while a transfer runs
    double on_partition = 1;  // slowdown where fewer than all SMs are left (a grid sized for all takes a second wave)
  };

  KernelTime product(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime attention(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime memory_bound(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime router(const Operator& op) const;
  KernelTime with_gaps(KernelTime time, double kernels) const;
  double streaming(const Memory& memory, Bytes bytes, std::int64_t sms) const;
  const Wave& wave(const Graph& graph, const Operator& op) const;

  Wave fp8_, fp8_weight_gradient_, bf16_, bf16_weight_gradient_, fp32_, fp32_weight_gradient_;
  Constant tile_, attention_forward_, attention_backward_, attention_sms_;
  std::int64_t device_sms_ = 0;
  double gemm_slowdown_ = 1, attention_slowdown_ = 1;
  std::array<Memory, 32> memory_;  // by OperatorClass
  Constant saturation_sms_, launch_gap_, shortest_kernel_, scale_layout_, router_forward_, router_backward_, map_time_;
};

}  // namespace plumbline::model
