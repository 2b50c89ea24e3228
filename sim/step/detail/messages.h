// Messages between pipeline stages: when each is posted and when it arrives. A GPU sends one message at a time and
// receives one at a time. Messages that wait for a GPU start in the order in which they became ready.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/program/program.h"
#include "sim/engine/loop.h"
#include "sim/network/step_links.h"

namespace plumbline::sim {

class Messages final : public Handler {
 public:
  // A message of `sender` has arrived at `receiver`. It held their links from start to end; latency follows.
  struct Arrival {
    std::int32_t sender, receiver;
    bool forward;
    std::int32_t micro_batch;
    Time start, end;
  };
  using OnArrival = std::function<void(const Arrival&)>;

  struct Wire {  // properties of every message
    double bytes = 0;
    double rate = unlimited;           // B/s of a message alone
    const StepLinks* links = nullptr;  // crossed by messages; nullptr: each takes bytes / rate
  };

  Messages(Loop& loop, std::size_t ranks, Time latency, const Wire& wire, OnArrival on_arrival);

  // A send starts once it is posted and, under rendezvous, its receive is posted too.
  void post_send(std::int32_t rank, const model::Transfer& transfer, bool rendezvous);
  void post_receive(std::int32_t rank, const model::Transfer& transfer);
  bool arrived(const model::Transfer& transfer) const;

  void handle(std::uint32_t code, std::uint64_t argument) override;

 private:
  using Key = std::tuple<bool, std::int32_t, std::int32_t, std::int32_t>;  // forward, direction, stage, micro-batch
  struct Message {
    std::int32_t sender = -1, receiver = -1;
    bool waiting = false, arrived = false;
    Time start = 0, end = 0;
  };
  static Key key(const model::Transfer& transfer) {
    return {transfer.forward, transfer.direction, transfer.stage, transfer.micro_batch};
  }
  std::size_t index_of(const model::Transfer& transfer);
  void queue(std::size_t index);
  void start_waiting();
  void start(Message& message, std::size_t index);

  Loop& loop_;
  Time latency_;
  Wire wire_;
  OnArrival on_arrival_;
  std::vector<bool> sending_, receiving_;  // per rank
  std::vector<std::size_t> waiting_;       // in order
  std::map<Key, std::size_t> indices_;
  std::vector<Message> messages_;
  std::vector<Key> keys_;
};

}  // namespace plumbline::sim
