#include "real/cuda/tcp_channel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "real/cuda/socket.h"

namespace plumbline::real::cuda {

namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

Error failed(std::string message, std::string hint = "") {
  return {ErrorKind::infeasible, std::move(message), "", 0, "", std::move(hint)};
}

// One end of a connection: of rank 0 to each of the others, of these to rank 0.
struct Peer {
  Peer(std::int32_t name, int file) : rank(name), socket(file) {}

  std::int32_t rank;
  Socket socket;
  std::deque<std::string> inbox;
  bool left = false;
};
using Peers = std::vector<std::unique_ptr<Peer>>;  // rank 0's in the order of ranks

class TcpChannel final : public ControlChannel {
 public:
  TcpChannel(const Bootstrap& bootstrap, double wait_s, Peers peers)
      : rank_(bootstrap.rank),
        ranks_(bootstrap.ranks),
        wait_(wait_s),
        peers_(std::move(peers)),
        wake_(::eventfd(0, 0)) {
    listener_ = std::thread([this] { listen(); });
  }

  ~TcpChannel() override {
    for (const auto& peer : peers_) peer->socket.send({Frame::Kind::leave, ""});
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
    for (const auto& peer : peers_) peer->socket.shut();
    listener_.join();
    ::close(wake_);
  }

  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return ranks_; }

  Result<std::vector<std::string>> gather(const std::string& bytes) override {
    if (rank_ > 0) {
      if (auto sent = send(*peers_[0], bytes); !sent) return tl::unexpected(sent.error());
      return std::vector<std::string>{};
    }
    std::vector<std::string> all{bytes};
    for (const auto& peer : peers_) {
      auto own = receive(*peer);
      if (!own) return tl::unexpected(own.error());
      all.push_back(std::move(*own));
    }
    return all;
  }

  Result<std::string> broadcast(const std::string& bytes) override {
    if (rank_ > 0) return receive(*peers_[0]);
    for (const auto& peer : peers_)
      if (auto sent = send(*peer, bytes); !sent) return tl::unexpected(sent.error());
    return bytes;
  }

  void abort(const std::string& reason) override { end_job(fmt::format("rank {}: {}", rank_, reason), nullptr); }

  std::optional<std::string> failure() const override {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }

 private:
  Result<void> send(Peer& peer, const std::string& bytes) {
    if (const auto known = failure()) return tl::unexpected(failed(*known));
    if (peer.socket.send({Frame::Kind::data, bytes})) return {};
    return tl::unexpected(failed(failure().value_or(fmt::format("rank {} is gone", peer.rank))));
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
    if (failure_) return tl::unexpected(failed(*failure_));
    if (answered) return tl::unexpected(failed(fmt::format("rank {} has ended", peer.rank)));
    return tl::unexpected(failed(fmt::format("rank {} has not answered for {:g} s", peer.rank, wait_)));
  }

  // What is known first is what all are told: the others before this rank, which may leave as soon as it knows.
  void end_job(const std::string& reason, const Peer* from) {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(ending_, true)) return;
    }
    for (const auto& peer : peers_)
      if (peer.get() != from) peer->socket.send({Frame::Kind::abort, reason});
    {
      const std::scoped_lock lock(mutex_);
      failure_ = reason;
    }
    came_.notify_all();
  }

  void listen() {
    std::vector<pollfd> files{{wake_, POLLIN, 0}};
    for (const auto& peer : peers_) files.push_back({peer->socket.file(), POLLIN, 0});
    while (true) {
      if (::poll(files.data(), files.size(), -1) < 0) continue;
      if (files[0].revents != 0) return;
      for (std::size_t i = 1; i < files.size(); ++i)
        if (files[i].revents != 0 && !take(*peers_[i - 1])) files[i].fd = -1;  // poll passes it over
    }
  }

  // False: nothing more comes from there.
  bool take(Peer& peer) {
    auto frame = peer.socket.receive();
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
  Peers peers_;
  int wake_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  bool ending_ = false;
  std::optional<std::string> failure_;
  std::thread listener_;
};

// Somebody who connects and says nothing shall not keep the others waiting.
constexpr double hello_s = 5;

Deadline deadline_of(const ChannelTimes& times) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(times.connect_s));
}

std::string hello(const Bootstrap& bootstrap) { return fmt::format("{} {}", bootstrap.rank, bootstrap.ranks); }

// The rank that a connection says it is; 0: it is none of this job.
std::int32_t named_rank(const std::optional<Frame>& frame, std::int32_t ranks) {
  if (!frame || frame->kind != Frame::Kind::hello) return 0;
  for (std::int32_t rank = 1; rank < ranks; ++rank)
    if (frame->bytes == fmt::format("{} {}", rank, ranks)) return rank;
  return 0;
}

std::vector<std::int32_t> missing(const Peers& peers) {
  std::vector<std::int32_t> ranks;
  for (std::size_t i = 0; i < peers.size(); ++i)
    if (!peers[i]) ranks.push_back(static_cast<std::int32_t>(i) + 1);
  return ranks;
}

// "rank 3", "ranks 1, 2, 3 and 9 more".
std::string names_of(std::vector<std::int32_t> ranks) {
  constexpr std::size_t shown = 8;
  const std::size_t more = ranks.size() > shown ? ranks.size() - shown : 0;
  const char* plural = ranks.size() == 1 ? "" : "s";
  ranks.resize(ranks.size() - more);
  return fmt::format("rank{} {}{}", plural, fmt::join(ranks, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

Result<std::unique_ptr<ControlChannel>> listen_as_first(const Bootstrap& bootstrap, const ChannelTimes& times,
                                                        const std::function<void(int)>& listening) {
  auto listener = Listener::open(bootstrap.port);
  if (!listener) return tl::unexpected(listener.error());
  if (listening) listening(listener->port());
  const Deadline deadline = deadline_of(times);
  Peers peers(static_cast<std::size_t>(bootstrap.ranks) - 1);
  for (std::size_t come = 0; come < peers.size();) {
    const auto file = listener->accept(deadline);
    if (!file) {
      const std::string reason = fmt::format("{} did not come to port {} within {:g} s", names_of(missing(peers)),
                                             listener->port(), times.connect_s);
      for (const auto& peer : peers)
        if (peer) peer->socket.send({Frame::Kind::abort, reason});
      return tl::unexpected(failed(reason, "start all ranks of the job; MASTER_ADDR is where rank 0 runs"));
    }
    auto peer = std::make_unique<Peer>(0, *file);
    peer->socket.limit(hello_s);
    peer->rank = named_rank(peer->socket.receive(), bootstrap.ranks);
    peer->socket.limit(0);
    auto* place = peer->rank == 0 ? nullptr : &peers[static_cast<std::size_t>(peer->rank) - 1];
    if (place == nullptr || *place) {
      peer->socket.send({Frame::Kind::abort,
                         fmt::format("rank 0 of {} does not expect this rank, or it came twice", bootstrap.ranks)});
      continue;
    }
    *place = std::move(peer);
    ++come;
  }
  for (const auto& peer : peers) peer->socket.send({Frame::Kind::welcome, ""});
  return std::make_unique<TcpChannel>(bootstrap, times.wait_s, std::move(peers));
}

Result<std::unique_ptr<ControlChannel>> connect_to_first(const Bootstrap& bootstrap, const ChannelTimes& times) {
  const auto file = connect_to(bootstrap.host, bootstrap.port, deadline_of(times));
  if (!file) return tl::unexpected(file.error());
  Peers peers;
  peers.push_back(std::make_unique<Peer>(0, *file));
  Socket& socket = peers[0]->socket;
  socket.limit(times.connect_s + hello_s);  // rank 0 tells who did not come when its own time is up
  const auto answer = socket.send({Frame::Kind::hello, hello(bootstrap)}) ? socket.receive() : std::nullopt;
  socket.limit(0);
  if (answer && answer->kind == Frame::Kind::welcome)
    return std::make_unique<TcpChannel>(bootstrap, times.wait_s, std::move(peers));
  if (answer && answer->kind == Frame::Kind::abort) return tl::unexpected(failed(answer->bytes));
  return tl::unexpected(failed(
      fmt::format("what answers at {}:{} is not rank 0 of this job, or has ended", bootstrap.host, bootstrap.port),
      "set MASTER_ADDR and MASTER_PORT"));
}

Result<std::unique_ptr<ControlChannel>> connect(const Bootstrap& bootstrap, const ChannelTimes& times) {
  if (bootstrap.ranks == 1) return lone_channel();
  if (bootstrap.host.empty())
    return tl::unexpected(failed(fmt::format("{} does not tell where rank 0 is", bootstrap.starter),
                                 "set MASTER_ADDR to the node of rank 0, on all ranks"));
  return bootstrap.rank == 0 ? listen_as_first(bootstrap, times) : connect_to_first(bootstrap, times);
}

}  // namespace plumbline::real::cuda
