// The event loop that schedulers are written against: timers, and flows over the links of a cluster. Time is an integer
// count of picoseconds. Events at one time run in order of priority, then of scheduling, so runs are bit-identical.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "topologies/fabric.h"

namespace plumbline::sim {

using Time = std::int64_t;  // picoseconds

// Rounds to the nearest picosecond, as std::llround does.
inline Time to_time(double seconds) {
  const double exact = seconds * 1e12;
  const Time whole = static_cast<Time>(exact);
  const double rest = exact - static_cast<double>(whole);
  return whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0);
}
inline double to_seconds(Time time) { return static_cast<double>(time) * 1e-12; }

// Receives events when they come due. `code` and `argument` are those that the handler scheduled.
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

// A link that a flow's bytes cross `times` times. The flow counts as that many connections on a shared link.
struct Crossing {
  LinkId link = 0;
  std::uint32_t times = 1;
};
using Footprint = std::vector<Crossing>;  // each link once, in any order

inline constexpr double unlimited = std::numeric_limits<double>::infinity();

// Bytes that cross all links of a footprint at one rate. A flow is a message over its route, or all equal messages of a
// uniform collective over their routes together; `bytes` is then that of one message.
struct Flow {
  const Footprint* footprint = nullptr;  // must outlive the flow; nullptr: no links
  double bytes = 0;
  double rate_limit = unlimited;  // B/s of `bytes`
  Task failed;                    // runs instead of `done` when a link of the footprint fails; may have no handler
  // A GPU's number + 1: on loops without a network only flows of one owner share links; 0: with none.
  std::uint32_t owner = 0;
};

// The id of a flow, used once per loop.
enum class FlowId : std::uint64_t {};

// Converts the seconds of a flow to picoseconds, rounded up. The eighth of a picosecond absorbs rounding noise.
inline Time flow_time(double seconds) { return std::max<Time>(0, std::llround(std::ceil(seconds * 1e12 - 0.125))); }

class Loop {
 public:
  virtual ~Loop() = default;
  virtual Time now() const = 0;
  virtual void at(Time time, const Task& task) = 0;  // time >= now()

  // Starts a flow now; `done` runs when its last byte has crossed. A flow that has no bytes, or neither links nor a
  // limit, ends now. In the order of events it counts as scheduled at its start, like a timer.
  virtual FlowId flow(const Flow& flow, const Task& done) = 0;
  // Changes the limit from now on, for flows that were started with a finite one. Flows that have ended are ignored.
  virtual void set_rate_limit(FlowId flow, double rate_limit) = 0;

  // Runs until no event is left and returns the number of events run.
  virtual std::uint64_t run() = 0;
};

}  // namespace plumbline::sim
