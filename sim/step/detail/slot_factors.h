// By how much the compute of a GPU in one slot differs from the expected: its speed, jitter, expert rows and attention.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "sim/step/fleet.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

class SlotFactors {
 public:
  // All arguments must outlive the object.
  SlotFactors(const model::StepProgram& program, const std::vector<std::vector<SegmentTime>>& times,
              const Fleet& fleet);

  bool even() const { return even_; }  // every factor is 1
  double slowness(std::int32_t gpu) const {
    return fleet_.slowness.empty() ? 1 : fleet_.slowness[static_cast<std::size_t>(gpu)];
  }
  // Writes the factor on the compute time of each segment of a GPU's slot. The same GPU and slot always have the same.
  void fill(std::int32_t gpu, std::size_t slot, std::vector<double>& factors) const;

 private:
  struct Part {           // of a segment
    float deviation = 0;  // of the logarithm of its time
    float rows = 0;       // share of its time that grows with the expert rows
    float attention = 0;  // share of its time that is attention
  };

  double work(const model::ScheduleOp& op, const model::Segment& segment, const Part& part, std::int64_t replica) const;

  const model::StepProgram& program_;
  const Fleet& fleet_;
  bool even_;
  std::int32_t micro_batches_ = 0;        // of one direction
  std::vector<std::vector<Part>> parts_;  // [template][segment]
};

}  // namespace plumbline::sim
