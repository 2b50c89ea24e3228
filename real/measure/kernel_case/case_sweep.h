// Measures cases one after the other, most valuable first, within a budget and behind what a file already holds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "real/measure/kernel_case/budget.h"
#include "real/measure/kernel_case/case_machine.h"
#include "real/measure/kernel_case/journal.h"
#include "real/measure/rounds.h"

namespace plumbline::real {

enum class SweepEnd { done, out_of_time, interrupted, device_lost, cannot_write };

struct SweepSummary {
  SweepEnd end = SweepEnd::done;
  int measured = 0, failed = 0, skipped = 0, postponed = 0;  // cases; skipped: already in the file
};

// What the journal holds of a case: a line each, with its line break.
struct CaseRecords {
  std::function<std::string(const KernelCase&, const Series&, const Findings&)> measured;
  std::function<std::string(const KernelCase&, const std::string& reason)> failed;
};

struct SweepOptions {
  int samples = 30;      // of every subject of a case, at least
  bool retry = false;    // measure again what failed before
  bool in_step = false;  // ranks measure together: each waits for the others, whatever the file holds and the time says
  bool writes = true;    // into the journal; of several ranks one does
  std::function<double(const KernelCase&)> floor_s;  // seconds below which no run can be
  std::function<bool()> interrupted;                 // ends the sweep behind the case that runs
};

// `say` gets one line per case, for people. After device_lost the process must be replaced: the failing case is in the
// journal as a failure, so the next run passes over it.
SweepSummary measure_cases(const std::vector<KernelCase>& cases, CaseMachine& machine, Journal& journal, Budget& budget,
                           const CaseRecords& records, const SweepOptions& options,
                           const std::function<void(const std::string&)>& log);

}  // namespace plumbline::real
