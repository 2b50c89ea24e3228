#include "cli/host_records.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/version.h"
#include "real/measure/statistics.h"

namespace plumbline::cli {
namespace {

using calibrate::Measurement;
using real::Series;
using real::host::Environment;

// Where there are few all samples are kept, so that a later look is not bound to the quantiles.
constexpr std::size_t most_kept = 64;

std::string program() { return fmt::format("plumbline {} measure --backend host", model::version); }

calibrate::Environment environment_record(const Environment& environment, real::host::ClockKind clock,
                                          const std::string& date) {
  nlohmann::ordered_json properties = {{"cores", environment.cores}, {"clock", to_string(clock)}};
  for (const auto& [level, bytes] : environment.caches) properties["caches"][level + "_bytes"] = bytes;
  properties["load_average"] = environment.load;
  properties["compiler"] = environment.compiler;
  properties["flags"] = environment.flags;
  properties["eigen"] = environment.eigen;
  return {program(), environment.cpu, date, environment.cores, properties.dump()};
}

std::optional<double> positive(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

Measurement record_of(const Series& series, const std::string& device, const std::string& clock,
                      const std::string& date) {
  const real::Subject& subject = series.subject;
  Measurement m;
  m.source = program();
  m.device = device;
  m.date = date;
  m.op = subject.op;
  m.name = subject.name;
  m.phase = subject.phase;
  m.format = subject.format;
  m.case_line = subject.key;
  m.shape = subject.shape;
  m.sms = subject.cores;
  if (subject.copy_cores > 0) {
    m.communication_ctas = subject.copy_cores;
    m.copy_to = "memory";
    m.copy_rate = positive(series.copy_rate);
  }
  m.variant = clock;
  m.samples = static_cast<std::int64_t>(series.seconds.size());
  const real::Spread spread = real::spread_of(series.seconds);
  m.time = {spread.p50, spread.p10, spread.p90, spread.min, spread.mad, {}};
  if (series.seconds.size() <= most_kept) m.time.samples = series.seconds;
  m.flops = positive(subject.flops);
  m.bytes = positive(subject.bytes);
  return m;
}

}  // namespace

calibrate::Measurements host_records(const std::vector<Series>& series, const Environment& environment,
                                     real::host::ClockKind clock, const std::string& date) {
  calibrate::Measurements records;
  records.environments.push_back(environment_record(environment, clock, date));
  for (const Series& one : series) {
    if (!one.seconds.empty())
      records.values.push_back(record_of(one, environment.cpu, std::string(to_string(clock)), date));
  }
  return records;
}

}  // namespace plumbline::cli
