#include "cli/host_records.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/series_record.h"
#include "model/base/version.h"

namespace plumbline::cli {
namespace {

using calibrate::Measurement;
using real::Series;
using real::host::Environment;

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

Measurement record_of(const Series& series, const std::string& device, const std::string& clock,
                      const std::string& date) {
  const real::Subject& subject = series.subject;
  Measurement m = series_record(series);
  m.source = program();
  m.device = device;
  m.date = date;
  m.sms = subject.cores;
  if (subject.copy_cores > 0) {
    m.communication_ctas = subject.copy_cores;
    m.copy_to = "memory";
    if (series.copy_rate > 0) m.copy_rate = series.copy_rate;
  }
  m.variant = clock;
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
