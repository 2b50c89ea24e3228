// Messages between pipeline stages: who posts what when, and when each arrives. A GPU sends one
// message at a time and receives one at a time, each at the full rate of its link.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/program.h"
#include "sim/loop.h"

namespace plumbline::sim {

class Messages final : public Handler {
 public:
  // A message of `sender` has arrived at `receiver`; it held their links from start to end, latency follows.
  struct Arrival {
    std::int32_t sender, receiver;
    bool forward;
    std::int32_t micro_batch;
    Time start, end;
  };
  using OnArrival = std::function<void(const Arrival&)>;

  Messages(Loop& loop, std::size_t ranks, Time latency, Time duration, OnArrival on_arrival);

  // A send moves once it is posted and, under rendezvous, its receive is posted too.
  void post_send(std::int32_t rank, const model::Hop& hop, bool rendezvous);
  void post_receive(std::int32_t rank, const model::Hop& hop);
  bool arrived(const model::Hop& hop) const;

  void handle(std::uint32_t code, std::uint64_t argument) override;

 private:
  using Key = std::tuple<bool, std::int32_t, std::int32_t, std::int32_t>;  // forward, direction, stage, micro-batch
  struct Message {
    std::int32_t sender = -1, receiver = -1;
    bool started = false, arrived = false;
    Time start = 0;
  };
  static Key key(const model::Hop& hop) { return {hop.forward, hop.direction, hop.stage, hop.micro_batch}; }
  std::size_t index_of(const model::Hop& hop);
  void start(std::size_t index);

  Loop& loop_;
  Time latency_, duration_;
  OnArrival on_arrival_;
  std::vector<Time> send_free_, receive_free_;  // per rank
  std::map<Key, std::size_t> indices_;
  std::vector<Message> messages_;
  std::vector<Key> keys_;
};

}  // namespace plumbline::sim
