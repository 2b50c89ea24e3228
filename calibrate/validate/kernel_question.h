// Questions about one kernel alone, answered by the cost function of the simulation: how long a GEMM takes, and how
// much longer a memory-bound kernel takes with a concurrent one.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "model/base/data_type.h"
#include "model/base/error.h"
#include "model/cost/kernel_cost.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

// A forward GEMM of `groups` times m x n x k (m per group) on `sms` SMs of a GPU on which nothing else runs.
struct GemmQuestion {
  std::int64_t groups = 1, m = 0, n = 0, k = 0;
  model::Precision type = model::Precision::fp8;
  std::int64_t sms = 0;  // 0: all

  double flops() const;
};

// The time of a kernel on rows x columns BF16 numbers concurrent with a kernel that holds `held` SMs, over its time
// alone.
struct SlowdownQuestion {
  std::string kind;       // cast (to FP8), norm, norm_gradient
  std::string co_runner;  // transfer, wait (a communication kernel that waits), gemm
  std::int64_t held = 0;
  std::int64_t rows = 4096, columns = 7168;
};

using KernelQuestion = std::variant<GemmQuestion, SlowdownQuestion>;

// Checks a question. Unknown words are input errors with key and nearest name; the caller adds file and line.
model::Result<void> check_question(const KernelQuestion& question);

class SingleKernels {  // answers questions by the cost function of a profile
 public:
  // Returns an input error that names the constant when the profile lacks one.
  static model::Result<SingleKernels> make(const model::Profile& profile, const model::Device& device);

  // Returns seconds without launch gap, or a factor. Requires a question that check_question accepts.
  double answer(const KernelQuestion& question) const;

 private:
  SingleKernels(const model::KernelCost& cost, std::int64_t sms, std::int32_t launch_gap)
      : cost_(cost), sms_(sms), launch_gap_(launch_gap) {}
  double seconds(const model::Graph& graph, const model::Conditions& conditions) const;
  double ask(const GemmQuestion& question) const;
  double ask(const SlowdownQuestion& question) const;

  model::KernelCost cost_;
  std::int64_t sms_;
  std::int32_t launch_gap_;  // index into the profile's parameters
};

}  // namespace plumbline::calibrate
