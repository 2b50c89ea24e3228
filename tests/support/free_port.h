// A port of this machine for processes that a test starts.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace plumbline::tests {

inline bool can_listen(int port) {
  const int file = ::socket(AF_INET, SOCK_STREAM, 0), on = 1;
  ::setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<in_port_t>(port));
  const bool bound = ::bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(file);
  return bound;
}

// Returns a port at which nothing listens. The kernel gives it to no connection, and each test process begins to look
// at another one, so that it is free until the test listens there.
inline int free_port() {
  constexpr int first = 10'000;
  int end = 32'768;  // where the ports of connections begin
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> end;
  const int ports = end > first ? end - first : 32'768 - first;
  for (int i = 0; i < ports; ++i)
    if (const int port = first + (::getpid() + i) % ports; can_listen(port)) return port;
  throw std::runtime_error("this machine has no free port");
}

}  // namespace plumbline::tests
