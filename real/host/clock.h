// The clock of a stream.
//   wall: the machine's clock.
//   cpu: a virtual clock that advances by the stream's CPU time and waits, whatever the other load of the machine.
//   profile: a virtual clock that advances by the kernel times of a profile and by the stream's waits.
//   simulated: the clock of a simulated MPI, which counts messages, and computation unless a profile gives its time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/base/error.h"

namespace plumbline::real::host {

enum class ClockKind : std::uint8_t { wall, cpu, profile, simulated };
std::string_view to_string(ClockKind kind);
// The clocks that a user may ask for: those that measure, and those of a run.
inline constexpr ClockKind measuring_clocks[] = {ClockKind::wall, ClockKind::cpu};
inline constexpr ClockKind run_clocks[] = {ClockKind::wall, ClockKind::cpu, ClockKind::profile};
// Returns the clock of that name among `known`; input error otherwise.
model::Result<ClockKind> parse_clock(std::string_view word, std::span<const ClockKind> known);

// The functions of a simulated MPI that a clock uses.
struct SimulatedTime {
  double (*now)() = nullptr;                  // seconds
  void (*compute)(double seconds) = nullptr;  // lets the calling rank compute for that long
};

class StreamClock {
 public:
  explicit StreamClock(ClockKind kind, SimulatedTime simulated = {}) : kind_(kind), simulated_(simulated) {}

  // Returns the time in seconds; call it on the stream's own thread.
  double now();
  // Advances a virtual clock to at least `time`, when an awaited event happened. Other clocks have already passed it.
  void advance_to(double time);
  // Advances by `seconds` of computation from a profile; clocks that measure ignore it.
  void spend(double seconds);
  // Makes the calling thread the one that runs the stream from now on.
  void enter_thread();

 private:
  ClockKind kind_;
  SimulatedTime simulated_;
  double base_ = 0, mark_ = 0;  // virtual time; for cpu, the time at which the thread had used `mark_` seconds
};

}  // namespace plumbline::real::host
