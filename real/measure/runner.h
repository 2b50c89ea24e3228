// The interface that executes a workload once and takes its times.
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
  std::size_t subject = 0;  // index in the workload's subjects
  double seconds = 0;
  double copy_rate = 0;  // bytes per second of the concurrent copy
};

// The comparison with double precision: ||got - expected|| / ||expected|| over sampled entries.
struct CheckOutcome {
  double relative_error = 0;
  double tolerance = 0;
  bool ok = false;
  std::string note;  // further reason why it is not ok
};

// What a runner reports on a subject next to its times.
struct Findings {
  std::optional<CheckOutcome> check;
  ClockReading clock;     // while the samples ran
  std::string algorithm;  // a JSON object that describes the library's algorithm; empty: no library is used
  std::string note;
};

class Runner {
 public:
  virtual ~Runner() = default;
  // Runs the workload once. Rounds alternate between sets of buffers, so that a round does not hit in a cache what the
  // previous one left there.
  virtual model::Result<std::vector<Sample>> round(std::size_t number) = 0;
  // Called after the last round.
  virtual Findings findings(std::size_t /*subject*/) const { return {}; }
};

struct RunnableWorkload {
  std::unique_ptr<Runner> runner;
  std::vector<Subject> subjects;  // indexed by Sample::subject
};

}  // namespace plumbline::real
