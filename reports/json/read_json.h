// Reads results back from the JSON that json.h writes, for comparison with others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/result/timeline.h"

namespace plumbline::reports {

// A result as read from its file.
struct StoredResult {
  model::StepResult result;  // without provenance and the items of each rank's memory
  model::Plan plan;
  // The spans of an executed step; else empty.
  model::Timeline timeline;
  std::string clock;                     // wall | cpu | simulated | gpu
  std::string date;                      // when an executed step ended, UTC; empty: not stated
  std::vector<double> measured_seconds;  // the steps of which its time is the median
};

// Reads a result, which must have the object `step` with its `time_s`; fields that are missing or null stay unset.
// Anything else that cannot be read is an input error with `path` and the key.
model::Result<StoredResult> read_result(std::string_view text, const std::string& path);

// Whether the file is a stored result: its name ends in .json or its content begins with a brace.
bool is_result(const std::string& path);

}  // namespace plumbline::reports
