// Transfers bytes between ranks, which are threads of one process or processes under MPI. Messages between stages,
// collectives and the all-to-all use this interface alone, so that all transports give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::real::host {

struct Packet {
  std::vector<std::byte> bytes;
  double time = 0;  // seconds on the sending stream's clock when it was sent
};

// Thrown when another rank has failed or this one cannot continue. Streams catch it; it never leaves real/host.
class RankFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Identifies a sequence of packets between two ranks, which arrive in sending order. Each stream has its own channels.
struct Tag {
  std::int32_t channel = 0;  // below tag_channels
  std::int32_t number = 0;   // below tag_numbers
};
constexpr std::int32_t tag_channels = 32, tag_numbers = 1 << 20;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t ranks() const = 0;
  // send() takes the packet and never waits; receive() waits for the next packet of that rank and tag. Any thread of
  // the rank may call them, but only one at a time may receive packets of the same rank and tag. Both throw RankFailure
  // once the job has failed.
  virtual void send(std::int32_t to, Tag tag, Packet packet) = 0;
  virtual Packet receive(std::int32_t from, Tag tag) = 0;
  // Ends the job: every other rank's waiting and later calls throw RankFailure with the reason (threads), or the
  // processes end with it on stderr (MPI).
  virtual void abort(const std::string& reason) = 0;
};

// Returns one transport per rank; the ranks are threads of this process.
std::vector<std::unique_ptr<Transport>> in_process_transports(std::int32_t ranks);

}  // namespace plumbline::real::host
