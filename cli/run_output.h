// What a run tells: for people, and for the JSON output.
#pragma once

#include <string>

#include "model/plan.h"
#include "real/host/run.h"
#include "reports/training_report.h"

namespace plumbline::cli {

reports::TrainingReport training_report(const real::host::RunResult& result, const std::string& clock);

// Tables of at most 80 columns: the step and its spread, slots by kind, time by class, the training.
std::string run_summary(const real::host::RunResult& result, const model::Plan& plan, const std::string& clock);

}  // namespace plumbline::cli
