// A predicted value with a published one.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/validation_case.h"
#include "model/result/result.h"

namespace plumbline::reports {

struct Comparison {  // one quantity, predicted and published
  std::string name;  // "step time"
  std::string unit;  // of both values; may be empty
  double predicted = 0;
  double published = 0;
  std::string source;  // publication that prints the value
  std::string note;    // what is known of the error; may be empty

  double error() const { return predicted / published - 1; }  // relative; requires published != 0
};

// Returns the figures of the cases whose plan has the name of `plan_file` (without folder and extension), in order;
// figures that the result does not have are left out.
std::vector<Comparison> comparisons(const std::vector<calibrate::ValidationCase>& cases, const std::string& plan_file,
                                    const model::StepResult& result);

}  // namespace plumbline::reports
