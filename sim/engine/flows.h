// What both event loops keep of flows: their rules and their records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/loop.h"

namespace plumbline::sim {

// Returns the B/s of a flow that is alone on its links: min over crossings of bandwidth / times, and its limit.
double rate_alone(const Flow& flow, const std::vector<topologies::Link>& links);

// Returns why a flow cannot run on these links, or "" when it can. Causes are amounts that are negative, NaN or over
// 1e13 bytes, a limit of 0, more than 1e6 s, an unknown link, and a crossing of 0 times.
std::string find_fault(const Flow& flow, const std::vector<topologies::Link>& links);

// Records of running flows, found by their id in constant time. Slots are reused, ids are not, and records never move.
template <class Record>
class FlowSlots {
 public:
  FlowId add(Record record) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    slots_[index].record = std::move(record);
    slots_[index].live = true;
    return FlowId{(static_cast<std::uint64_t>(slots_[index].generation) << 32) | index};
  }

  // Returns nullptr when the flow has been removed.
  Record* find(FlowId id) {
    Slot& slot = slots_[index_of(id)];
    const bool same = slot.live && slot.generation == static_cast<std::uint64_t>(id) >> 32;
    return same ? &slot.record : nullptr;
  }

  void remove(FlowId id) {
    Slot& slot = slots_[index_of(id)];
    slot.record = Record{};
    slot.live = false;
    ++slot.generation;
    free_.push_back(index_of(id));
  }

  std::size_t live() const { return slots_.size() - free_.size(); }
  template <class Visitor>
  void for_each(const Visitor& visit) {
    for (Slot& slot : slots_)
      if (slot.live) visit(slot.record);
  }

 private:
  struct Slot {
    Record record{};
    std::uint32_t generation = 0;
    bool live = false;
  };
  static std::uint32_t index_of(FlowId id) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(id)); }

  std::deque<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace plumbline::sim
