// What verbs answer, apart from how they print it, for programs that take an answer as a value. Each function is in the
// source of its verb.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/serving/serving_case.h"
#include "model/base/error.h"
#include "model/memory/memory.h"
#include "model/result/comparison.h"
#include "model/result/result.h"
#include "reports/text/compare/validation_report.h"
#include "sim/analysis/measured_step.h"
#include "sim/interval/interval.h"
#include "sim/predict/simulate.h"
#include "sim/tasks/watch.h"
#include "sim/whatif/range.h"

namespace plumbline::cli {

struct StepRequest {
  sim::Fidelity fidelity = sim::Fidelity::step;
  sim::Recording record = false;                   // the timeline, of which ranks
  std::vector<sim::NamedLinkChange> changes = {};  // of links during a step of fidelity `step`
  std::optional<std::int64_t> seeds = {};          // of fidelity `cluster`: drawn fleets
  bool by_kernels = false;                         // the same: kernel by kernel
  bool with_interval = true;
  sim::IntervalOptions interval = {};             // its seed is also that of the first fleet
  std::optional<sim::Measurement> measured = {};  // which is held against the interval
  bool with_assumed = true;                       // what the plan leaves open of the software
  sim::Watch watch = {};                          // of the drawn fleets, then of the interval
};
// Simulates a step with its interval, without what was stopped by the watch before it was there. One call at a time may
// use SimGrid (sim/network/simgrid_loop.h).
model::Result<sim::Simulation> predict_step(const sim::Inputs& inputs, const StepRequest& request);

// Reads a measured step: a value and a peak of memory as `--measured` and `--measured-memory` take them, or the path of
// a training log of the plan, whose own peak another one replaces.
model::Result<sim::Measurement> read_measured(const std::string& value_or_log, const std::optional<std::string>& memory,
                                              const model::Plan& plan);

struct MemoryAnswer {
  model::Memory memory;
  model::RankLevels levels;                   // of the requested rank, else of the one with the highest peak
  std::optional<model::MemoryAdvice> advice;  // when the plan does not fit
  // Of a plan with [rollout]: both halves of a step, of which `memory` is that of an update.
  std::optional<model::RolloutMemory> rollout;
  std::optional<model::Error> rollout_error;  // why its engines cannot be
};
// Predicts the memory of all pipeline ranks; `rank` is the one that is shown over the step.
model::Result<MemoryAnswer> predict_memory(const sim::Inputs& inputs, std::optional<std::int64_t> rank = std::nullopt);
std::string memory_json(const MemoryAnswer& answer, const sim::Inputs& inputs);

// Predicts a deployment; the inputs are those of Purpose::serving. Without options it has no interval, and nothing that
// it assumes, and its limits are held against the components alone; else they hold in that share of the draws.
model::Result<model::ServingResult> predict_deployment(const sim::Inputs& inputs,
                                                       const std::optional<sim::IntervalOptions>& interval,
                                                       double confidence = 0.5);

// Reads the fidelity of a sweep; an input error for that of whole clusters.
model::Result<sim::Fidelity> sweep_fidelity(const std::string& word);
// Reads the points of a sweep from KEY=RANGE. A key that the overrides set too is an input error.
model::Result<sim::SweepGrid> sweep_grid(const std::vector<std::string>& over,
                                         const std::vector<std::string>& overrides);

// Returns the published figures of an unchanged shipped example; a plan with overrides has none.
model::Result<std::vector<calibrate::ExampleFigure>> published_figures(const model::Plan& plan,
                                                                       const std::vector<std::string>& overrides);

// Evaluates cases, by file or shipped name; without names all that are shipped. Those that were not finished when it
// was stopped are left out.
model::Result<reports::ValidationOutcome> validate_cases(const std::vector<std::string>& names,
                                                         const sim::Watch& watch = {});

// The subjects of `compare`: predictions of plans, and results that were stored as JSON, predicted or measured.
struct SubjectRequest {
  std::vector<std::string> subjects;   // files or names of plans, files of results
  std::vector<std::string> clusters;   // for one plan: a column for each
  std::vector<std::int64_t> gpus;      // for one plan: a column for each; the batch stays
  std::vector<std::string> overrides;  // for all plans
  std::optional<std::string> profile;  // for all plans
  sim::Fidelity fidelity = sim::Fidelity::step;
  bool timelines = false;                    // of plans; the closed form has none
  std::optional<std::string> baseline = {};  // a second profile, which also predicts plans with a timeline
  bool intervals = false;                    // of plans
  // Subjects that are no files, by name: TOML of a plan or JSON of a result. The folder of a name is searched for files
  // that its plan names.
  std::map<std::string, std::string> texts = {};
};

// Simulates the plans and reads the results. A plan on another cluster than its own loses its keys about that cluster
// (device, NICs, oversubscription, placement, profile), except those in the overrides. The first input error is
// returned.
model::Result<std::vector<model::ComparisonSubject>> comparison_subjects(const SubjectRequest& request);

// Returns whether a subject is a trace of kernels: a profiler's file, or a chunk measurement by path or shipped name.
bool is_kernel_trace(const std::string& subject);
// Returns the comparison of a trace with the plan of the inputs as JSON. `plan` is its name; without a rank it is that
// of the trace, else the best match. Waits in barriers of a pair of chunks are the measured ones.
model::Result<std::string> compare_kernel_trace(const sim::Inputs& inputs, const std::string& plan,
                                                const std::string& name, std::optional<std::int32_t> rank);

}  // namespace plumbline::cli
