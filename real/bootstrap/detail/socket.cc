#include "real/bootstrap/detail/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>

#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

// Waits for an event of the file. Returns false at the deadline.
bool wait_for(int file, short event, Deadline deadline) {
  pollfd waiting{file, event, 0};
  while (true) {
    const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 && milliseconds_until(deadline) == 0) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool send_all(int file, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(file, POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void set(int file, int level, int option, int value) { ::setsockopt(file, level, option, &value, sizeof value); }

// Small frames leave at once, and a machine that has lost its power or network is noticed after two minutes.
void prepare(int file) {
  set(file, IPPROTO_TCP, TCP_NODELAY, 1);
  set(file, SOL_SOCKET, SO_KEEPALIVE, 1);
  constexpr int idle_s = 60, between_s = 10, probes = 6;
  set(file, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
  set(file, IPPROTO_TCP, TCP_KEEPINTVL, between_s);
  set(file, IPPROTO_TCP, TCP_KEEPCNT, probes);
  set(file, IPPROTO_TCP, TCP_USER_TIMEOUT, (idle_s + between_s * probes) * 1000);  // ms, of data that nobody takes
}

// Returns 0, or the error number of a connection that is not there by the deadline.
int connect_by(int file, const addrinfo& address, Deadline deadline) {
  if (::connect(file, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(file, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Returns the file descriptor of a connection; -1 on failure, with the cause in `reason`.
int try_addresses(const addrinfo* first, Deadline deadline, std::string& reason) {
  constexpr double longest_s = 5;  // of one address: another one may answer
  for (const addrinfo* address = first; address != nullptr; address = address->ai_next) {
    const int type = address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
    const int file = ::socket(address->ai_family, type, address->ai_protocol);
    const int error = file < 0 ? errno : connect_by(file, *address, std::min(deadline, deadline_in(longest_s)));
    if (error == 0) return file;
    reason = std::strerror(error);
    if (file >= 0) ::close(file);
  }
  return -1;
}

// An address of either family, as the system's calls fill it in.
struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  // Returns "10.0.0.7".
  std::string host() {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(get(), bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      return "unknown address";
    return text.data();
  }
  // The port lies at the same place in both families.
  in_port_t& port() { return reinterpret_cast<sockaddr_in*>(&storage)->sin_port; }
};

Address own_address(int file) {
  Address address;
  ::getsockname(file, address.get(), &address.bytes);
  return address;
}

// Returns a file that listens; a negative number on failure, with the cause in errno.
int listen_at(Address& address) {
  const int family = address.get()->sa_family;
  const int file = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return file;
  const int on = 1;
  ::setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  constexpr int waiting = 4096;  // ranks that may connect at once
  if (::bind(file, address.get(), address.bytes) == 0 && ::listen(file, waiting) == 0) return file;
  const int reason = errno;
  ::close(file);
  errno = reason;
  return -1;
}

tl::unexpected<model::Error> cannot_listen(const std::string& host, int port, int reason) {
  if (reason == EADDRNOTAVAIL)
    return infeasible(
        fmt::format("rank 0 cannot listen at {}: this machine does not have the address", host),
        "MASTER_ADDR is where rank 0 runs; PLUMBLINE_LISTEN sets another address for rank 0 to listen at");
  return infeasible(fmt::format("rank 0 cannot listen at {}:{}: {}", host, port, std::strerror(reason)),
                    "choose another port with PLUMBLINE_PORT, on all ranks");
}

}  // namespace

Deadline deadline_in(double seconds) {
  constexpr double century = 3.2e9;
  if (!(seconds < century)) return Deadline::max();
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

int milliseconds_until(Deadline deadline) {
  const auto now = std::chrono::steady_clock::now();
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()));
}

Socket::Socket(int file, std::uint64_t most_bytes) : file_(file), reader_(most_bytes) { prepare(file); }

Socket::~Socket() { ::close(file_); }

bool Socket::send(const Frame& frame, double seconds) {
  const Deadline deadline = deadline_in(seconds);
  std::unique_lock lock(sending_, std::defer_lock);
  // Only the end of a job sends while another thread does, which may wait for a rank that takes nothing.
  while (!lock.try_lock()) {
    if (milliseconds_until(deadline) == 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return send_all(file_, header_of(frame), deadline) && send_all(file_, frame.bytes, deadline);
}

bool Socket::read() {
  std::array<char, std::size_t{1} << 16> part{};
  // A sender that is faster than this thread must not keep it from the other connections.
  constexpr int most_parts = 64;
  for (int i = 0; i < most_parts; ++i) {
    const ssize_t got = ::recv(file_, part.data(), part.size(), MSG_DONTWAIT);
    if (got > 0) reader_.add({part.data(), static_cast<std::size_t>(got)});
    if (got == 0) return false;
    if (got < 0 && errno != EINTR) return errno == EAGAIN;
  }
  return true;
}

std::optional<Frame> Socket::receive(Deadline deadline) {
  while (true) {
    if (auto frame = reader_.next()) return frame;
    if (broken() || !wait_for(file_, POLLIN, deadline)) return std::nullopt;
    if (!read()) return reader_.next();
  }
}

void Socket::shut() { ::shutdown(file_, SHUT_RDWR); }

model::Result<int> connect_to(const std::string& host, int port, Deadline deadline) {
  std::string reason;
  constexpr auto pause = std::chrono::milliseconds(100);
  do {
    const addrinfo wanted{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    addrinfo* found = nullptr;
    if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found); code != 0) {
      reason = ::gai_strerror(code);
    } else if (const int file = try_addresses(Addresses(found, &::freeaddrinfo).get(), deadline, reason); file >= 0) {
      return file;
    }
    std::this_thread::sleep_for(pause);
  } while (std::chrono::steady_clock::now() < deadline);
  return infeasible(fmt::format("rank 0 cannot be reached at {}:{}: {}", host, port, reason),
                    "check that it runs and that nodes may connect to that port; MASTER_ADDR and MASTER_PORT "
                    "set the address");
}

model::Result<Listener> Listener::open(const std::string& host, int port) {
  const addrinfo wanted{.ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found); code != 0)
    return infeasible(fmt::format("rank 0 cannot listen at {}: {}", host, ::gai_strerror(code)),
                      "MASTER_ADDR is where rank 0 runs");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  std::vector<File> files;
  std::optional<int> failure;
  for (addrinfo* address = found; address != nullptr; address = address->ai_next) {
    // A free port that the first address has got is that of the others.
    Address own;
    std::memcpy(own.get(), address->ai_addr, address->ai_addrlen);
    own.bytes = address->ai_addrlen;
    if (!files.empty()) own.port() = own_address(files[0].number()).port();
    if (const int file = listen_at(own); file >= 0)
      files.emplace_back(file);
    else if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
      failure = errno;
  }
  if (files.empty() || failure) return cannot_listen(host, port, failure.value_or(EADDRNOTAVAIL));
  return Listener(std::move(files));
}

int Listener::port() const { return ntohs(own_address(files_[0].number()).port()); }

std::string Listener::address() const {
  const std::string host = own_address(files_[0].number()).host();
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port())
                                             : fmt::format("[{}]:{}", host, port());
}

bool Listener::is_loopback() const {
  return std::ranges::all_of(files_, [](const File& file) {
    const std::string host = own_address(file.number()).host();
    return host.starts_with("127.") || host == "::1";
  });
}

std::string address_of_peer(int file) {
  Address address;
  ::getpeername(file, address.get(), &address.bytes);
  return address.host();
}

}  // namespace plumbline::real
