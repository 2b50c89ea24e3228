#include "real/bootstrap/detail/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

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
