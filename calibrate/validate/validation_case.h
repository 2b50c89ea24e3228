// Questions to the cost functions of a profile: single kernels, and all-to-alls of experts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/base/data_type.h"
#include "model/base/error.h"
#include "model/cost/kernel_cost.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "sim/step/chunk.h"

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

// Validation cases as data: a plan, and published or measured figures about it, with tolerance and source. No constant
// is fitted to them unless the case's file notes it. docs/validation.md describes the form of the files.

struct Figure {  // a published or measured value of a quantity
  // A quantity of a step or a chunk (metric_value(): "step.slots_s.FB", "chunk.span_s.attn(F).1"), or the
  // answer to `question` ("gemm_s", "memory_factor") or to `all_to_all` ("dispatch_rate", "combine_rate").
  std::string metric;
  std::string name;  // as tables print it
  std::string unit;  // of value; times in the result are seconds
  double value = 0;
  double scale = 1;                 // result * scale is in `unit`
  std::optional<double> tolerance;  // relative, checked with the plan's own profile
  std::string source;
  std::string group;                         // heading under which tables print it; may be empty
  std::optional<double> absolute_tolerance;  // in `unit`, instead of `tolerance`
  std::optional<double> at_most;             // or: the prediction lies between 0 and this, in `unit`
  std::optional<KernelQuestion> question;
  std::optional<AllToAllQuestion> all_to_all;
  std::optional<double> aim;  // relative, below `tolerance`: an error that is not reached yet
  std::string note;           // what is known of its error, a sentence; may be empty

  // Whether a predicted value in `unit` is tolerated; nullopt without a tolerance. A missing prediction is not.
  std::optional<bool> within(std::optional<double> predicted) const;
  // Whether a tolerated value misses the aim.
  bool short_of_aim(std::optional<double> predicted) const;
};

// A statistic over the errors of all figures of a group.
struct Aggregate {
  enum class Statistic { median_absolute_error, rms_error };
  std::string name, over;  // over: the group
  Statistic statistic = Statistic::median_absolute_error;
  double tolerance = 0;

  // Returns the statistic of relative errors; nullopt without errors.
  std::optional<double> of(const std::vector<double>& errors) const;
};

std::string_view to_string(Aggregate::Statistic statistic);

struct ValidationCase {
  std::string name;
  std::string plan;                   // name of a shipped example
  std::vector<std::string> profiles;  // in order of rising evidence; the last is the plan's own
  double naive_mfu = 0;               // the baseline: one constant share of the dense BF16 peak
  std::string naive_source;
  // The load of the profiled rank, in a case about a chunk: its rows and waits as measured.
  std::optional<sim::ChunkRank> chunk_rank;
  std::vector<Figure> figures;
  std::vector<Aggregate> aggregates;
};

// Finds the measurements that a case names.
struct CaseFiles {
  // Returns the path of the measurement `name` of the case at `case_path`.
  std::function<model::Result<std::string>(const std::string& case_path, const std::string& name)> find;
  std::string kernel_classes;  // path of kernels.toml
};

// Reads one case file, and published values from the measurements that it names. Errors name file, line and key.
model::Result<ValidationCase> load_case(const std::string& path, const CaseFiles& files);

}  // namespace plumbline::calibrate
