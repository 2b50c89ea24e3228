#include "cli/measure/measure_records.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "calibrate/measurement/measurement_file.h"
#include "model/base/version.h"
#include "real/measure/statistics.h"

namespace plumbline::cli {
namespace {

using calibrate::Measurement;
using calibrate::Measurements;
using real::cuda::StageMeasurement;
using real::host::Environment;

// Up to this number of samples all are kept, so that later analyses are not limited to the quantiles.
constexpr std::size_t most_kept = 64;

constexpr const char *of_cases = "--backend cuda", *of_plan = "--backend cuda --plan",
                     *of_host_backend = "--backend host";

std::string program(const char* options) { return fmt::format("plumbline {} measure {}", model::version, options); }

std::optional<double> positive(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

// Fills in the description of a case, the program, and the device.
void describe(calibrate::Subject& record, const real::Subject& subject, const char* options, const std::string& device,
              const std::string& date) {
  record.source = program(options);
  record.device = device;
  record.date = date;
  record.op = subject.op;
  record.name = subject.name;
  record.phase = subject.phase;
  record.format = subject.format;
  record.case_line = subject.key;
  record.shape = subject.shape;
}

// Returns the record of a case with at least one sample.
Measurement record_of(const real::Series& series, const char* options, const std::string& device,
                      const std::string& date) {
  Measurement m;
  describe(m, series.subject, options, device, date);
  m.samples = static_cast<std::int64_t>(series.seconds.size());
  const real::Spread spread = real::spread_of(series.seconds);
  m.time = {spread.p50, spread.p10, spread.p90, spread.min, spread.mad, {}};
  if (series.seconds.size() <= most_kept) m.time.samples = series.seconds;
  m.flops = positive(series.subject.flops);
  m.bytes = positive(series.subject.bytes);
  return m;
}

calibrate::Clock clock_of(const real::ClockReading& reading) {
  calibrate::Clock clock;
  if (reading.sm_mhz) clock.sm_mhz = *reading.sm_mhz;
  if (reading.memory_mhz) clock.memory_mhz = *reading.memory_mhz;
  clock.power_w = reading.power_w;
  clock.temperature_c = reading.temperature_c;
  clock.throttle = reading.throttle.value_or("");
  return clock;
}

// Returns one record per series that has samples.
template <class RecordOf>
Measurements records_of(calibrate::Environment environment, const std::vector<real::Series>& series,
                        const RecordOf& record) {
  Measurements records;
  records.environments.push_back(std::move(environment));
  for (const real::Series& one : series)
    if (!one.seconds.empty()) records.values.push_back(record(one));
  return records;
}

}  // namespace

std::string environment_line(const real::CaseMachine& machine, const std::string& date) {
  Measurements records;
  records.environments.push_back({program(of_cases), machine.device(), date, machine.sms(), machine.environment()});
  return to_jsonl(records);
}

std::string measurement_line(const real::CaseMachine& machine, const real::KernelCase& what, const real::Series& series,
                             const real::Findings& findings, const std::string& date) {
  Measurement m = record_of(series, of_cases, machine.device(), date);
  m.sms = machine.sms();
  m.communication_sms = series.subject.communication_sms;
  m.target_sms = what.target_sms;
  if (series.subject.communication_sms > 0 && series.copy_rate > 0) {
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
  Measurements records;
  records.values.push_back(std::move(m));
  return to_jsonl(records);
}

std::string failure_line(const real::CaseMachine& machine, const real::KernelCase& what, const std::string& reason,
                         const std::string& date) {
  Measurements records;
  calibrate::Failure& failure = records.failures.emplace_back();
  describe(failure, real::subjects_of(what).front(), of_cases, machine.device(), date);
  failure.reason = reason;
  return to_jsonl(records);
}

Measurements host_records(const std::vector<real::Series>& series, const Environment& environment,
                          real::host::ClockKind clock, const std::string& date) {
  nlohmann::ordered_json properties = {{"cores", environment.cores}, {"clock", to_string(clock)}};
  for (const auto& [level, bytes] : environment.caches) properties["caches"][level + "_bytes"] = bytes;
  properties["load_average"] = environment.load;
  properties["compiler"] = environment.compiler;
  properties["flags"] = environment.flags;
  properties["eigen"] = environment.eigen;
  return records_of({program(of_host_backend), environment.cpu, date, environment.cores, properties.dump()}, series,
                    [&](const real::Series& one) {
                      Measurement m = record_of(one, of_host_backend, environment.cpu, date);
                      m.sms = one.subject.cores;
                      if (one.subject.communication_sms > 0) {
                        m.communication_sms = one.subject.communication_sms;
                        m.copy_to = "memory";
                        if (one.copy_rate > 0) m.copy_rate = one.copy_rate;
                      }
                      m.variant = to_string(clock);
                      return m;
                    });
}

Measurements plan_records(const StageMeasurement& measured, const std::string& date) {
  const nlohmann::ordered_json properties = {{"communication_sms", measured.communication_sms},
                                             {"target_sms", measured.target_sms},
                                             {"nic_gbps", measured.nic_gbps},
                                             {"other_ranks", "stood in for"}};
  return records_of({program(of_plan), measured.device, date, measured.sms, properties.dump()}, measured.series,
                    [&](const real::Series& one) {
                      Measurement m = record_of(one, of_plan, measured.device, date);
                      m.sms = measured.sms;
                      m.communication_sms = one.subject.communication_sms;
                      m.target_sms = measured.target_sms;
                      m.variant = one.subject.overlapped ? "in_step_beside" : "in_step";
                      m.clock = clock_of(measured.clock);
                      return m;
                    });
}

}  // namespace plumbline::cli
