// A transport for ranks that are threads of one process: send() moves a packet into the receiver's mailbox.
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "real/host/comm/transport.h"

namespace plumbline::real::host {
namespace {

// The packets that have been sent to one rank and not yet received.
struct Mailbox {
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // from, channel, number
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<Key, std::deque<Packet>> packets;
  std::string failure;  // why the job has ended; empty while it goes on
};

class World {
 public:
  explicit World(std::int32_t ranks) : mailboxes_(static_cast<std::size_t>(ranks)) {}

  std::int32_t ranks() const { return static_cast<std::int32_t>(mailboxes_.size()); }
  Mailbox& mailbox(std::int32_t rank) { return mailboxes_.at(static_cast<std::size_t>(rank)); }

  // Ends the job on all ranks with the first failure.
  void fail(const std::string& reason) {
    const std::scoped_lock once(failing_);
    for (Mailbox& mailbox : mailboxes_) {
      {
        const std::scoped_lock lock(mailbox.mutex);
        if (mailbox.failure.empty()) mailbox.failure = reason;
      }
      mailbox.arrived.notify_all();
    }
  }

 private:
  std::deque<Mailbox> mailboxes_;
  std::mutex failing_;
};

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<World> world, std::int32_t rank) : world_(std::move(world)), rank_(rank) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return world_->ranks(); }

  void send(std::int32_t to, Tag tag, Packet packet) override {
    Mailbox& mailbox = world_->mailbox(to);
    {
      const std::scoped_lock lock(mailbox.mutex);
      if (!mailbox.failure.empty()) throw RankFailure(mailbox.failure);
      mailbox.packets[{rank_, tag.channel, tag.number}].push_back(std::move(packet));
    }
    mailbox.arrived.notify_all();
  }

  Packet receive(std::int32_t from, Tag tag) override {
    Mailbox& mailbox = world_->mailbox(rank_);
    const Mailbox::Key key{from, tag.channel, tag.number};
    std::unique_lock lock(mailbox.mutex);
    mailbox.arrived.wait(lock, [&] { return !mailbox.failure.empty() || mailbox.packets.contains(key); });
    if (!mailbox.failure.empty()) throw RankFailure(mailbox.failure);
    const auto waiting = mailbox.packets.find(key);
    Packet packet = std::move(waiting->second.front());
    waiting->second.pop_front();
    if (waiting->second.empty()) mailbox.packets.erase(waiting);  // otherwise the map would grow with every tag
    return packet;
  }

  void abort(const std::string& reason) override { world_->fail("rank " + std::to_string(rank_) + ": " + reason); }

 private:
  std::shared_ptr<World> world_;
  std::int32_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> in_process_transports(std::int32_t ranks) {
  const auto world = std::make_shared<World>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<InProcessTransport>(world, rank));
  return transports;
}

}  // namespace plumbline::real::host
