#include "real/bootstrap/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>

namespace plumbline::real {

namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

struct Header {
  std::uint32_t magic, kind;
  std::uint64_t bytes;
};
constexpr std::uint32_t frame_magic = 0x706c756d;
// Timelines of a long step are the largest things that are sent.
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

Error failure(std::string message, std::string hint = "") {
  return {ErrorKind::infeasible, std::move(message), "", 0, "", std::move(hint)};
}

void prepare(int file) {
  const int on = 1;
  ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// -1: `reason` says why.
int try_addresses(const addrinfo* first, std::string& reason) {
  for (const addrinfo* address = first; address != nullptr; address = address->ai_next) {
    const int file = ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
    if (file >= 0 && ::connect(file, address->ai_addr, address->ai_addrlen) == 0) return file;
    reason = std::strerror(errno);
    if (file >= 0) ::close(file);
  }
  return -1;
}

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
  constexpr int waiting = 4096;  // ranks that come at once
  if (::bind(listener.file_, address, bytes) != 0 || ::listen(listener.file_, waiting) != 0)
    return tl::unexpected(failure(fmt::format("rank 0 cannot listen at port {}: {}", port, std::strerror(errno)),
                                  "choose another one with PLUMBLINE_PORT, on all ranks"));
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
    if (file < 0) continue;
    prepare(file);
    return file;
  }
}

int Listener::port() const {
  sockaddr_in6 address{};
  socklen_t bytes = sizeof address;
  ::getsockname(file_, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.sin6_port);  // at the same place in both kinds of addresses
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
  return tl::unexpected(failure(fmt::format("rank 0 cannot be reached at {}:{}: {}", host, port, reason),
                                "is it running, and may nodes connect to that port? MASTER_ADDR and MASTER_PORT name "
                                "the place"));
}

}  // namespace plumbline::real
