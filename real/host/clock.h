// The clock of a stream. wall: the machine's. cpu: a virtual one that advances by the CPU time of the thread that runs
// the stream and by what it waits for, so that a loaded machine does not show. profile: a virtual one that advances by
// the times that a profile gives kernels and by what the stream waits for; the machine does not show at all. simulated:
// the clock of a simulated MPI, which counts messages, and computation unless a profile says how long it takes.
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
// The clock of that name among `known`; input error otherwise.
model::Result<ClockKind> parse_clock(std::string_view word, std::span<const ClockKind> known);

// What a simulated MPI offers a clock.
struct SimulatedTime {
  double (*now)() = nullptr;                  // seconds
  void (*compute)(double seconds) = nullptr;  // lets the calling rank compute for that long
};

class StreamClock {
 public:
  explicit StreamClock(ClockKind kind, SimulatedTime simulated = {}) : kind_(kind), simulated_(simulated) {}

  // On the stream's own thread.
  double now();
  // What the stream waited for happened at `time`: a virtual clock is not before it. Others know already.
  void advance_to(double time);
  // The stream computes for `seconds` of a profile. Clocks that measure do not advance by it.
  void spend(double seconds);
  // The thread that runs the stream from now on is the calling one.
  void enter_thread();

 private:
  ClockKind kind_;
  SimulatedTime simulated_;
  double base_ = 0, mark_ = 0;  // virtual time; of cpu, when the thread had used `mark_` seconds
};

}  // namespace plumbline::real::host
