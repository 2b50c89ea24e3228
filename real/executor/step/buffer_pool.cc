#include "real/executor/step/buffer_pool.h"

#include <algorithm>
#include <utility>

namespace plumbline::real {

BufferPool::Look BufferPool::look_of(const model::Tensor& tensor) {
  Look look = {static_cast<std::int64_t>(tensor.type)};
  for (const model::Dimension& dimension : tensor.shape) {
    look.push_back(dimension.size);
    look.push_back(static_cast<std::int64_t>(dimension.extent));
  }
  return look;
}

BufferPointer BufferPool::take(const model::Tensor& tensor, model::Stream stream) {
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

void BufferPool::give_back(const model::Tensor& tensor, BufferPointer buffer, std::optional<model::Stream> only_user,
                           std::optional<Event> busy_until) {
  free_[look_of(tensor)].push_back({std::move(buffer), slot_, only_user, busy_until});
}

}  // namespace plumbline::real
