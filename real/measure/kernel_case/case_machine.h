// A device that measures the cases of kernels (kernel_case.h). What has no toolkit of the device uses it through this.
#pragma once

#include <memory>
#include <string>

#include "model/base/error.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "real/measure/runner.h"

namespace plumbline::real {

class CaseMachine {
 public:
  virtual ~CaseMachine() = default;

  virtual std::string device() const = 0;  // as its driver calls it
  virtual int sms() const = 0;
  virtual std::string environment() const = 0;  // a JSON object: clocks, driver, libraries with their files

  // A runner of the case, whose rounds each take `samples` of every subject (subjects_of). Results were compared with
  // double precision. Infeasible: a library that is missing, too little memory, wrong numbers.
  virtual model::Result<std::unique_ptr<Runner>> prepare(const KernelCase& what, int samples) = 0;

  // Whether the device no longer answers: after an illegal access it does not until the process ends.
  virtual bool lost() const = 0;
};

}  // namespace plumbline::real
