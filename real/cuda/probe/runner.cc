#include "real/cuda/probe/runner.h"

#include <cstdio>

#include "real/cuda/probe/measure_collective.h"

namespace plumbline::real::cuda {

namespace {

std::string short_line(const Measurement& measurement) {
  char text[160];
  const double p50 = quantiles(measurement.samples_us).p50;
  const Work& work = measurement.work;
  if (work.flops > 0) {
    std::snprintf(text, sizeof text, "%s %.1f us, %.0f TFLOP/s", measurement.variant.variant.c_str(), p50,
                  work.flops / p50 * 1e-6);
  } else if (work.bytes > 0) {
    std::snprintf(text, sizeof text, "%s %.1f us, %.0f GB/s", measurement.variant.variant.c_str(), p50,
                  work.bytes / p50 * 1e-3);
  } else {
    std::snprintf(text, sizeof text, "%s %.2f us", measurement.variant.variant.c_str(), p50);
  }
  return (measurement.variant.cache.empty() ? "" : measurement.variant.cache + " ") + text;
}

// Writes what the file lacks of the case; false when the file cannot be written.
bool write(const std::vector<Measurement>& results, const RecordContext& context, Journal& journal) {
  for (const Measurement& result : results) {
    if (!journal.has(result.what, result.variant) && !journal.append(measurement_line(result, context))) return false;
  }
  return true;
}

// What a run goes through with.
struct Session {
  const RunPlan& plan;
  Toolbox& tools;
  Journal& journal;
  Collectives collectives;
  const std::function<void(const std::string&)>& say;

  bool writes() const { return plan.world.rank == 0; }
};

// What came of one case, beside its records.
enum class CaseEnd { measured, failed, device_lost, cannot_write };

CaseEnd run_case(const Case& what, Session& session) {
  RecordContext context = session.plan.context;
  context.date = utc_date();
  std::vector<Measurement> results;
  const Status status = measure(what, session.plan.measure, session.tools, session.collectives, results);
  if (!status.ok()) {
    const bool lost = context_is_lost();
    const std::string reason = status.failure + (lost ? " (the device context is lost)" : "");
    session.say(to_line(what) + ": " + reason);
    if (session.writes() && !session.journal.append(failure_line(what, reason, context))) return CaseEnd::cannot_write;
    return lost ? CaseEnd::device_lost : CaseEnd::failed;
  }
  if (session.writes() && !write(results, context, session.journal)) return CaseEnd::cannot_write;
  std::string line = to_line(what) + ":";
  for (const Measurement& result : results) line += (&result == results.data() ? " " : "; ") + short_line(result);
  session.say(line);
  return CaseEnd::measured;
}

}  // namespace

RunSummary run_cases(const RunPlan& plan, Toolbox& tools, Journal& journal, Budget& budget,
                     const std::function<void(const std::string&)>& say) {
  RunSummary summary;
  Session session = {plan, tools, journal, Collectives(plan.world), say};
  const bool alone = plan.world.size == 1;
  for (const Case& what : plan.cases) {
    if (alone && (journal.complete(what) || (journal.failed(what) && !plan.retry))) {
      ++summary.skipped;
      continue;
    }
    const double estimate = estimated_seconds(what, plan.peak, plan.measure.samples);
    if (alone && !budget.fits(estimate)) {
      ++summary.postponed;
      continue;
    }
    const double start = budget.elapsed();
    const CaseEnd end = run_case(what, session);
    budget.spent(estimate, budget.elapsed() - start);
    ++(end == CaseEnd::measured ? summary.measured : summary.failed);
    if (end == CaseEnd::cannot_write || end == CaseEnd::device_lost) {
      summary.end = end == CaseEnd::cannot_write ? RunEnd::cannot_write : RunEnd::device_lost;
      return summary;
    }
  }
  if (summary.postponed > 0) summary.end = RunEnd::out_of_time;
  return summary;
}

}  // namespace plumbline::real::cuda
