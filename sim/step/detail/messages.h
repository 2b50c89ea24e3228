// Messages between pipeline stages: when each is posted and when it arrives. A GPU sends one message at a time and
// receives one at a time. Messages that wait for a GPU start in the order in which they became ready. A transfer names
// pipeline ranks; its message is between the GPUs of one replica (sim/step/fleet.h).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "model/program/program.h"
#include "sim/engine/loop.h"
#include "sim/network/step_links.h"

namespace plumbline::sim {

class Messages final : public Handler {
 public:
  // A message of GPU `sender` has arrived at `receiver`. It held their links from start to end; latency follows.
  struct Arrival {
    std::int32_t sender, receiver;
    bool forward;
    std::int32_t direction, stage, micro_batch;
    Time start, end;
  };
  using OnArrival = std::function<void(const Arrival&)>;

  struct Wire {  // properties of every message
    double bytes = 0;
    double rate = unlimited;           // B/s of a message alone
    const StepLinks* links = nullptr;  // crossed by messages; nullptr: each takes bytes / rate
  };

  Messages(Loop& loop, const model::Schedule& schedule, std::int64_t replicas, Time latency, const Wire& wire,
           OnArrival on_arrival);

  // A send starts once it is posted and, under rendezvous, its receive is posted too.
  void post_send(std::int32_t gpu, const model::Transfer& transfer, bool rendezvous);
  void post_receive(std::int32_t gpu, const model::Transfer& transfer);
  bool arrived(std::int32_t gpu, const model::Transfer& transfer) const {  // one that the GPU sends or receives
    return arrived_[index_of(gpu, transfer)] != 0;
  }

  void handle(std::uint32_t code, std::uint64_t argument) override;

 private:
  struct Message {
    std::int32_t sender = -1, receiver = -1;
    bool waiting = false;
    Time start = 0, end = 0;
  };
  // Messages that wait for a GPU, each with its place in the order in which they became ready.
  using Waiting = std::vector<std::pair<std::uint64_t, std::size_t>>;
  struct Port {  // of a GPU, in one direction
    bool busy = false;
    Waiting waiting;
  };
  std::size_t index_of(std::int32_t gpu, const model::Transfer& transfer) const;
  void queue(std::size_t index);
  void start_waiting(const Message& ended);
  bool start(std::size_t index);

  Loop& loop_;
  std::int32_t replicas_, directions_, stages_, micro_batches_;
  Time latency_;
  Wire wire_;
  OnArrival on_arrival_;
  std::vector<Port> sending_, receiving_;  // [gpu]
  std::uint64_t ready_ = 0;                // messages so far
  Waiting candidates_;
  std::vector<Message> messages_;  // [replica][forward][direction][stage][micro-batch]
  std::vector<char> arrived_;      // the same; apart, because every start of a slot asks for it
};

}  // namespace plumbline::sim
