#include "real/bootstrap/tcp_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace plumbline::real {

namespace {

using model::Result;

// One end of a connection: of rank 0 to each of the others, of these to rank 0.
struct Peer {
  std::int32_t rank;
  std::unique_ptr<Socket> socket;
  std::deque<std::string> inbox;
  bool left = false;
};

class TcpChannel final : public ControlChannel {
 public:
  TcpChannel(std::int32_t rank, std::int32_t ranks, double wait_s, Sockets sockets)
      : rank_(rank), ranks_(ranks), wait_(wait_s), wake_(::eventfd(0, 0)) {
    for (std::int32_t other = rank > 0 ? 0 : 1; auto& socket : sockets)
      peers_.push_back({other++, std::move(socket), {}, false});
    listener_ = std::thread([this] { listen(); });
  }

  ~TcpChannel() override {
    for (Peer& peer : peers_) peer.socket->send({Frame::Kind::leave, ""});
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
    for (Peer& peer : peers_) peer.socket->shut();
    listener_.join();
    ::close(wake_);
  }

  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return ranks_; }

  Result<std::vector<std::string>> gather(const std::string& bytes) override {
    if (rank_ > 0) {
      if (auto sent = send(peers_[0], bytes); !sent) return tl::unexpected(sent.error());
      return std::vector<std::string>{};
    }
    std::vector<std::string> all{bytes};
    for (Peer& peer : peers_) {
      auto own = receive(peer);
      if (!own) return tl::unexpected(own.error());
      all.push_back(std::move(*own));
    }
    return all;
  }

  Result<std::string> broadcast(const std::string& bytes) override {
    if (rank_ > 0) return receive(peers_[0]);
    for (Peer& peer : peers_)
      if (auto sent = send(peer, bytes); !sent) return tl::unexpected(sent.error());
    return bytes;
  }

  void abort(const std::string& reason) override { end_job(fmt::format("rank {}: {}", rank_, reason), nullptr); }

  std::optional<std::string> failure() const override {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }

 private:
  Result<void> send(Peer& peer, const std::string& bytes) {
    if (const auto known = failure()) return tl::unexpected(job_error(*known));
    if (peer.socket->send({Frame::Kind::data, bytes})) return {};
    return tl::unexpected(job_error(failure().value_or(fmt::format("rank {} is gone", peer.rank))));
  }

  Result<std::string> receive(Peer& peer) {
    std::unique_lock lock(mutex_);
    const bool answered = came_.wait_for(lock, std::chrono::duration<double>(wait_),
                                         [&] { return !peer.inbox.empty() || failure_ || peer.left; });
    if (!peer.inbox.empty()) {
      std::string bytes = std::move(peer.inbox.front());
      peer.inbox.pop_front();
      return bytes;
    }
    if (failure_) return tl::unexpected(job_error(*failure_));
    if (answered) return tl::unexpected(job_error(fmt::format("rank {} has ended", peer.rank)));
    return tl::unexpected(job_error(fmt::format("rank {} has not answered for {:g} s", peer.rank, wait_)));
  }

  // What is known first is what all are told: the others before this rank, which may leave as soon as it knows.
  void end_job(const std::string& reason, const Peer* from) {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(ending_, true)) return;
    }
    for (Peer& peer : peers_)
      if (&peer != from) peer.socket->send({Frame::Kind::abort, reason});
    {
      const std::scoped_lock lock(mutex_);
      failure_ = reason;
    }
    came_.notify_all();
  }

  void listen() {
    std::vector<pollfd> files{{wake_, POLLIN, 0}};
    for (const Peer& peer : peers_) files.push_back({peer.socket->file(), POLLIN, 0});
    while (true) {
      if (::poll(files.data(), files.size(), -1) < 0) continue;
      if (files[0].revents != 0) return;
      for (std::size_t i = 1; i < files.size(); ++i)
        if (files[i].revents != 0 && !take(peers_[i - 1])) files[i].fd = -1;  // poll passes it over
    }
  }

  // False: nothing more comes from there.
  bool take(Peer& peer) {
    auto frame = peer.socket->receive();
    if (frame && frame->kind == Frame::Kind::data) {
      {
        const std::scoped_lock lock(mutex_);
        peer.inbox.push_back(std::move(frame->bytes));
      }
      came_.notify_all();
      return true;
    }
    if (frame && frame->kind == Frame::Kind::leave) {
      {
        const std::scoped_lock lock(mutex_);
        peer.left = true;
      }
      came_.notify_all();
      return false;
    }
    const bool told = frame && frame->kind == Frame::Kind::abort;
    end_job(told ? frame->bytes : fmt::format("rank {} ended without a word", peer.rank), &peer);
    return false;
  }

  std::int32_t rank_, ranks_;
  double wait_;
  std::vector<Peer> peers_;  // of rank 0 in the order of ranks
  int wake_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  bool ending_ = false;
  std::optional<std::string> failure_;
  std::thread listener_;
};

}  // namespace

model::Error job_error(std::string message, std::string hint) {
  return {model::ErrorKind::infeasible, std::move(message), "", 0, "", std::move(hint)};
}

std::unique_ptr<ControlChannel> make_tcp_channel(std::int32_t rank, std::int32_t ranks, double wait_s,
                                                 Sockets sockets) {
  return std::make_unique<TcpChannel>(rank, ranks, wait_s, std::move(sockets));
}

}  // namespace plumbline::real
