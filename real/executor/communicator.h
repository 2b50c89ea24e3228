// The executor's interface to communication between ranks; real/executor/device.h is its interface to computation.
// Every call is launched on a stream of the rank's device and runs there in order, like a kernel; its record has the
// given label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "real/executor/device.h"

namespace plumbline::real {

// The world ranks of a collective, in the order of its pieces, and this rank's position among them.
struct Group {
  std::vector<std::int32_t> ranks;
  std::int32_t position = 0;
  std::int32_t size() const { return static_cast<std::int32_t>(ranks.size()); }
};
// Returns the group of ranks 0 .. n - 1 for `rank`.
inline Group all_ranks(std::int32_t n, std::int32_t rank) {
  Group group{std::vector<std::int32_t>(static_cast<std::size_t>(n)), rank};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

struct Message {
  bool send = false;  // else receive
  std::int32_t peer = 0;
  std::int32_t tag = 0;  // messages between two ranks with equal tags arrive in order
  Buffer* buffer = nullptr;
  // Kind of message, below message_channels: messages of one channel between two ranks are received in sending order.
  std::int32_t channel = 0;
};
constexpr std::int32_t message_channels = 4;  // activations and gradients, in up to two directions

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t ranks() const = 0;
  // Describes for people which transports are used; empty where there is nothing to report.
  virtual std::string transports() const { return ""; }

  // Posts all messages together and ends when all receives are complete. Sends never wait for their receiver, but with
  // `rendezvous` the call also ends only after the receiver of each send has posted its receive.
  virtual void send_receive(model::Stream stream, std::span<const Message> messages, bool rendezvous,
                            std::uint32_t label) = 0;

  // Launches an operator between ranks (model/graph/operators.def: collectives, dispatch, combine and their gradients)
  // on the kernel's reads and writes. Every rank of the group calls it in the same order on the same stream. Sums add
  // the ranks' parts in the group's order, so that every rank has the same bits. all_reduce may work in place.
  virtual void launch(model::Stream stream, const Group& group, const Kernel& kernel) = 0;

  // sum() and gather() run between steps on the calling thread, with all streams idle. sum() returns sums over all
  // ranks, added in the same order everywhere; gather() returns the texts of all ranks on rank 0, in order.
  virtual model::Result<std::vector<double>> sum(std::vector<double> values) = 0;
  virtual model::Result<std::vector<std::string>> gather(const std::string& text) = 0;
  // Ends the job on all ranks, with a message that names this rank.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace plumbline::real
