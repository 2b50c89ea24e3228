// One slot template on a GPU alone: no data-parallel collective runs next to it, and nothing makes it wait.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "sim/engine/gpu_model.h"
#include "sim/network/step_links.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct TemplateRun {
  double seconds = 0;  // infinite where the segments may take more than a million seconds, or are not numbers
  std::vector<SegmentRun> segments;
  Time duration = 0, compute_busy = 0;  // the same time as `seconds`; the part with a compute stream running
};

TemplateRun run_template(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                         std::int64_t device_sms);
// Returns the seconds of the slot where a dense collective runs all the time, on so many SMs.
double seconds_with_collective(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                               std::int64_t device_sms, std::int64_t collective_sms);
// Runs on the links of a pipeline rank, which only the slot's own transfers share. `groups` are those of its dense
// collectives (SlotWork::groups).
TemplateRun run_template(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                         std::int64_t device_sms, const StepLinks& links, const std::vector<const RankLinks*>& groups,
                         std::int32_t rank);

}  // namespace plumbline::sim
