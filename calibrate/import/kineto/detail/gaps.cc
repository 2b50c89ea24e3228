#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "calibrate/chunk/kernel_timeline.h"
#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/detail/work.h"

namespace plumbline::calibrate {
namespace {

constexpr double ns_per_s = 1e9;

std::int64_t end_of(const GpuWork& work) { return work.start_ns + work.duration_ns; }

// The work of a device by end, to find what a stream waited for.
class Ends {
 public:
  Ends(const Trace& trace, const std::vector<std::size_t>& work) : trace_(trace), work_(work) {
    for (std::size_t i = 0; i < work.size(); ++i) order_.push_back(i);
    std::ranges::stable_sort(order_, {}, [this](std::size_t i) { return end(i); });
  }

  // Returns the piece of another stream that ended last in [from, to].
  std::optional<std::size_t> last(std::int64_t from, std::int64_t to, int stream) const {
    auto at = std::ranges::upper_bound(order_, to, {}, [this](std::size_t i) { return end(i); });
    while (at != order_.begin() && end(*--at) >= from)
      if (trace_.work[work_[*at]].stream != stream) return *at;
    return std::nullopt;
  }

 private:
  std::int64_t end(std::size_t i) const { return end_of(trace_.work[work_[i]]); }

  const Trace& trace_;
  const std::vector<std::size_t>& work_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::vector<Wait> waits_of(const Trace& trace, const std::vector<std::size_t>& work,
                           const std::vector<bool>& communicates) {
  const std::int64_t limit = std::llround(launch_gap_limit * ns_per_s);
  const Ends ends(trace, work);
  std::vector<std::optional<std::int64_t>> launched(work.size());
  for (const Moment& moment : launch_moments(trace, work)) launched[moment.asker] = moment.time_ns;
  std::map<int, std::int64_t> idle_since;  // by stream
  std::vector<Wait> waits(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    const GpuWork& piece = trace.work[work[i]];
    const auto [previous, first] = idle_since.try_emplace(piece.stream, end_of(piece));
    const std::int64_t idle = first ? piece.start_ns : previous->second;
    previous->second = std::max(previous->second, end_of(piece));
    if (piece.start_ns - idle <= limit) continue;
    waits[i].length_ns = piece.start_ns - idle;
    const auto other = ends.last(piece.start_ns - limit, piece.start_ns, piece.stream);
    if (launched[i] && *launched[i] + limit >= piece.start_ns) {
      waits[i].cause = "host";
    } else if (other && end_of(trace.work[work[*other]]) > idle) {
      waits[i].cause = communicates[*other] ? "communication" : "dependency";
    } else if (launched[i]) {
      waits[i].cause = *launched[i] > idle ? "host" : "dependency";
    }
  }
  return waits;
}

}  // namespace plumbline::calibrate
