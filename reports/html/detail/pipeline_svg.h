// The pipeline picture: one row per rank, one rectangle per schedule slot, time to the right.
#pragma once

#include <string>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::reports {

// Returns an <svg> element for a page. Rectangles have the classes slot-F, slot-B, slot-I, slot-W, slot-FB or
// slot-other, which the page colours; small timelines have a hover title on each. Returns "" when there is no slot.
std::string pipeline_svg(const model::Timeline& timeline, const std::vector<std::string>& rank_names);

}  // namespace plumbline::reports
