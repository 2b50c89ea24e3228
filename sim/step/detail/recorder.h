// Turns the events of GPUs into the spans of a timeline: slots, phases, barriers, and kernels of one pair per rank.
#pragma once

#include <string>
#include <vector>

#include "model/program/program.h"
#include "model/result/timeline.h"
#include "sim/engine/gpu_model.h"
#include "sim/engine/loop.h"
#include "sim/step/fleet.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

class Recorder {
 public:
  // All arguments must outlive the recorder. A rank of the timeline is a recorded GPU of the fleet.
  Recorder(const model::StepProgram& program, const std::vector<std::vector<SegmentTime>>& template_times,
           const Fleet& fleet);

  void slot(std::int32_t gpu, std::size_t op, Time start, Time end);
  void segment(std::int32_t gpu, std::size_t op, std::uint32_t segment, const SegmentRun& run);
  void message(std::int32_t gpu, bool forward, std::int32_t micro_batch, Time start, Time end);
  void optimizer(std::int32_t gpu, const std::string& name, Time start, Time end);

  model::Timeline finish(Time end);

 private:
  void kernels(const model::Segment& segment, const SegmentTime& time, const SegmentRun& run, const model::Span& place);
  std::int32_t track_of(std::int32_t gpu) const;  // -1: it is not recorded
  std::size_t rank_of(std::int32_t gpu) const { return static_cast<std::size_t>(gpu / fleet_.replicas); }

  const model::StepProgram& program_;
  const std::vector<std::vector<SegmentTime>>& template_times_;
  const Fleet& fleet_;
  model::TimelineWriter timeline_;
  std::vector<std::size_t> kernel_op_;  // per pipeline rank: the op whose kernels are shown
};

}  // namespace plumbline::sim
