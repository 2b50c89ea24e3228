// A TCP connection that carries frames. No call waits longer than it is given.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "model/base/error.h"
#include "real/bootstrap/detail/frame.h"

namespace plumbline::real {

using Deadline = std::chrono::steady_clock::time_point;

// Returns the time `seconds` from now; the end of time for more than a century.
Deadline deadline_in(double seconds);
// Returns the milliseconds until then, for poll(): 0 when it has passed.
int milliseconds_until(Deadline deadline);

class Socket {
 public:
  // Takes a connected file descriptor. `most_bytes` is the largest payload that is accepted.
  Socket(int file, std::uint64_t most_bytes);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Sends a whole frame; any thread may call it. Returns false when the connection is closed, or the other end has not
  // taken all of it within `seconds`; part of it may have been sent then.
  bool send(const Frame& frame, double seconds);
  // Reads what has come, without waiting. Returns false when nothing more will.
  bool read();
  // Returns the next frame of what was read; one thread at a time calls read() and this.
  std::optional<Frame> next() { return reader_.next(); }
  // Waits for a whole frame. Returns nothing at the deadline, on a closed connection and after an invalid frame.
  std::optional<Frame> receive(Deadline deadline);
  // Returns whether what was read is no frame, or one that is too large.
  bool broken() const { return reader_.broken(); }
  void accept(std::uint64_t most_bytes) { reader_.accept(most_bytes); }
  // Makes read() return false from now on.
  void shut();
  int file() const { return file_; }

 private:
  int file_;
  std::mutex sending_;
  FrameReader reader_;
};

// Connects to a host and port; retries until the host accepts or the deadline passes. Returns the file descriptor, or
// the error of the last try.
model::Result<int> connect_to(const std::string& host, int port, Deadline deadline);

}  // namespace plumbline::real
