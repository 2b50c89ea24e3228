// The clock of a stream. wall: the machine's. cpu: a virtual one that advances by the CPU time of the thread that runs
// the stream and by what it waits for, so that a loaded machine does not show. simulated: MPI_Wtime() of a simulated
// MPI, which counts computation itself.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/base/error.h"

namespace plumbline::real::host {

enum class ClockKind : std::uint8_t { wall, cpu, simulated };
std::string_view to_string(ClockKind kind);
model::Result<ClockKind> parse_clock(std::string_view word);  // wall | cpu; input error otherwise

class StreamClock {
 public:
  explicit StreamClock(ClockKind kind, double (*simulated)() = nullptr) : kind_(kind), simulated_(simulated) {}

  // On the stream's own thread.
  double now();
  // What the stream waited for happened at `time`: a virtual clock is not before it. Others know already.
  void advance_to(double time);
  // The thread that runs the stream from now on is the calling one.
  void enter_thread();

 private:
  ClockKind kind_;
  double (*simulated_)();
  double base_ = 0, mark_ = 0;  // cpu: virtual time when the thread had used `mark_` seconds
};

}  // namespace plumbline::real::host
