// From the file of a validation case to the case.
#pragma once

#include <functional>
#include <string>

#include "calibrate/validate/validation_case.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

// Where a case finds the measurements that it names.
struct CaseFiles {
  // The path of the measurement that the case in the first path names by the second.
  std::function<model::Result<std::string>(const std::string& case_path, const std::string& name)> find;
  std::string kernel_classes;  // path of kernels.toml
};

// Reads one case file, and published values from the measurements that it names. Errors name file, line and key.
model::Result<ValidationCase> load_case(const std::string& path, const CaseFiles& files);

}  // namespace plumbline::calibrate
