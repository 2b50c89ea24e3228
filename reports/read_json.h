// Results read back from the JSON that json.h writes, so that they can be laid beside others.
#pragma once

#include <string>
#include <string_view>

#include "model/error.h"
#include "model/plan.h"
#include "model/result.h"
#include "model/timeline.h"

namespace plumbline::reports {

struct StoredResult {
  model::StepResult result;  // without provenance and the items of each rank's memory
  model::Plan plan;
  model::Timeline timeline;  // of a step that was executed; else empty
};

// Wants the object `step` with its `time_s`; what else is missing or null stays unset. Everything else that cannot be
// read is an input error with `path` and the key.
model::Result<StoredResult> read_result(std::string_view text, const std::string& path);

}  // namespace plumbline::reports
