#include "cli/measure_stages.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <variant>

#include "calibrate/measurement/measurement_file.h"
#include "cli/host_cases.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/stage_records.h"
#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "real/cuda/backend.h"
#include "real/measure/workload.h"
#include "reports/text/measurements_text.h"

namespace plumbline::cli {
namespace {

using model::Result;

constexpr int no_gpu_exit = 77;
constexpr int device = 0;  // of those that CUDA shows this process

Result<model::StepProgram> program_of(const sim::Inputs& inputs) {
  const auto layout = model::make_layout(inputs.plan, inputs.architecture);
  if (!layout) return tl::unexpected(layout.error());
  return model::compile(inputs.plan, inputs.architecture, *layout);
}

// What a device would be asked for; exchanges and collectives are listed once, operators once.
std::string cases_of(const model::StepProgram& program, const std::string& name, std::int64_t sms) {
  std::vector<real::Workload> stages;
  for (real::Workload& workload : real::plan_workloads(program, name, {sms}))
    if (std::holds_alternative<real::Sequence>(workload)) stages.push_back(std::move(workload));
  return cases_table(real::distinct_subjects(stages));
}

Result<real::cuda::StageMeasurement> measured(const sim::Inputs& inputs, const model::StepProgram& program,
                                              const std::string& name, const StageMeasureArguments& arguments) {
  ProgressBar bar("measuring");
  Interrupt interrupt;
  const auto observer = [&](const real::MeasureProgress& progress, const std::vector<real::Series>&) {
    bar.update(progress.done, progress.total);
    return !interrupt.requested();
  };
  const real::cuda::StageMeasureOptions options{
      device,
      arguments.library_folders,
      {static_cast<std::size_t>(arguments.rounds), arguments.budget_s, arguments.seed}};
  return real::cuda::measure_stages(inputs.plan, inputs.cluster, program, name, options, observer);
}

Result<void> write(const calibrate::Measurements& records, const std::string& out) {
  const std::string content = out.ends_with(".csv") ? calibrate::to_csv(records) : calibrate::to_jsonl(records);
  if (const auto written = write_output(out, content); !written) return written;
  const auto devices = known_devices();
  if (!devices) return tl::unexpected(devices.error());
  return write_output("-", reports::measurements_text(records, *devices));
}

}  // namespace

Result<int> measure_stages(const StageMeasureArguments& arguments) {
  const auto inputs = load_inputs(arguments.plan, arguments.overrides);
  if (!inputs) return tl::unexpected(inputs.error());
  const auto program = program_of(*inputs);
  if (!program) return tl::unexpected(program.error());
  const std::string name = std::filesystem::path(arguments.plan).stem().string();
  if (arguments.dry_run)
    return write_output("-", cases_of(*program, name, inputs->cluster.device.sms)).map([] { return 0; });
  if (const auto gpu = real::cuda::describe_gpu(device); gpu.presence != real::cuda::GpuPresence::ready) {
    fmt::print(stderr, "plumbline: no GPU to measure: {}\n", gpu.message);
    return no_gpu_exit;
  }
  const auto found = measured(*inputs, *program, name, arguments);
  if (!found) return tl::unexpected(found.error());
  const std::string date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  return write(stage_records(*found, date), arguments.out).map([] { return 0; });
}

}  // namespace plumbline::cli
