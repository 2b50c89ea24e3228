#include "real/measure/kernel_case/case_sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "real/measure/statistics.h"

namespace plumbline::real {
namespace {

// The outcome of one case.
enum class CaseEnd { measured, failed, device_lost, cannot_write };

std::string short_line(const Series& series) {
  constexpr double micro = 1e-6, tera = 1e12, giga = 1e9;
  const Subject& subject = series.subject;
  const double p50 = spread_of(series.seconds).p50;
  const std::string time = fmt::format("{}{}{} {:.{}f} us", subject.cache, subject.cache.empty() ? "" : " ",
                                       subject.variant, p50 / micro, subject.bytes > 0 ? 1 : 2);
  if (subject.flops > 0) return fmt::format("{}, {:.0f} TFLOP/s", time, subject.flops / p50 / tera);
  return subject.bytes > 0 ? fmt::format("{}, {:.0f} GB/s", time, subject.bytes / p50 / giga) : time;
}

class Sweep {
 public:
  Sweep(CaseMachine& machine, Journal& journal, const CaseRecords& records, const SweepOptions& options,
        const std::function<void(const std::string&)>& log)
      : machine_(machine), journal_(journal), records_(records), options_(options), log_(log) {}

  CaseEnd run(const KernelCase& what) {
    std::vector<RunnableWorkload> workload(1);
    const auto series = measured(what, workload);
    if (!series) return fail(what, series.error().message);
    std::string line = to_line(what) + ":";
    for (const Series& one : *series) {
      line += (&one == series->data() ? " " : "; ") + short_line(one);
      if (!write(what, one, *workload.front().runner)) return CaseEnd::cannot_write;
    }
    log_(line);
    return CaseEnd::measured;
  }

 private:
  // The caller keeps the workload, because its runner has the findings.
  model::Result<std::vector<Series>> measured(const KernelCase& what, std::vector<RunnableWorkload>& workload) {
    const std::size_t rounds = rounds_of(what);
    const int samples = (options_.samples + static_cast<int>(rounds) - 1) / static_cast<int>(rounds);
    auto runner = TRY(machine_.prepare(what, samples));
    workload.front() = {std::move(runner), subjects_of(what)};
    return measure_in_rounds(workload, {.rounds = rounds}, {});
  }

  CaseEnd fail(const KernelCase& what, std::string reason) {
    const bool lost = machine_.lost();
    if (lost) reason += " (the device context is lost)";
    log_(to_line(what) + ": " + reason);
    if (options_.writes && !journal_.append(records_.failed(what, reason))) return CaseEnd::cannot_write;
    return lost ? CaseEnd::device_lost : CaseEnd::failed;
  }

  // Writes the records of the case that the file does not have.
  bool write(const KernelCase& what, const Series& series, const Runner& runner) {
    if (!options_.writes || journal_.has(series.subject)) return true;
    const std::vector<Subject> subjects = subjects_of(what);
    const auto own = std::ranges::find(subjects, series.subject.place(), &Subject::place);
    const auto index = static_cast<std::size_t>(own - subjects.begin());
    return journal_.append(records_.measured(what, series, runner.findings(index)));
  }

  CaseMachine& machine_;
  Journal& journal_;
  const CaseRecords& records_;
  const SweepOptions& options_;
  const std::function<void(const std::string&)>& log_;
};

}  // namespace

SweepSummary measure_cases(const std::vector<KernelCase>& cases, CaseMachine& machine, Journal& journal, Budget& budget,
                           const CaseRecords& records, const SweepOptions& options,
                           const std::function<void(const std::string&)>& log) {
  SweepSummary summary;
  Sweep sweep(machine, journal, records, options, log);
  for (const KernelCase& what : cases) {
    if (options.interrupted && options.interrupted()) {
      summary.end = SweepEnd::interrupted;
      return summary;
    }
    if (!options.in_step && (journal.complete(what) || (journal.failed(what) && !options.retry))) {
      ++summary.skipped;
      continue;
    }
    const double estimate = estimated_seconds(what, options.floor_s(what), options.samples);
    if (!options.in_step && !budget.fits(estimate)) {
      ++summary.postponed;
      continue;
    }
    const double start = budget.elapsed();
    const CaseEnd end = sweep.run(what);
    budget.spent(estimate, budget.elapsed() - start);
    ++(end == CaseEnd::measured ? summary.measured : summary.failed);
    if (end == CaseEnd::cannot_write || end == CaseEnd::device_lost) {
      summary.end = end == CaseEnd::cannot_write ? SweepEnd::cannot_write : SweepEnd::device_lost;
      return summary;
    }
  }
  if (summary.postponed > 0) summary.end = SweepEnd::out_of_time;
  return summary;
}

}  // namespace plumbline::real
