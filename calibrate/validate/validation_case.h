// Validation cases as data: a plan, and published or measured figures about it, with tolerance and source. No constant
// is fitted to them unless the case's file notes it. docs/validation.md describes the form of the files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/validate/questions.h"
#include "model/base/error.h"
#include "sim/step/chunk.h"

namespace plumbline::calibrate {

struct Figure {  // a published or measured value of a quantity
  // A quantity of a step or a chunk (calibrate/validate/metric.h: "step.slots_s.FB", "chunk.span_s.attn(F).1"), or the
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
