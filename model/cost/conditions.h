// Under which conditions a kernel runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plumbline::model {

// Whose blocks sit on SMs beside a kernel: nobody's, those of a communication kernel that waits for the
// other ranks or moves data, those of a dense collective, or (for kernels of the communication stream) those of a
// matrix product.
enum class Neighbour : std::uint8_t { none, waiting, transferring, collective, computing };
inline constexpr std::size_t communication_states = 4;  // all but computing

struct Conditions {
  std::int64_t sms = 0;   // streaming multiprocessors that persistent kernels are launched on
  std::int64_t held = 0;  // SMs of the neighbour
  Neighbour neighbour = Neighbour::none;
  double row_scale = 1;  // this rank's expert rows over the expected ones (load imbalance)
};

}  // namespace plumbline::model
