// The shipped classes of kernels.
#pragma once

#include "calibrate/import/kernel_classes.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {

inline const calibrate::KernelClasses& shipped_kernel_classes() {
  static const calibrate::KernelClasses loaded =
      calibrate::load_kernel_classes(shipped("calibrate/kernels.toml")).value();
  return loaded;
}

}  // namespace plumbline::tests
