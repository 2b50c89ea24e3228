// The cases of a file as workloads.
#pragma once

#include <vector>

#include "real/host/measure/case_file.h"
#include "real/measure/workload.h"

namespace plumbline::real::host {

// All but its plans.
std::vector<Workload> workloads_of(const CaseFile& file);

}  // namespace plumbline::real::host
