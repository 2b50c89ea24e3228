// A slot of GPUs that wait for each other at barriers, without events: the ends of its segments follow from those that
// they wait for. A segment takes what it takes on a GPU alone, where streams slow each other down, times the factor of
// its GPU. With factors of 1 and equal starts the slot is that of a GPU alone, to the picosecond, and no end moves
// earlier when a factor grows or a GPU starts later. Where two streams share the SMs, factors that differ cost as much
// as the larger of them; on a GPU they cost about their mean.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "sim/step/detail/gpu_groups.h"
#include "sim/step/fleet.h"
#include "sim/step/segment_time.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

// By how much the compute of a GPU in one slot differs from the expected: its speed, jitter, expert rows and attention.

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

class SlotPath {
 public:
  // `barriers` must outlive the object.
  SlotPath(const model::StepProgram& program, std::uint16_t slot_template, const TemplateRun& alone,
           const SlotBarriers& barriers);

  struct Member {
    std::int32_t gpu = 0, replica = 0;
    Time start = 0;
    Time end = 0, compute_busy = 0, waited = 0;  // results; waited: at barriers for others
  };
  // Runs the template as slot `slot` of the members, which are a group of SlotBarriers::together() in ascending order.
  void run(std::vector<Member>& members, std::size_t slot, const SlotFactors& factors);

 private:
  struct Step {
    std::uint32_t segment = 0;
    std::int32_t kind = -1;  // of the barrier; -1: none
    bool computes = false;
    double before = 0, after = 0;        // ps until the barrier, and from it to the end
    std::vector<std::uint32_t> follows;  // segments that must have ended
  };
  void start(const Step& step);
  void pass(const GpuGroups& groups, const std::vector<Member>& members);

  const SlotBarriers& barriers_;
  std::vector<Step> steps_;  // each after all that it follows
  Time duration_ = 0, compute_busy_ = 0;
  // Of the present run, in ps since the first start of a member.
  std::vector<double> ends_;                                     // [segment][member]
  std::vector<double> factors_, own_;                            // [segment][member], [segment] of one member
  std::vector<double> first_, starts_, waited_, longer_, last_;  // [member]
  std::vector<double> latest_;                                   // [group of a barrier]
};

}  // namespace plumbline::sim
