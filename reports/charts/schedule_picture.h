// A picture of an evaluated pipeline schedule: one row per rank, one block per op, time to the right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

namespace plumbline::reports {

struct ScheduleBlock {  // one op of a rank
  model::OpType type = model::OpType::F;
  std::int32_t forward = -1, backward = -1;  // micro-batches, counted per direction; -1 where the op has none
  std::int32_t forward_stage = -1, backward_stage = -1;
  bool marked = false;  // whether the block is of the kind that SchedulePicture::mark names
  double start = 0, end = 0;
};

struct SchedulePicture {
  std::string title;
  std::vector<std::vector<ScheduleBlock>> ranks;  // program order
  double makespan = 0;
  std::string mark;  // "direction 1" or "odd chunks" where a rank has such blocks; else ""
};

// Makes the picture; `end[rank][op]` belongs to evaluation.start, both in the unit of the costs.
SchedulePicture schedule_picture(const model::Schedule& schedule, const model::ScheduleEvaluation& evaluation,
                                 const std::vector<std::vector<double>>& end);

// Returns text for a terminal of `width` columns, with an axis and a legend. In colour a block is a coloured background
// (ANSI, 256 colours) with its micro-batch where it fits. Without colour it begins with its letter (F, B, I, W, or X
// for an overlapped pair; lower case where marked) and its micro-batch where it fits, and is filled with '-'; '.' is
// idle. A cell shows the op at its middle, so a block narrower than a cell may be missing.
std::string picture_text(const SchedulePicture& picture, std::size_t width, bool color);

// Returns an SVG document (light or dark as the viewer is): a bar chart with a row for each rank and a bar for each
// block, which has its micro-batch on it where that fits.
std::string picture_svg(const SchedulePicture& picture);

}  // namespace plumbline::reports
