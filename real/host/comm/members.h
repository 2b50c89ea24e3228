// The ranks of a group as one of them talks to the others within a collective or an exchange: by position, on one
// channel, with clocks that follow what arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "real/executor/communicator.h"
#include "real/host/buffer.h"
#include "real/host/clock.h"
#include "real/host/comm/transport.h"
#include "real/host/stream_work.h"

namespace plumbline::real::host {

// What packets of an operation hold. Each has a tag of its own: a rank may begin the next operation while another one
// still waits for the results of this one.
enum class Round : std::int32_t { parts, results };

class Members {
 public:
  Members(Transport& transport, Group group, std::int32_t channel)
      : transport_(&transport), group_(std::move(group)), channel_(channel) {}

  std::size_t size() const { return group_.ranks.size(); }
  std::size_t position() const { return static_cast<std::size_t>(group_.position); }
  // The member that stands `distance` places behind this one; 1 .. size() - 1 are all others, and every member begins
  // with another one.
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

// What a stream runs for an operator between ranks, by direct messages between all members; the kernel's buffers must
// outlive it. Sums are added in FP32 in the group's order, by one rank for all, and rounded once to the format of what
// is written. RankFailure is thrown for sizes that do not fit, and where an exchange has no dispatch before it.
//
// Collectives take tensors as their elements one after the other. all_reduce: both have the same size and may be the
// same buffer; parts need not be equal. all_gather: pieces may have any sizes. An exchange sends a token to a rank
// once; dispatch leaves with the indices who sent what.
#define OPERATOR(...)
#define ALL_TO_ALL_OPERATOR(kind, ...) StreamWork kind(const Members& members, const Kernel& kernel);
#define COLLECTIVE_OPERATOR(kind, ...) ALL_TO_ALL_OPERATOR(kind)
#include "model/graph/operators.def"

}  // namespace plumbline::real::host
