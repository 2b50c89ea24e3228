// Records of running flows, found by their id in constant time. Slots are reused, ids are not, and records never move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "sim/engine/loop.h"

namespace plumbline::sim {

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
