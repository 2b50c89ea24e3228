// What is computed once for segments that are alike: slots share those of equal layers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "model/program/program.h"

namespace plumbline::sim {

// `Value` may depend on a segment's block, operators, stream and share.
template <class Value>
class SegmentMemo {
 public:
  // Returns the value of the segment, computed by make() on first use; it stays there as long as the memo. A linear
  // search suffices: a block has few distinct segments, and most differ in their first operator.
  template <class Make>
  Value& find(const model::Segment& segment, const Make& make) {
    if (known_.size() <= segment.block) known_.resize(segment.block + std::size_t{1});
    std::deque<Known>& known = known_[segment.block];
    const auto found = std::ranges::find_if(known, [&](const Known& one) {
      return one.stream == segment.stream && one.share == segment.share && one.ends == segment.ends &&
             one.operators == segment.operators;
    });
    if (found != known.end()) return found->value;
    known.push_back({segment.stream, segment.share, segment.ends, segment.operators, make()});
    return known.back().value;
  }

 private:
  struct Known {
    model::Stream stream;
    double share;
    bool ends;
    std::vector<std::uint16_t> operators;
    Value value;
  };
  std::deque<std::deque<Known>> known_;  // [block]; values stay where they are when it grows
};

}  // namespace plumbline::sim
