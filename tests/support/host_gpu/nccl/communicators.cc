#include "tests/support/host_gpu/nccl/communicators.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace plumbline::tests::host_gpu {
namespace {

struct Registry {
  std::mutex mutex;
  int last_id = 0;
  std::map<int, std::shared_ptr<World>> open;  // worlds that not all ranks have joined, by id
  std::set<std::shared_ptr<End>> ends;
};

Registry& registry() {
  static Registry registry;
  return registry;
}

}  // namespace

ncclUniqueId next_id() {
  const std::scoped_lock lock(registry().mutex);
  const int number = ++registry().last_id;
  ncclUniqueId id{};
  std::memcpy(id.internal, &number, sizeof number);
  return id;
}

std::shared_ptr<End> join(const ncclUniqueId& id, int ranks, int rank) {
  int number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const std::scoped_lock lock(registry().mutex);
  std::shared_ptr<World>& world = registry().open[number];
  if (world == nullptr) world = std::make_shared<World>(ranks);
  auto end = std::make_shared<End>();
  end->world = world;
  end->member.rank = rank;
  cudaGetDevice(&end->device);
  world->come();
  if (world->complete()) registry().open.erase(number);
  registry().ends.insert(end);
  return end;
}

void leave(const std::shared_ptr<End>& end) {
  {
    const std::scoped_lock lock(registry().mutex);
    registry().ends.erase(end);
  }
  end->world->leave(end->member);
}

void lose_peer_of(int device) {
  const std::scoped_lock lock(registry().mutex);
  for (const auto& end : registry().ends)
    if (end->device == device) end->error = ncclRemoteError;
}

}  // namespace plumbline::tests::host_gpu
