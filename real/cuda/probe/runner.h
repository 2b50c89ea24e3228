// Measures cases one after the other and writes every record as soon as it is there.
#pragma once

#include <functional>
#include <vector>

#include "real/cuda/probe/budget.h"
#include "real/cuda/probe/journal.h"
#include "real/cuda/probe/measure.h"
#include "real/cuda/probe/world.h"

namespace plumbline::real::cuda {

enum class RunEnd { done, out_of_time, device_lost, cannot_write };

struct RunSummary {
  RunEnd end = RunEnd::done;
  int measured = 0, failed = 0, skipped = 0, postponed = 0;  // cases; skipped: already in the file
};

struct RunPlan {
  std::vector<Case> cases;
  DevicePeak peak;
  MeasureOptions measure;
  RecordContext context;
  bool retry = false;
  World world;
};

// Several ranks measure the same cases, whatever the file holds and however long it takes: each waits for the others.
// Only rank 0 writes. `say` gets one line per case, for people. After device_lost the process must be replaced: the
// failing case is in the journal as a failure, so the next run passes over it.
RunSummary run_cases(const RunPlan& plan, Toolbox& tools, Journal& journal, Budget& budget,
                     const std::function<void(const std::string&)>& say);

}  // namespace plumbline::real::cuda
