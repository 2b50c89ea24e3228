#include "tests/support/host_gpu/nccl/world.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace plumbline::tests::host_gpu {

bool World::complete() const {
  const std::scoped_lock lock(mutex_);
  return here_ == ranks_;
}

void World::come() {
  const std::scoped_lock lock(mutex_);
  ++here_;
}

void World::leave(Member& member) {
  {
    const std::scoped_lock lock(mutex_);
    member.left = true;
  }
  changed_.notify_all();
}

void World::take(const Parcel& parcel, const Transfer& transfer) const {
  if (std::strcmp(parcel.kind, transfer.kind) != 0 || parcel.bytes != transfer.bytes) {
    std::fprintf(stderr, "host NCCL: rank %d sent %zu bytes (%s), where %zu (%s) are received\n", transfer.peer,
                 parcel.bytes, parcel.kind, transfer.bytes, transfer.kind);
    std::abort();
  }
  if (parcel.bytes > 0) std::memcpy(transfer.to, parcel.data, parcel.bytes);
}

bool World::all_to_all(Member& member, const std::vector<Transfer>& transfers) {
  std::unique_lock lock(mutex_);
  std::vector<std::pair<Ends, std::shared_ptr<Parcel>>> own;
  for (const Transfer& transfer : transfers) {
    if (transfer.to != nullptr) continue;
    const Ends ends{member.rank, transfer.peer};
    own.emplace_back(ends, std::make_shared<Parcel>(Parcel{transfer.kind, transfer.from, transfer.bytes, false}));
    under_way_[ends].push_back(own.back().second);
  }
  changed_.notify_all();
  for (const Transfer& transfer : transfers) {
    if (transfer.to == nullptr) continue;
    auto& arriving = under_way_[{transfer.peer, member.rank}];
    changed_.wait(lock, [&] { return member.left || !arriving.empty(); });
    if (member.left) break;
    take(*arriving.front(), transfer);
    arriving.front()->taken = true;
    arriving.pop_front();
    changed_.notify_all();
  }
  for (const auto& [ends, parcel] : own) {
    changed_.wait(lock, [&, p = parcel.get()] { return member.left || p->taken; });
    if (!parcel->taken) std::erase(under_way_[ends], parcel);  // the sender may use its memory again
  }
  return !member.left;
}

}  // namespace plumbline::tests::host_gpu
