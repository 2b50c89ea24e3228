// What each launched kernel or message was, by the label that its record carries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/result/timeline.h"
#include "real/executor/device.h"

namespace plumbline::real {

struct Label {
  std::int32_t slot = -1;     // of the rank's program; -1: outside of slots
  std::int32_t segment = -1;  // of the slot's template; -1: a message, or outside of slots
  std::string name;           // of the operator; "send activation", "reduce gradients", ...
  std::int32_t micro_batch = -1;
  std::string_view breakdown = {};  // its class of operators, where it is a kernel of a slot
};

class LabelBook {
 public:
  std::uint32_t add(Label label) {
    labels_.push_back(std::move(label));
    return static_cast<std::uint32_t>(labels_.size() - 1);
  }
  const Label& operator[](std::uint32_t index) const { return labels_[index]; }
  void clear() { labels_.clear(); }

 private:
  std::vector<Label> labels_;
};

}  // namespace plumbline::real
