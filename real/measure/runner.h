// What executes a workload once and takes its times.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "model/base/error.h"
#include "real/measure/workload.h"

namespace plumbline::real {

struct Sample {
  std::size_t subject = 0;  // of the workload's
  double seconds = 0;
  double copy_rate = 0;  // bytes per second of what copied beside it
};

class Runner {
 public:
  virtual ~Runner() = default;
  // Runs the workload once. Rounds take turns with their buffers, so that a round does not find in a cache what the
  // one before left there.
  virtual model::Result<std::vector<Sample>> round(std::size_t number) = 0;
};

struct RunnableWorkload {
  std::unique_ptr<Runner> runner;
  std::vector<Subject> subjects;  // that its samples name
};

}  // namespace plumbline::real
