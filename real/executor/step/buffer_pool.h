// Memory of tensors that live within a step, used again by others that look the same: as much is taken from the device
// as one step holds at its fullest, and none after it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "real/executor/device.h"

namespace plumbline::real {

class BufferPool {
 public:
  explicit BufferPool(Device& device) : device_(device) {}

  // For a tensor that `stream` is the first to use. What came back in an earlier slot is free for every stream, because
  // slots begin and end together; within a slot a stream may only follow itself.
  BufferPointer take(const model::Tensor& tensor, model::Stream stream);
  // Of that tensor. `only_user`: the stream on which all of its kernels were launched. `busy_until`: when a message
  // with it has left.
  void give_back(const model::Tensor& tensor, BufferPointer buffer, std::optional<model::Stream> only_user,
                 std::optional<Event> busy_until = std::nullopt);
  // All streams have been joined.
  void end_slot() { ++slot_; }

 private:
  struct Free {
    BufferPointer buffer;
    std::int64_t slot = 0;
    std::optional<model::Stream> only_user;
    std::optional<Event> busy_until;
  };
  using Look = std::vector<std::int64_t>;  // format, sizes and what decides them
  static Look look_of(const model::Tensor& tensor);

  Device& device_;
  std::int64_t slot_ = 0;
  std::map<Look, std::vector<Free>> free_;
};

}  // namespace plumbline::real
