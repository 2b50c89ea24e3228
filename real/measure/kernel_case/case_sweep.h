// Measures cases one after the other, most valuable first, within a budget; skips those already in the output file.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "real/measure/kernel_case/case_machine.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "real/measure/rounds.h"

namespace plumbline::real {

// The output file of a sweep. Each line is appended whole and flushed to the disk, so that a killed program loses at
// most its current case; the next run continues after the existing lines.
class Journal {
 public:
  // Opens `path` for appending and reads its records of `device`. An incomplete last line, left by a program that was
  // killed while writing, is removed. Input error: the file cannot be read or written.
  static model::Result<std::unique_ptr<Journal>> open(const std::string& path, const std::string& device);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  bool has(const Subject& subject) const;
  // Returns whether every record of the case is in the file.
  bool complete(const KernelCase& what) const;
  bool failed(const KernelCase& what) const;
  // Returns how many measurements of the device the file had when it was opened.
  std::size_t found() const { return found_; }

  // Appends one line, which ends in a line break, and waits until it is on the disk. Returns false on failure.
  bool append(const std::string& text);

 private:
  Journal(int file, std::string device) : file_(file), device_(std::move(device)) {}
  void remember(const std::string& line);

  int file_;
  std::string device_;
  std::set<std::string> measured_, failed_;
  std::size_t found_ = 0;
};

// --- The time budget of a sweep. Cases come in order of value; a case that would exceed the budget is skipped ---

// Parses "8m", "90s", "1.5h" or plain seconds to seconds; nullopt for anything else, for zero and for negative times.
std::optional<double> parse_duration(const std::string& text);

// Estimates the seconds that measuring a case takes: allocation and checking, then the samples of every variant at
// twice `floor_s`. `floor_s` is a lower bound of one run on the device, in seconds; negative where it cannot run it.
// Budget corrects the estimate by the times that cases really took.
double estimated_seconds(const KernelCase& value, double floor_s, int samples);

// Returns in how many rounds a case is measured. Hot and cold samples alternate, as do samples alone and overlapped
// with a copy. A case with a soak is sampled in one round, since the GPU would cool during a pause.
std::size_t rounds_of(const KernelCase& value);

class Budget {
 public:
  // The budget lasts for `seconds` from now on; nullopt: no limit. `clock` returns seconds of any steady clock.
  Budget(std::optional<double> seconds, std::function<double()> clock);

  // Returns whether a case estimated at `estimate` seconds still fits.
  bool fits(double estimate) const;
  // Records the estimated and the measured seconds of a case, which correct later estimates.
  void spent(double estimate, double seconds);
  double elapsed() const;
  // Returns the seconds until the end; nullopt without a limit.
  std::optional<double> left() const;

 private:
  std::optional<double> seconds_;
  std::function<double()> clock_;
  double start_ = 0;
  double correction_ = 1;  // measured over estimated time, smoothed
};

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
