// Loads the other inputs of verbs: devices, measurements, recipes, validation cases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/match/trace_comparison.h"
#include "calibrate/measurement/measurement.h"
#include "calibrate/validate/serving/serving_case.h"
#include "calibrate/validate/step_case.h"
#include "calibrate/validate/validation_case.h"
#include "cli/inputs_reader.h"
#include "model/base/error.h"
#include "model/result/timeline.h"
#include "reports/text/step/sections.h"
#include "sim/search/recipe.h"
#include "topologies/topology.h"

namespace plumbline::cli {

// Loads the shipped devices.
model::Result<std::vector<topologies::KnownDevice>> known_devices();

// Reads a file of measurements of these devices; prints its notes to stderr.
model::Result<calibrate::Measurements> read_measurements(const std::string& path,
                                                         const std::vector<topologies::KnownDevice>& devices);

// Returns the recipe of a training. A file ending in .json is a model; any other file is a plan. A name is that of a
// shipped plan, else of a shipped model: its recipe (examples/recipes) with the published facts of its training, or the
// default recipe. `gpus` are all requested sizes, among which the default batch must be divisible, `tokens` those asked
// for.
model::Result<sim::Recipe> find_recipe(const std::string& wanted, const std::vector<std::int64_t>& gpus,
                                       std::optional<double> tokens = std::nullopt);

// Reads one case with the measurements that it names: files in its folder, or shipped ones.
model::Result<calibrate::ValidationCase> read_case(const std::string& path);

// Returns the published figures of an unchanged shipped example about this result; a plan with overrides has none.
std::vector<reports::Comparison> published_of(const std::string& plan_file, const std::vector<std::string>& overrides,
                                              const model::StepResult& result);

// Reads a case over published training steps (calibrate/validate/step_case.h) and predicts all rows of its table, with
// their ranges. ErrorKind::interrupted where it was stopped.
model::Result<calibrate::StepComparison> compare_case_steps(const std::string& path, const sim::Watch& watch = {});

// Reads a case over published deployments (calibrate/validate/serving/serving_case.h) and predicts all rows.
// ErrorKind::interrupted where it was stopped.
model::Result<calibrate::ServingComparison> compare_case_serving(const std::string& path, const sim::Watch& watch = {});

// A trace of one GPU's kernels as a verb's input: a profiler's file, or the CSV that `import kineto` makes of one.
struct KernelTrace {
  model::Timeline timeline;
  calibrate::TraceOrigin origin;  // without a pipeline rank
  std::string path, device;       // the device's own name; empty: unknown
};

// Returns whether a .json or .json.gz file is a trace of a profiler, which no result of a step is.
bool is_profiler_trace(const std::string& path);

// Reads a trace, or a CSV by path or shipped name. `classes`: a file of kernel classes; empty: the shipped one. Errors
// are those of calibrate::import_kineto and read_chunk.
model::Result<KernelTrace> read_kernel_trace(const std::string& path_or_name, const std::string& classes);

}  // namespace plumbline::cli
