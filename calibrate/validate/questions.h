// Questions to the cost functions of a profile: single kernels, and all-to-alls of experts.
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

// Questions about one kernel alone, answered by the cost function of the simulation: how long a GEMM takes, and how
// much longer a memory-bound kernel takes with a concurrent one.

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
  SingleKernels(const model::KernelCost& cost, std::int64_t sms) : cost_(cost), sms_(sms) {}
  double seconds(const model::Graph& graph, const model::Conditions& conditions) const;
  double ask(const GemmQuestion& question) const;
  double ask(const SlowdownQuestion& question) const;

  model::KernelCost cost_;
  std::int64_t sms_;
};

// Questions about one expert all-to-all alone, answered by the cost function of the simulation: at what rate tokens
// move when no concurrent kernel computes.

// An expert all-to-all as in DeepEP's own tests (tests/test_intranode.py, tests/test_internode.py): experts form one
// group per node, and a token goes to its best groups; a group's score is that of its best expert. The kernels are
// those of family deepep-v1, on as many SMs as they need.
struct AllToAllQuestion {
  enum class Direction { dispatch, combine };
  enum class Link { nic, nvlink };
  Direction direction = Direction::dispatch;  // dispatch in the format `dispatched`, combine in BF16
  Link link = Link::nic;                      // the link whose rate is asked for
  std::int64_t ranks = 0;                     // above 1, and a divisor of `experts`
  std::int64_t tokens = 0;                    // of one rank
  std::int64_t hidden = 0;                    // elements of a token
  std::int64_t experts = 256;
  std::int64_t experts_per_token = 0;
  std::int64_t nodes_per_token = 0;  // at most; fewer when the ranks are on fewer nodes
  model::Precision dispatched = model::Precision::fp8;
};

class SingleAllToAlls {  // answers questions by the cost function of a profile
 public:
  // Input error naming the constant when the profile lacks one.
  static model::Result<SingleAllToAlls> make(const model::Profile& profile, const model::ClusterShape& cluster);

  // Returns B/s of one GPU. Over the NIC: the bytes that leave the node, over the time of the whole all-to-all. Over
  // NVLink, as DeepEP prints it: the bytes of all tokens that a GPU receives, including its own, over that time.
  double rate(const AllToAllQuestion& question) const;

 private:
  SingleAllToAlls(model::Profile profile, model::ClusterShape cluster);

  model::Profile profile_;
  model::ClusterShape cluster_;
};

}  // namespace plumbline::calibrate
