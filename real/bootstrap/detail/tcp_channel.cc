#include "real/bootstrap/detail/tcp_channel.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace plumbline::real {

namespace {

using model::Result;

using model::Error;
using model::ErrorKind;

struct Header {
  std::uint32_t magic, kind;
  std::uint64_t bytes;
};
constexpr std::uint32_t frame_magic = 0x706c756d;
// The largest frame; timelines of a long step are the largest payloads.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 32;

bool send_all(int file, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(file, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int file, char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::recv(file, data, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

void prepare(int file) {
  const int on = 1;
  ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Returns the file descriptor of a connection; -1 on failure, with the cause in `reason`.
int try_addresses(const addrinfo* first, std::string& reason) {
  for (const addrinfo* address = first; address != nullptr; address = address->ai_next) {
    const int file = ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
    if (file >= 0 && ::connect(file, address->ai_addr, address->ai_addrlen) == 0) return file;
    reason = std::strerror(errno);
    if (file >= 0) ::close(file);
  }
  return -1;
}

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

  Result<void> send(std::int32_t rank, const std::string& bytes) override { return send(peer(rank), bytes); }
  Result<std::string> receive(std::int32_t rank) override { return receive(peer(rank)); }

  void abort(const std::string& reason) override { end_job(fmt::format("rank {}: {}", rank_, reason), nullptr); }

  std::optional<std::string> failure() const override {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }

 private:
  Peer& peer(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank_ > 0 ? 0 : rank - 1)]; }

  Result<void> send(Peer& peer, const std::string& bytes) {
    if (const auto known = failure()) return infeasible(*known);
    if (peer.socket->send({Frame::Kind::data, bytes})) return {};
    // The peer may have sent a reason before its end, which the listener has still to read.
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, std::chrono::duration<double>(wait_), [&] { return failure_ || peer.left; });
    return infeasible(failure_.value_or(fmt::format("rank {} is gone", peer.rank)));
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
      if (::poll(files.data(), files.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return end_job(fmt::format("rank {} cannot wait for {} ranks: {}", rank_, peers_.size(), std::strerror(errno)),
                       nullptr);
      }
      if (files[0].revents != 0) return;
      for (std::size_t i = 1; i < files.size(); ++i)
        if (files[i].revents != 0 && !take(peers_[i - 1])) files[i].fd = -1;  // poll ignores it
    }
  }

  // Returns false when the peer will send nothing more.
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
    const bool named = frame && frame->kind == Frame::Kind::abort;
    if ((frame && frame->kind == Frame::Kind::leave) || (outlives_ && rank_ == 0 && !named)) {
      {
        const std::scoped_lock lock(mutex_);
        peer.left = true;
      }
      came_.notify_all();
      return false;
    }
    end_job(named ? frame->bytes : fmt::format("rank {} ended without a word", peer.rank), &peer);
    return false;
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

Socket::~Socket() { ::close(file_); }

bool Socket::send(const Frame& frame) {
  const std::scoped_lock lock(sending_);
  const Header header{frame_magic, static_cast<std::uint32_t>(frame.kind), frame.bytes.size()};
  return send_all(file_, reinterpret_cast<const char*>(&header), sizeof header) &&
         send_all(file_, frame.bytes.data(), frame.bytes.size());
}

std::optional<Frame> Socket::receive() {
  Header header{};
  if (!receive_all(file_, reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  if (header.magic != frame_magic || header.bytes > most_bytes ||
      header.kind > static_cast<std::uint32_t>(Frame::Kind::leave))
    return std::nullopt;
  Frame frame{static_cast<Frame::Kind>(header.kind), std::string(header.bytes, '\0')};
  if (!receive_all(file_, frame.bytes.data(), frame.bytes.size())) return std::nullopt;
  return frame;
}

void Socket::limit(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timeval limit{whole, static_cast<suseconds_t>((seconds - static_cast<double>(whole)) * 1e6)};
  ::setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

void Socket::shut() { ::shutdown(file_, SHUT_RDWR); }

Result<Listener> Listener::open(int port) {
  const int file = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool six = file >= 0;
  Listener listener(six ? file : ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  ::setsockopt(listener.file_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (six) ::setsockopt(listener.file_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 address6{.sin6_family = AF_INET6, .sin6_port = htons(static_cast<std::uint16_t>(port))};
  sockaddr_in address4{.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port))};
  const auto* address = six ? reinterpret_cast<const sockaddr*>(&address6) : reinterpret_cast<sockaddr*>(&address4);
  const socklen_t bytes = six ? sizeof address6 : sizeof address4;
  constexpr int waiting = 4096;  // ranks that may connect at once
  if (::bind(listener.file_, address, bytes) != 0 || ::listen(listener.file_, waiting) != 0)
    return infeasible(fmt::format("rank 0 cannot listen at port {}: {}", port, std::strerror(errno)),
                      "choose another one with PLUMBLINE_PORT, on all ranks");
  return listener;
}

Listener::~Listener() {
  if (file_ >= 0) ::close(file_);
}

std::optional<int> Listener::accept(Deadline deadline) {
  pollfd waiting{file_, POLLIN, 0};
  while (true) {
    const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const int file = ::accept4(file_, nullptr, nullptr, SOCK_CLOEXEC);
    if (file < 0 && (errno == EMFILE || errno == ENFILE)) return std::nullopt;  // no later connection would do better
    if (file < 0) continue;
    prepare(file);
    return file;
  }
}

int Listener::port() const {
  sockaddr_in6 address{};
  socklen_t bytes = sizeof address;
  ::getsockname(file_, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.sin6_port);  // at the same offset in both address families
}

Result<int> connect_to(const std::string& host, int port, Deadline deadline) {
  std::string reason;
  constexpr auto pause = std::chrono::milliseconds(100);
  do {
    const addrinfo wanted{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    addrinfo* found = nullptr;
    if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found); code != 0) {
      reason = ::gai_strerror(code);
    } else if (const int file = try_addresses(Addresses(found, &::freeaddrinfo).get(), reason); file >= 0) {
      prepare(file);
      return file;
    }
    std::this_thread::sleep_for(pause);
  } while (std::chrono::steady_clock::now() < deadline);
  return infeasible(fmt::format("rank 0 cannot be reached at {}:{}: {}", host, port, reason),
                    "check that it runs and that nodes may connect to that port; MASTER_ADDR and MASTER_PORT "
                    "set the address");
}

std::unique_ptr<ControlChannel> make_tcp_channel(std::int32_t rank, std::int32_t ranks, const ChannelOptions& options,
                                                 Sockets sockets) {
  return std::make_unique<TcpChannel>(rank, ranks, options, std::move(sockets));
}

}  // namespace plumbline::real
