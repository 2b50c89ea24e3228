// Sends and receives of one rank within a group, for a collective or all-to-all: members are addressed by position, on
// one channel, and the receiver's clock advances to the sender's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "real/executor/communicator.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"
#include "real/host/pool.h"

namespace plumbline::real::host {

// The rounds of packets of an operation. Each has its own tag, because a rank may begin the next operation while
// another one still waits for the results of this one.
enum class Round : std::int32_t { parts, results };

class Members {
 public:
  Members(Transport& transport, Group group, std::int32_t channel)
      : transport_(&transport), group_(std::move(group)), channel_(channel) {}

  std::size_t size() const { return group_.ranks.size(); }
  std::size_t position() const { return static_cast<std::size_t>(group_.position); }
  // Returns the member `distance` positions after this one. Distances 1 .. size() - 1 give all others, in an order that
  // begins differently on every member, which spreads the load.
  std::size_t other(std::size_t distance) const { return (position() + distance) % size(); }

  void send(std::size_t to, Round round, std::vector<std::byte> bytes, StreamClock& clock) const {
    transport_->send(group_.ranks[to], tag(round), {std::move(bytes), clock.now()});
  }
  std::vector<std::byte> receive(std::size_t from, Round round, StreamClock& clock) const {
    Packet packet = transport_->receive(group_.ranks[from], tag(round));
    clock.advance_to(packet.time);
    return std::move(packet.bytes);
  }

 private:
  Tag tag(Round round) const { return {channel_, static_cast<std::int32_t>(round)}; }

  Transport* transport_;
  Group group_;
  std::int32_t channel_;
};

inline HostBuffer& in(const Kernel& kernel, std::size_t i) { return static_cast<HostBuffer&>(*kernel.reads[i]); }
inline HostBuffer& out(const Kernel& kernel, std::size_t i) { return static_cast<HostBuffer&>(*kernel.writes[i]); }

// Returns the work of a stream for an operator between ranks, by direct messages between all members; the kernel's
// buffers must outlive it. Sums are added in FP32 in the group's order by one rank, and rounded once to the output's
// format. Throws RankFailure for sizes that do not match, and for a combine or gradient without an earlier dispatch.
//
// Collectives see a tensor as a flat array of elements. all_reduce: input and output have the same size and may be the
// same buffer; parts need not be equal. all_gather: pieces may have any sizes. dispatch sends a token to a rank once,
// even if several experts there are chosen, and stores the dispatch layout with the indices.
#define OPERATOR(...)
#define ALL_TO_ALL_OPERATOR(kind, ...) StreamWork kind(const Members& members, const Kernel& kernel);
#define COLLECTIVE_OPERATOR(kind, ...) ALL_TO_ALL_OPERATOR(kind)
#include "model/graph/operators.def"

}  // namespace plumbline::real::host
