#include "real/bootstrap/detail/tcp_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

// The largest payload of a rank; timelines of a long step are the largest.
constexpr std::uint64_t most_rank_bytes = std::uint64_t{1} << 32;
// The time in which the end of a job is sent to a rank: it may take nothing any more.
constexpr double farewell_s = 5;

// One end of a connection: rank 0 has one to each other rank, the others have one to rank 0.
struct Peer {
  std::int32_t rank;
  std::unique_ptr<Socket> socket;
  std::deque<std::string> inbox;
  bool left = false;
};

class TcpChannel final : public ControlChannel {
 public:
  TcpChannel(std::int32_t rank, std::int32_t ranks, const ChannelOptions& options, Sockets sockets)
      : rank_(rank), ranks_(ranks), wait_(options.wait_s), outlives_(options.outlives_ranks), wake_(::eventfd(0, 0)) {
    for (std::int32_t other = rank > 0 ? 0 : 1; auto& socket : sockets) {
      socket->accept(most_rank_bytes);
      peers_.push_back({other++, std::move(socket), {}, false});
    }
    listener_ = std::thread([this] { listen(); });
  }

  ~TcpChannel() override {
    for (Peer& peer : peers_) peer.socket->send({Frame::Kind::leave, ""}, farewell_s);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
    for (Peer& peer : peers_) peer.socket->shut();
    listener_.join();
    ::close(wake_);
  }

  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return ranks_; }

  model::Result<void> send(std::int32_t rank, const std::string& bytes) override { return send(peer(rank), bytes); }
  model::Result<std::string> receive(std::int32_t rank) override { return receive(peer(rank)); }

  void abort(const std::string& reason) override { end_job(fmt::format("rank {}: {}", rank_, reason), nullptr); }

  std::optional<std::string> failure() const override {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }

 private:
  Peer& peer(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank_ > 0 ? 0 : rank - 1)]; }

  model::Result<void> send(Peer& peer, const std::string& bytes) {
    if (const auto known = failure()) return infeasible(*known);
    if (peer.socket->send({Frame::Kind::data, bytes}, wait_)) return {};
    peer.socket->shut();  // part of the frame may have been sent
    // The peer may have sent a reason before its end, which the listener has still to read.
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, std::chrono::duration<double>(wait_), [&] { return failure_ || peer.left; });
    return infeasible(failure_.value_or(fmt::format("rank {} is gone", peer.rank)));
  }

  model::Result<std::string> receive(Peer& peer) {
    std::unique_lock lock(mutex_);
    const bool answered = came_.wait_for(lock, std::chrono::duration<double>(wait_),
                                         [&] { return !peer.inbox.empty() || failure_ || peer.left; });
    if (!peer.inbox.empty()) {
      std::string bytes = std::move(peer.inbox.front());
      peer.inbox.pop_front();
      return bytes;
    }
    if (failure_) return infeasible(*failure_);
    if (answered) return infeasible(fmt::format("rank {} has ended", peer.rank));
    return infeasible(fmt::format("rank {} has not answered for {:g} s", peer.rank, wait_));
  }

  // Ends the job with the first reason. Other ranks get it before failure() returns it, as this rank may exit then.
  void end_job(const std::string& reason, const Peer* from) {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(ending_, true)) return;
    }
    for (Peer& peer : peers_)
      if (&peer != from) peer.socket->send({Frame::Kind::abort, reason}, farewell_s);
    {
      const std::scoped_lock lock(mutex_);
      failure_ = reason;
    }
    came_.notify_all();
  }

  void listen() {
    std::vector<pollfd> files{{wake_, POLLIN, 0}};
    for (const Peer& peer : peers_) files.push_back({peer.socket->file(), POLLIN, 0});
    // What came with the welcome is read already.
    for (std::size_t i = 1; i < files.size(); ++i)
      if (!take_all(peers_[i - 1], true)) files[i].fd = -1;
    while (true) {
      if (::poll(files.data(), files.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return end_job(fmt::format("rank {} cannot wait for {} ranks: {}", rank_, peers_.size(), std::strerror(errno)),
                       nullptr);
      }
      if (files[0].revents != 0) return;
      for (std::size_t i = 1; i < files.size(); ++i) {
        Peer& peer = peers_[i - 1];
        if (files[i].revents != 0 && !take_all(peer, peer.socket->read())) files[i].fd = -1;  // poll ignores it
      }
    }
  }

  // Takes the frames that have come whole: a rank that stops within one holds up nobody else. Returns false when the
  // peer will send nothing more.
  bool take_all(Peer& peer, bool open) {
    while (auto frame = peer.socket->next())
      if (!take(peer, *frame)) return false;
    if (open && !peer.socket->broken()) return true;
    lose(peer);
    return false;
  }

  // Returns false when it is the last one.
  bool take(Peer& peer, Frame& frame) {
    if (frame.kind == Frame::Kind::data) {
      {
        const std::scoped_lock lock(mutex_);
        peer.inbox.push_back(std::move(frame.bytes));
      }
      came_.notify_all();
      return true;
    }
    if (frame.kind == Frame::Kind::leave)
      end(peer);
    else if (frame.kind == Frame::Kind::abort)
      end_job(frame.bytes, &peer);
    else
      lose(peer);
    return false;
  }

  void lose(Peer& peer) {
    if (outlives_ && rank_ == 0) return end(peer);
    end_job(fmt::format("rank {} ended without a word", peer.rank), &peer);
  }

  void end(Peer& peer) {
    {
      const std::scoped_lock lock(mutex_);
      peer.left = true;
    }
    came_.notify_all();
  }

  std::int32_t rank_, ranks_;
  double wait_;
  bool outlives_;
  std::vector<Peer> peers_;  // of rank 0 in the order of ranks
  int wake_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  bool ending_ = false;
  std::optional<std::string> failure_;
  std::thread listener_;
};

}  // namespace

std::unique_ptr<ControlChannel> make_tcp_channel(std::int32_t rank, std::int32_t ranks, const ChannelOptions& options,
                                                 Sockets sockets) {
  return std::make_unique<TcpChannel>(rank, ranks, options, std::move(sockets));
}

}  // namespace plumbline::real
