// The SMs in use and the rates on links of each rank over time, as counters of a timeline.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/result/timeline.h"
#include "sim/engine/loop.h"

namespace plumbline::sim {

class LoadCounters {
 public:
  struct Load {
    std::int32_t kernels = 0;                  // of compute streams
    std::int64_t communication_sms = 0;        // that communication holds
    double network_bytes = 0, node_bytes = 0;  // sent evenly over the time
  };

  explicit LoadCounters(std::int64_t device_sms) : device_sms_(device_sms) {}

  // Adds what loads a rank from start to end.
  void add(std::int32_t rank, Time start, Time end, const Load& load);

  // Returns the counters by rank. Compute has all SMs that communication does not hold, while any of its kernels runs.
  // A device without a number of SMs has no such counter.
  std::vector<model::Counter> finish();

 private:
  struct Change {
    Time time = 0;
    Load load;  // with bytes per second
  };

  std::int64_t device_sms_;
  std::map<std::int32_t, std::vector<Change>> changes_;  // by rank
};

}  // namespace plumbline::sim
