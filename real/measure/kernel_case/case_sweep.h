// Measures cases one after the other, most valuable first, within a budget; skips those already in the output file.
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
  int measured = 0, failed = 0, skipped = 0, postponed = 0;  // cases; skipped: in the file; postponed: over budget
};

// Functions that return the journal's lines for a case, each with its line break.
struct CaseRecords {
  std::function<std::string(const KernelCase&, const Series&, const Findings&)> measured;
  std::function<std::string(const KernelCase&, const std::string& reason)> failed;
};

struct SweepOptions {
  int samples = 30;      // of every subject of a case, at least
  bool retry = false;    // measure again what failed before
  bool in_step = false;  // several ranks measure each case together, whatever the file and the budget hold
  bool writes = true;    // into the journal; only one of several ranks does
  std::function<double(const KernelCase&)> floor_s;  // lower bound of one run, seconds
  std::function<bool()> interrupted;                 // if true, the sweep ends after the current case
};

// `log` gets one line per case, for people. After device_lost a new process is needed; the journal records the failing
// case as a failure, so the next run skips it.
SweepSummary measure_cases(const std::vector<KernelCase>& cases, CaseMachine& machine, Journal& journal, Budget& budget,
                           const CaseRecords& records, const SweepOptions& options,
                           const std::function<void(const std::string&)>& log);

}  // namespace plumbline::real
