#include "tests/support/real/transport_contract.h"

#include <cstddef>

namespace plumbline::tests {
namespace {

// Returns bytes that identify their sender, receiver and number.
real::host::Packet stamped(std::size_t size, std::int32_t from, std::int32_t to, std::int32_t number) {
  real::host::Packet packet;
  packet.time = 0.5 + number;
  packet.bytes.resize(size);
  for (std::size_t i = 0; i < size; ++i)
    packet.bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(31 * from + 7 * to + number) + i);
  return packet;
}

class Checker {
 public:
  explicit Checker(real::host::Transport& transport)
      : transport_(transport), rank_(transport.rank()), ranks_(transport.ranks()) {}

  std::string result() const { return wrong_; }

  // Every rank sends to every other before any receives: sends do not wait, whatever their size.
  void all_send_first(std::size_t size, std::int32_t number) {
    for (std::int32_t to = 0; to < ranks_; ++to)
      if (to != rank_) transport_.send(to, {1, number}, stamped(size, rank_, to, number));
    for (std::int32_t from = 0; from < ranks_; ++from)
      if (from != rank_) expect(from, {1, number}, size, number);
  }

  // Checks that many packets of one tag keep their order.
  void keeps_order(std::int32_t packets) {
    const std::int32_t next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
    for (std::int32_t i = 0; i < packets; ++i)
      transport_.send(next, {2, 0}, stamped(static_cast<std::size_t>(1 + i % 3), rank_, next, i));
    for (std::int32_t i = 0; i < packets; ++i) expect(before, {2, 0}, static_cast<std::size_t>(1 + i % 3), i);
  }

  // Checks that channels and numbers are separate: the packet that was sent last can be received first.
  void tells_tags_apart() {
    const std::int32_t next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
    const real::host::Tag tags[] = {{0, 0}, {0, 1}, {1, 0}, {real::host::tag_channels - 1, 0}, {3, 12345}};
    for (std::int32_t i = 0; i < 5; ++i) transport_.send(next, tags[i], stamped(8, rank_, next, i));
    for (std::int32_t i = 4; i >= 0; --i) expect(before, tags[i], 8, i);
  }

 private:
  void expect(std::int32_t from, real::host::Tag tag, std::size_t size, std::int32_t number) {
    const real::host::Packet packet = transport_.receive(from, tag);
    const real::host::Packet right = stamped(size, from, rank_, number);
    if (!wrong_.empty()) return;
    const std::string which = "packet " + std::to_string(number) + " from rank " + std::to_string(from) + ", channel " +
                              std::to_string(tag.channel) + ": ";
    if (packet.bytes.size() != size)
      wrong_ = which + std::to_string(packet.bytes.size()) + " bytes, not " + std::to_string(size);
    else if (packet.bytes != right.bytes)
      wrong_ = which + "other bytes than were sent";
    else if (packet.time != right.time)
      wrong_ = which + "time " + std::to_string(packet.time) + ", not " + std::to_string(right.time);
  }

  real::host::Transport& transport_;
  std::int32_t rank_, ranks_;
  std::string wrong_;
};

}  // namespace

std::string check_transport(real::host::Transport& transport) {
  Checker checker(transport);
  if (transport.ranks() == 1) return "";
  checker.all_send_first(0, 0);
  checker.all_send_first(1, 1);
  checker.all_send_first(std::size_t{1} << 12, 2);
  checker.all_send_first(std::size_t{10} << 20, 3);  // larger than any packet that MPI sends before its receive
  checker.keeps_order(100);
  checker.tells_tags_apart();
  return checker.result();
}

}  // namespace plumbline::tests
