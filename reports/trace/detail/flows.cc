#include "reports/trace/detail/flows.h"

#include <algorithm>

namespace plumbline::reports {

namespace {

using model::Direction;
using model::Span;
using model::Stream;

constexpr std::int64_t shortest_ps = 1000;  // a slice of a whole nanosecond, which an arrow can be attached to

bool is_forward(const Span& span) { return span.direction == Direction::forward; }

}  // namespace

Flows::Flows(const model::Timeline& timeline) {
  for (const Span& span : timeline.spans) {
    const bool computes = span.depth == model::phase_depth && span.stream == Stream::compute;
    if (!computes || span.stage < 0 || span.direction == Direction::weight_gradient) continue;
    if (span.duration_ps >= shortest_ps)
      phases_[{span.rank, span.stage, span.micro_batch, is_forward(span)}].push_back(&span);
  }
  for (auto& [key, phases] : phases_) std::ranges::stable_sort(phases, {}, &Span::start_ps);
}

const Span* Flows::head(const Span& span) const {
  if (span.depth != model::phase_depth || span.stage < 0 || span.duration_ps < shortest_ps) return nullptr;
  Key key{span.rank, span.stage, span.micro_batch, is_forward(span)};
  std::int64_t from = span.end_ps();
  if (span.stream == Stream::pipeline) {
    if (span.peer < 0) return nullptr;
    from = span.start_ps;  // a measured one may last until other messages of its batch have arrived
    key = {span.peer, span.stage + (is_forward(span) ? 1 : -1), span.micro_batch, is_forward(span)};
  } else if (span.stream != Stream::communication) {
    return nullptr;
  }
  const auto found = phases_.find(key);
  if (found == phases_.end()) return nullptr;
  const auto first = std::ranges::lower_bound(found->second, from, {}, &Span::start_ps);
  return first == found->second.end() ? nullptr : *first;
}

}  // namespace plumbline::reports
