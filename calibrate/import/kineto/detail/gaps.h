// Finds why streams wait: for the host, for communication, or for another stream.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

// A pause of a stream before a piece of work that is longer than a launch gap.
struct Wait {
  std::int64_t length_ns = 0;  // 0: none
  std::string_view cause;      // "host", "communication", "dependency"; empty: unknown
};

// Returns the wait before each piece of work (indices into trace.work, by start). It is for the host where the launch
// came when the stream had already been idle; else for the work of another stream that ended last before it started,
// communication where `communicates` has that piece, within the launch gap. Without a launch and such work it is
// unknown.
std::vector<Wait> waits_of(const Trace& trace, const std::vector<std::size_t>& work,
                           const std::vector<bool>& communicates);

}  // namespace plumbline::calibrate
