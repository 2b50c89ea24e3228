#include "cli/case_records.h"

#include <fmt/format.h>

#include <utility>

#include "calibrate/measurement/measurement_file.h"
#include "cli/series_record.h"
#include "model/base/version.h"

namespace plumbline::cli {
namespace {

std::string program() { return fmt::format("plumbline {} measure --backend cuda", model::version); }

void head(calibrate::Subject& record, const real::CaseMachine& machine, const std::string& date) {
  record.source = program();
  record.device = machine.device();
  record.date = date;
}

}  // namespace

calibrate::Clock clock_of(const real::ClockReading& reading) {
  calibrate::Clock clock;
  if (reading.sm_mhz) clock.sm_mhz = *reading.sm_mhz;
  if (reading.memory_mhz) clock.memory_mhz = *reading.memory_mhz;
  clock.power_w = reading.power_w;
  clock.temperature_c = reading.temperature_c;
  clock.throttle = reading.throttle.value_or("");
  return clock;
}

std::string environment_line(const real::CaseMachine& machine, const std::string& date) {
  calibrate::Measurements records;
  records.environments.push_back({program(), machine.device(), date, machine.sms(), machine.environment()});
  return to_jsonl(records);
}

std::string measurement_line(const real::CaseMachine& machine, const real::KernelCase& what, const real::Series& series,
                             const real::Findings& findings, const std::string& date) {
  calibrate::Measurement m = series_record(series);
  head(m, machine, date);
  m.sms = machine.sms();
  m.communication_ctas = series.subject.copy_cores;
  m.target_sms = what.target_sms;
  if (series.subject.copy_cores > 0 && series.copy_rate > 0) {
    m.copy_to = what.copy_to;
    m.copy_rate = series.copy_rate;
  }
  m.cache = series.subject.cache;
  m.variant = series.subject.variant;
  m.time.mad.reset();
  m.time.samples.clear();
  if (const auto& check = findings.check)
    m.check = calibrate::Check{check->relative_error, check->tolerance, check->ok, check->note};
  m.clock = clock_of(findings.clock);
  m.algorithm = findings.algorithm;
  m.note = findings.note;
  calibrate::Measurements records;
  records.values.push_back(std::move(m));
  return to_jsonl(records);
}

std::string failure_line(const real::CaseMachine& machine, const real::KernelCase& what, const std::string& reason,
                         const std::string& date) {
  calibrate::Measurements records;
  records.failures.push_back({subject_record(real::subjects_of(what).front()), reason});
  head(records.failures.back(), machine, date);
  return to_jsonl(records);
}

}  // namespace plumbline::cli
