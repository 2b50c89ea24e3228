// What a run tells: for people, and for the JSON output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/run_arguments.h"
#include "model/plan/plan.h"
#include "real/executor/run.h"
#include "reports/tensorboard/training_report.h"

namespace plumbline::cli {

struct RunDescription {
  std::string clock;                                // wall | cpu | simulated | gpu
  std::int32_t rank = 0;                            // the pipeline rank whose slots and classes are shown
  bool emulated = false;                            // that rank ran alone
  std::optional<std::int64_t> device_memory_bytes;  // the most in use after a step
  std::vector<std::string> notes;                   // what a reader must know to read the figures right, a line each
};

reports::TrainingReport training_report(const real::RunResult& result, const RunDescription& description);

// Tables of at most 80 columns: the step and its spread, slots by kind, time by class, the training.
std::string run_summary(const real::RunResult& result, const model::Plan& plan, const RunDescription& description);

// The files that were asked for, and the summary; the exit code.
int write_run(const RunArguments& arguments, const sim::Inputs& inputs, const real::RunResult& result,
              const RunDescription& description);

}  // namespace plumbline::cli
