// Under which conditions a kernel runs.
#pragma once

#include <cstdint>

namespace plumbline::model {

struct Conditions {
  std::int64_t sms = 0;  // streaming multiprocessors that the kernel may use
  double row_scale = 1;  // this rank's expert rows over the expected ones (load imbalance)
};

}  // namespace plumbline::model
