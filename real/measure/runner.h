// What executes a workload once and takes its times.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/measure/clock_reading.h"
#include "real/measure/workload.h"

namespace plumbline::real {

struct Sample {
  std::size_t subject = 0;  // of the workload's
  double seconds = 0;
  double copy_rate = 0;  // bytes per second of what copied beside it
};

// Comparison with double precision: ||got - expected|| / ||expected|| over sampled entries.
struct CheckOutcome {
  double relative_error = 0;
  double tolerance = 0;
  bool ok = false;
  std::string note;  // why it is not ok, beside the error
};

// What a runner says of a subject beside its times.
struct Findings {
  std::optional<CheckOutcome> check;
  ClockReading clock;     // while the samples ran
  std::string algorithm;  // a JSON object: how a library does it; empty: no library does
  std::string note;
};

class Runner {
 public:
  virtual ~Runner() = default;
  // Runs the workload once. Rounds take turns with their buffers, so that a round does not find in a cache what the
  // one before left there.
  virtual model::Result<std::vector<Sample>> round(std::size_t number) = 0;
  // Called behind the last round.
  virtual Findings findings(std::size_t /*subject*/) const { return {}; }
};

struct RunnableWorkload {
  std::unique_ptr<Runner> runner;
  std::vector<Subject> subjects;  // that its samples name
};

}  // namespace plumbline::real
