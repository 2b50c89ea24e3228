#include "sim/step/detail/load_counters.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plumbline::sim {

namespace {

using model::Counter;

// Adds a sample unless the counter has these values already. Of samples at one time the last one counts.
void note(Counter& counter, const Counter::Sample& sample) {
  std::vector<Counter::Sample>& samples = counter.samples;
  if (!samples.empty() && samples.back().time_ps == sample.time_ps) samples.pop_back();
  if (samples.empty() || samples.back().values != sample.values) samples.push_back(sample);
}

}  // namespace

void LoadCounters::add(std::int32_t rank, Time start, Time end, const Load& load) {
  if (end <= start) return;
  const double seconds = to_seconds(end - start);
  const Load begins{load.kernels, load.communication_sms, load.network_bytes / seconds, load.node_bytes / seconds};
  std::vector<Change>& changes = changes_[rank];
  changes.push_back({start, begins});
  changes.push_back({end, {-begins.kernels, -begins.communication_sms, -begins.network_bytes, -begins.node_bytes}});
}

std::vector<Counter> LoadCounters::finish() {
  std::vector<Counter> counters;
  for (auto& [rank, changes] : changes_) {
    std::ranges::stable_sort(changes, {}, &Change::time);
    Counter sms{rank, "SMs", {"compute", "communication"}, {}}, links{rank, "links (B/s)", {"node", "network"}, {}};
    Load now;
    for (const Change& change : changes) {
      now.kernels += change.load.kernels;
      now.communication_sms += change.load.communication_sms;
      now.network_bytes += change.load.network_bytes;
      now.node_bytes += change.load.node_bytes;
      const auto held = static_cast<double>(now.communication_sms);
      const double free = static_cast<double>(device_sms_) - held;
      note(sms, {change.time, {now.kernels > 0 ? std::max(0.0, free) : 0, held}});
      // Sums and differences of rates leave rests far below one byte per second.
      note(links, {change.time, {std::abs(std::round(now.node_bytes)), std::abs(std::round(now.network_bytes))}});
    }
    if (device_sms_ > 0) counters.push_back(std::move(sms));
    if (links.samples.size() > 1) counters.push_back(std::move(links));
  }
  return counters;
}

}  // namespace plumbline::sim
