// The records of the probe: one JSON object per line, units in the keys. What is not known or does not apply is
// left out. docs/probe.md describes them for readers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "real/cuda/device/clock_reading.h"
#include "real/cuda/json_line.h"
#include "real/cuda/probe/case.h"
#include "real/cuda/probe/statistics.h"
#include "real/cuda/probe/work.h"

namespace plumbline::real::cuda {

// Comparison with double precision: ||got - expected|| / ||expected|| over sampled entries.
struct CheckOutcome {
  double relative_error = 0;
  double tolerance = 0;
  bool ok = false;
  std::string note;  // why it is not ok, beside the error
};

struct Measurement {
  Case what;
  VariantKey variant;
  std::vector<double> samples_us;
  Work work;                      // what one sample does
  std::int64_t running_ctas = 0;  // CTAs of the copy kernel while the samples ran
  double copy_gbps = 0;           // payload rate that the copy kernel reached; 0: it copied nothing, or none ran
  std::optional<CheckOutcome> check;
  ClockReading clock;
  JsonLine algorithm;  // how the library does it; empty: our own kernel
  std::string note;
};

struct RecordContext {
  std::string device;
  int sms = 0;
  std::string date;  // UTC, 2026-11-21T10:00:00Z
};

// Lines without a line break. `reason` names the cause of a failure, with what would help where that is known.
std::string measurement_line(const Measurement& measurement, const RecordContext& context);
std::string failure_line(const Case& what, const std::string& reason, const RecordContext& context);
// `body` holds what is known of the machine.
std::string environment_line(const JsonLine& body, const RecordContext& context);

// Now, as a RecordContext wants it.
std::string utc_date();

}  // namespace plumbline::real::cuda
