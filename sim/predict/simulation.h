// The results of predicting one step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "model/result/timeline.h"

namespace plumbline::sim {

// closed_form puts the durations of chunks on a GPU alone through the schedule's recurrence, without events. step runs
// every slot of every pipeline rank, cluster those of every GPU. All use the same chunks and costs.
enum class Fidelity { closed_form, step, cluster };
std::string_view to_string(Fidelity fidelity);
model::Result<Fidelity> parse_fidelity(std::string_view text);

// The memory that the fullest rank of a plan needs, without what fills it.
struct Peak {
  double bytes = 0;
  double least_bytes = 0;  // when its allocator has returned all that it can
  double host_bytes = 0;   // of the host whose GPUs hold most there

  bool fits(const model::Device& device) const {
    const double host = device.host_memory.value();
    return bytes <= device.memory.value() && (host == 0 || host_bytes <= host);
  }
};

struct Simulation {
  model::StepResult result;
  model::Timeline timeline;             // empty unless requested
  std::vector<std::string> rank_names;  // "rank 3 (stages 3, 12)"
  std::string sample;                   // which GPUs the timeline has, in words; empty: all that were simulated
  std::uint64_t events = 0;
};

}  // namespace plumbline::sim
