// What carries data between ranks: the other half of the machine that the executor sees. Every call is launched on a
// stream of the rank's device and runs there in order, like a kernel; its record carries the given label.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "real/executor/device.h"

namespace plumbline::real {

// World ranks that act together, in the order in which pieces are counted, and this rank's position among them.
struct Group {
  std::vector<std::int32_t> ranks;
  std::int32_t position = 0;
  std::int32_t size() const { return static_cast<std::int32_t>(ranks.size()); }
};

struct Message {
  bool send = false;  // else receive
  std::int32_t peer = 0;
  std::int32_t tag = 0;  // messages between two ranks with equal tags arrive in order
  Buffer* buffer = nullptr;
  // Kind of message, below message_channels: between two ranks, those of one lane are received as they are sent.
  std::int32_t channel = 0;
};
constexpr std::int32_t message_channels = 4;  // activations and gradients, in up to two directions

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t ranks() const = 0;
  // By which ways data goes, for people; empty: there is nothing to tell.
  virtual std::string transports() const { return ""; }

  // Posts all messages together and ends when all received ones are there. Sends never wait for their receiver,
  // but with `rendezvous` the whole ends only when the receiver of each send has posted its receive.
  virtual void send_receive(model::Stream stream, std::span<const Message> messages, bool rendezvous,
                            std::uint32_t label) = 0;

  // An operator of the graph between ranks (model/graph/operators.def: collectives, dispatch, combine and their
  // gradients), on the kernel's reads and writes. Every rank of the group calls it in the same order on the same
  // stream. Sums add the ranks' parts in the group's order, so that every rank has the same bits. Reads and writes may
  // be the same buffer in all_reduce.
  virtual void launch(model::Stream stream, const Group& group, const Kernel& kernel) = 0;

  // Outside of streams, on the calling thread, all streams idle: sums over all ranks (same order everywhere), and
  // rank 0's text on every rank. Used between steps.
  virtual model::Result<std::vector<double>> sum(std::vector<double> values) = 0;
  virtual model::Result<std::vector<std::string>> gather(const std::string& text) = 0;  // rank 0: all ranks', in order
  // Ends the job on all ranks, with a message that names this one.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace plumbline::real
