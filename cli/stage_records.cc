#include "cli/stage_records.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/case_records.h"
#include "cli/series_record.h"
#include "model/base/version.h"

namespace plumbline::cli {
namespace {

using real::cuda::StageMeasurement;

std::string program() { return fmt::format("plumbline {} measure --backend cuda --plan", model::version); }

calibrate::Environment environment_record(const StageMeasurement& measured, const std::string& date) {
  nlohmann::ordered_json properties = {{"communication_sms", measured.communication_sms},
                                       {"target_sms", measured.target_sms},
                                       {"nic_gbps", measured.nic_gbps},
                                       {"other_ranks", "stood in for"}};
  return {program(), measured.device, date, measured.sms, properties.dump()};
}

calibrate::Measurement record_of(const real::Series& series, const StageMeasurement& measured,
                                 const std::string& date) {
  calibrate::Measurement m = series_record(series);
  m.source = program();
  m.device = measured.device;
  m.date = date;
  m.sms = measured.sms;
  m.communication_ctas = series.subject.copy_cores;
  m.target_sms = measured.target_sms;
  m.variant = series.subject.beside ? "in_step_beside" : "in_step";
  m.clock = clock_of(measured.clock);
  return m;
}

}  // namespace

calibrate::Measurements stage_records(const StageMeasurement& measured, const std::string& date) {
  calibrate::Measurements records;
  records.environments.push_back(environment_record(measured, date));
  for (const real::Series& series : measured.series)
    if (!series.seconds.empty()) records.values.push_back(record_of(series, measured, date));
  return records;
}

}  // namespace plumbline::cli
