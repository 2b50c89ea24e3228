// Results read back from the JSON that json.h writes, so that they can be laid beside others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/result/timeline.h"

namespace plumbline::reports {

struct StoredResult {
  model::StepResult result;  // without provenance and the items of each rank's memory
  model::Plan plan;
  // Of a step that was executed; else empty.
  model::Timeline timeline;
  std::string clock;                     // wall | cpu | simulated | gpu
  std::vector<double> measured_seconds;  // of the steps that its time is the median of
};

// Wants the object `step` with its `time_s`; what else is missing or null stays unset. Everything else that cannot be
// read is an input error with `path` and the key.
model::Result<StoredResult> read_result(std::string_view text, const std::string& path);

// Whether it is a stored result: a file that ends in .json or begins with a brace.
bool is_result(const std::string& path);

}  // namespace plumbline::reports
