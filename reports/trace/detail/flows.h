// The arrows of a trace: from messages between stages, and from dispatch and combine, to the compute that waits for
// them. It is the first phase of the same micro-batch, stage and direction that begins after a message has begun, or
// after dispatch or combine has ended.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::reports {

class Flows {
 public:
  explicit Flows(const model::Timeline& timeline);  // must outlive the object

  // Returns the phase at the head of the arrow from a span, or nullptr where the span has none.
  const model::Span* head(const model::Span& span) const;

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>;  // rank, stage, micro-batch, forward
  std::map<Key, std::vector<const model::Span*>> phases_;                  // by start
};

}  // namespace plumbline::reports
