#include "model/result/timeline.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace plumbline::model {

void TimelineWriter::add(Span place, const std::string& name, std::uint8_t depth, std::int64_t start_ps,
                         std::int64_t end_ps) {
  const auto [entry, fresh] = names_.try_emplace(name, static_cast<std::uint32_t>(timeline_.names.size()));
  if (fresh) timeline_.names.push_back(name);
  place.name = entry->second;
  place.depth = depth;
  place.start_ps = start_ps;
  place.duration_ps = end_ps - start_ps;
  timeline_.end_ps = std::max(timeline_.end_ps, end_ps);
  timeline_.ranks = std::max(timeline_.ranks, place.rank + 1);
  timeline_.spans.push_back(place);
}

void TimelineWriter::add(Span place, const std::string& name, Kernel kernel, std::int64_t start_ps,
                         std::int64_t end_ps) {
  place.kernel = keep(std::move(kernel));
  add(place, name, kernel_depth, start_ps, end_ps);
}

std::int32_t TimelineWriter::keep(Kernel kernel) {
  timeline_.kernels.push_back(std::move(kernel));
  return static_cast<std::int32_t>(timeline_.kernels.size()) - 1;
}

Timeline TimelineWriter::finish() {
  std::ranges::stable_sort(timeline_.spans, {},
                           [](const Span& s) { return std::make_tuple(s.rank, s.stream, s.depth, s.start_ps); });
  return std::move(timeline_);
}

}  // namespace plumbline::model
