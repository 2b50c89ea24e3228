// The control channel as a star of TCP connections. A thread of every rank listens, so that the end of one rank reaches
// all others while they wait for a device.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "real/executor/control_channel.h"
#include "real/executor/infeasible.h"

namespace plumbline::real {

struct Frame {
  enum class Kind : std::uint32_t { hello, welcome, data, abort, leave };
  Kind kind = Kind::data;
  std::string bytes;
};

using Deadline = std::chrono::steady_clock::time_point;

class Socket {
 public:
  explicit Socket(int file) : file_(file) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Whole frames, from any thread. False: the other end is gone.
  bool send(const Frame& frame);
  // Waits for a whole frame; one thread at a time. nullopt: the other end is gone, or what came is no frame.
  std::optional<Frame> receive();
  // receive() gives up after so many seconds; 0: never.
  void limit(double seconds);
  // receive() returns at once from now on.
  void shut();
  int file() const { return file_; }

 private:
  int file_;
  std::mutex sending_;
};

// Listens on all addresses of this machine at `port`; 0 takes a free one. The error says why it cannot.
class Listener {
 public:
  static model::Result<Listener> open(int port);
  ~Listener();
  Listener(Listener&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Listener& operator=(Listener&&) = delete;

  // The file of the next connection; nullopt when the time is up.
  std::optional<int> accept(Deadline deadline);
  int port() const;

 private:
  explicit Listener(int file) : file_(file) {}
  int file_;
};

// Tries until somebody listens there or the time is up. The error says what the last try met.
model::Result<int> connect_to(const std::string& host, int port, Deadline deadline);

// Of rank 0 to all others, in their order; of another rank to rank 0.
using Sockets = std::vector<std::unique_ptr<Socket>>;

// `wait_s`: how long an answer is waited for.
std::unique_ptr<ControlChannel> make_tcp_channel(std::int32_t rank, std::int32_t ranks, double wait_s, Sockets sockets);

}  // namespace plumbline::real
