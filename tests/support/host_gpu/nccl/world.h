// The state that the ranks of a communicator share: each lists the bytes that it sends, in the memory of one process.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace plumbline::tests::host_gpu {

// Bytes that one rank sends to another, until the receiver has copied them.
struct Parcel {
  const char* kind = "";  // a receive takes only what was sent for the same kind
  const void* data = nullptr;
  std::size_t bytes = 0;
  bool taken = false;
};

class World {
 public:
  explicit World(int ranks) : ranks_(ranks) {}

  int ranks() const { return ranks_; }
  bool complete() const;
  void come();

  // A rank's state; `left` becomes true when it aborts.
  struct Member {
    int rank = 0;
    bool left = false;
  };
  void leave(Member& member);

  // A rank sends and receives together with others, and returns when all data have arrived, or false if it has left
  // before. Parcels between two ranks are received in the order in which they were sent; one of another kind or size
  // ends the process.
  struct Transfer {
    const char* kind = "";
    int peer = 0;
    const void* from = nullptr;
    void* to = nullptr;  // nullptr for a send
    std::size_t bytes = 0;
  };
  bool all_to_all(Member& member, const std::vector<Transfer>& transfers);

 private:
  using Ends = std::pair<int, int>;  // from, to
  void take(const Parcel& parcel, const Transfer& transfer) const;

  const int ranks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
  std::map<Ends, std::deque<std::shared_ptr<Parcel>>> under_way_;
};

}  // namespace plumbline::tests::host_gpu
