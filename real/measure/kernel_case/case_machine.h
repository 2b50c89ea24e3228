// The interface of a device that measures kernel cases (kernel_case.h). It needs no toolkit of the device to compile.
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

  virtual std::string device() const = 0;  // name given by the driver
  virtual int sms() const = 0;
  virtual std::string environment() const = 0;  // a JSON object: clocks, driver, libraries with their files

  // Returns a runner of the case, whose rounds each take `samples` of every subject (subjects_of), after comparing its
  // results with double precision. Infeasible: a library is missing, there is too little memory, or results are wrong.
  virtual model::Result<std::unique_ptr<Runner>> prepare(const KernelCase& what, int samples) = 0;

  // Returns whether the device no longer responds, as after an illegal memory access until the process ends.
  virtual bool lost() const = 0;
};

}  // namespace plumbline::real
