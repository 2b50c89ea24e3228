// The event loop that schedulers are written against: timers, and flows over the links of a cluster. Time is an
// integer count of picoseconds; events at the same time run in order of priority, then of scheduling, so that every
// run is bit-identical.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "topologies/fabric.h"

namespace plumbline::sim {

using Time = std::int64_t;  // picoseconds

// Rounded to the nearest picosecond, as std::llround does.
inline Time to_time(double seconds) {
  const double exact = seconds * 1e12;
  const Time whole = static_cast<Time>(exact);
  const double rest = exact - static_cast<double>(whole);
  return whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0);
}
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

using topologies::LinkId;

// A link that a flow's bytes cross `times` times. On a shared link the flow counts as so many connections.
struct Crossing {
  LinkId link = 0;
  std::uint32_t times = 1;
};
using Footprint = std::vector<Crossing>;  // each link once, in any order

inline constexpr double unlimited = std::numeric_limits<double>::infinity();

// Bytes that cross all links of a footprint at one rate: a message over its route, or the equal messages of a uniform
// collective over all of their routes together (`bytes` is then that of one message).
struct Flow {
  const Footprint* footprint = nullptr;  // lives until the flow has ended; nullptr: no links
  double bytes = 0;
  double rate_limit = unlimited;  // B/s of `bytes`
  Task failed;                    // instead of `done` when a link of the footprint fails; may have no handler
};

// Never used twice in one loop.
enum class FlowId : std::uint64_t {};

// Seconds of a flow in whole picoseconds, rounded up; an eighth counts as rounding noise of the seconds.
inline Time flow_time(double seconds) { return std::max<Time>(0, std::llround(std::ceil(seconds * 1e12 - 0.125))); }

class Loop {
 public:
  virtual ~Loop() = default;
  virtual Time now() const = 0;
  virtual void at(Time time, const Task& task) = 0;  // time >= now()

  // Starts a flow now; `done` runs when its last byte has crossed. A flow without bytes or without links and limit
  // ends now. Counts as scheduled at the start, as a timer would.
  virtual FlowId flow(const Flow& flow, const Task& done) = 0;
  // From now on; for flows that were started with a finite limit. A flow that has ended stays as it is.
  virtual void set_rate_limit(FlowId flow, double rate_limit) = 0;

  // Runs until no event is left. Returns the number of events run.
  virtual std::uint64_t run() = 0;
};

}  // namespace plumbline::sim
