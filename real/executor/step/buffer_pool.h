// A pool of buffers for tensors that live within a step. Tensors of the same format and shape reuse each other's
// memory, so that the device allocates only during the first step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "real/executor/device.h"

namespace plumbline::real {

class BufferPool {
 public:
  explicit BufferPool(Device& device) : device_(device) {}

  // Returns a buffer for a tensor that `stream` is the first to use. Any stream may reuse a buffer given back in an
  // earlier slot, because slots begin and end together on all streams; within a slot only the stream that used it may.
  BufferPointer take(const model::Tensor& tensor, model::Stream stream) {
    std::vector<Free>& free = free_[look_of(tensor)];
    // The buffer that was given back last comes first, as it may still be in a cache.
    const auto found = std::find_if(free.rbegin(), free.rend(),
                                    [&](const Free& one) { return one.slot < slot_ || one.only_user == stream; });
    if (found == free.rend()) return device_.allocate(tensor);
    Free taken = std::move(*found);
    free.erase(std::next(found).base());
    if (taken.busy_until) device_.wait(stream, *taken.busy_until);
    return std::move(taken.buffer);
  }

  // Takes back the buffer of that tensor. `only_user` is the stream on which all of its kernels were launched; at
  // `busy_until` a message has been sent from it.
  void give_back(const model::Tensor& tensor, BufferPointer buffer, std::optional<model::Stream> only_user,
                 std::optional<Event> busy_until = std::nullopt) {
    free_[look_of(tensor)].push_back({std::move(buffer), slot_, only_user, busy_until});
  }

  // Call it when all streams have been joined.
  void end_slot() { ++slot_; }

 private:
  struct Free {
    BufferPointer buffer;
    std::int64_t slot = 0;
    std::optional<model::Stream> only_user;
    std::optional<Event> busy_until;
  };
  using Look = std::vector<std::int64_t>;  // format, sizes and the extent of each dimension
  static Look look_of(const model::Tensor& tensor) {
    Look look = {static_cast<std::int64_t>(tensor.type)};
    for (const model::Dimension& dimension : tensor.shape) {
      look.push_back(dimension.size);
      look.push_back(static_cast<std::int64_t>(dimension.extent));
    }
    return look;
  }

  Device& device_;
  std::int64_t slot_ = 0;
  std::map<Look, std::vector<Free>> free_;
};

}  // namespace plumbline::real
