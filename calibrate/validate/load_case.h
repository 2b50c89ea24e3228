// Reads a validation case from its file.
#pragma once

#include <functional>
#include <string>

#include "calibrate/validate/validation_case.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

// Finds the measurements that a case names.
struct CaseFiles {
  // Returns the path of the measurement `name` of the case at `case_path`.
  std::function<model::Result<std::string>(const std::string& case_path, const std::string& name)> find;
  std::string kernel_classes;  // path of kernels.toml
};

// Reads one case file, and published values from the measurements that it names. Errors name file, line and key.
model::Result<ValidationCase> load_case(const std::string& path, const CaseFiles& files);

}  // namespace plumbline::calibrate
