// Which part of a step becomes a timeline.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace plumbline::sim {

struct Recording {
  Recording(bool wanted = false) : on(wanted) {}  // NOLINT(google-explicit-constructor): a yes or no is one
  // The kernels of every slot of these ranks, and nothing of others.
  explicit Recording(std::vector<std::int32_t> some, bool with_data = false)
      : on(true), every_kernel(true), data(with_data), ranks(std::move(some)) {}

  bool on = false;
  bool every_kernel = false;        // of every slot, else of one slot of each rank
  bool data = false;                // each kernel with its data (model::Timeline::kernels); of every kernel
  std::vector<std::int32_t> ranks;  // of the pipeline, with a fleet its GPUs, ascending; empty: all
};

}  // namespace plumbline::sim
