// The event loop that schedulers are written against. Time is an integer count of picoseconds; events
// at the same time run in order of priority, then of scheduling, so that every run is bit-identical.
#pragma once

#include <cmath>
#include <cstdint>

namespace plumbline::sim {

using Time = std::int64_t;  // picoseconds

// Rounded to the nearest picosecond.
inline Time to_time(double seconds) { return std::llround(seconds * 1e12); }
inline double to_seconds(Time time) { return static_cast<double>(time) * 1e-12; }

// Who is called when an event comes due. `code` and `argument` mean what the handler gave.
class Handler {
 public:
  virtual void handle(std::uint32_t code, std::uint64_t argument) = 0;

 protected:
  ~Handler() = default;
};

struct Task {
  Handler* handler = nullptr;
  std::uint32_t code = 0;
  std::uint16_t priority = 0;  // smaller runs first among events of one time
  std::uint64_t argument = 0;
};

class Loop {
 public:
  virtual ~Loop() = default;
  virtual Time now() const = 0;
  virtual void at(Time time, const Task& task) = 0;  // time >= now()
};

}  // namespace plumbline::sim
