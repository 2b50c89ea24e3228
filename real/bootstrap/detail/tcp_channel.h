// The control channel as a star of TCP connections. Every rank has a thread that receives, so that the end of one rank
// reaches all others even while they wait for a device.
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
#include "real/bootstrap/bootstrap.h"
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

  // Sends a whole frame; any thread may call it. Returns false when the connection is closed.
  bool send(const Frame& frame);
  // Waits for a whole frame; one thread at a time. Returns nullopt on a closed connection or an invalid frame.
  std::optional<Frame> receive();
  // Limits the wait of receive() to `seconds`; 0: no limit.
  void limit(double seconds);
  // Makes receive() return at once from now on.
  void shut();
  int file() const { return file_; }

 private:
  int file_;
  std::mutex sending_;
};

// Listens on all addresses of this machine at `port`; 0 takes a free one. The error gives the system's reason.
class Listener {
 public:
  static model::Result<Listener> open(int port);
  ~Listener();
  Listener(Listener&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Listener& operator=(Listener&&) = delete;

  // Returns the file descriptor of the next connection; nullopt at the deadline.
  std::optional<int> accept(Deadline deadline);
  int port() const;

 private:
  explicit Listener(int file) : file_(file) {}
  int file_;
};

// Retries until the host accepts or the deadline passes. Returns the file descriptor, or the error of the last try.
model::Result<int> connect_to(const std::string& host, int port, Deadline deadline);

// The sockets of rank 0 to all other ranks, in their order; of another rank the one to rank 0.
using Sockets = std::vector<std::unique_ptr<Socket>>;

std::unique_ptr<ControlChannel> make_tcp_channel(std::int32_t rank, std::int32_t ranks, const ChannelOptions& options,
                                                 Sockets sockets);

}  // namespace plumbline::real
