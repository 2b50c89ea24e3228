// What `plumbline measure --backend host` measures: a file of cases with its plans compiled, or the built-in sweep.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/measure/workload.h"

namespace plumbline::cli {

// The path of a file, the name of a shipped one, or "" for the built-in sweep of a machine with `cores` cores.
// A plan is looked for beside the file, then as everywhere.
model::Result<std::vector<real::Workload>> host_workloads(const std::string& cases, int cores);

// Every case with its FLOPs, bytes and cores, and what one round takes of them.
// The same without the buffers: one line a case.
std::string cases_table(const std::vector<real::Subject>& subjects);
std::string host_cases_table(const std::vector<real::Workload>& workloads);

}  // namespace plumbline::cli
