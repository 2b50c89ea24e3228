// A TCP connection that carries frames. No call waits longer than it is given.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "real/bootstrap/detail/frame.h"

namespace plumbline::real {

// A file descriptor that is closed with its owner.
class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&&) = delete;
  // Returns the system's number of the file; negative where it could not be opened.
  int number() const { return number_; }

 private:
  int number_;
};

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

// --- Where rank 0 waits for the other ranks: the addresses of one name, at one port ---

class Listener {
 public:
  // Listens at the addresses of `host` that this machine has, and at no other; at a free port for port 0. The error
  // states that none of them is of this machine, or the system's reason.
  static model::Result<Listener> open(const std::string& host, int port);

  // What poll() waits for; accept4() of them does not wait.
  const std::vector<File>& files() const { return files_; }
  int port() const;
  // Returns "10.0.0.1:29500", for messages.
  std::string address() const;
  // Returns whether only processes of this machine can connect.
  bool is_loopback() const;

 private:
  explicit Listener(std::vector<File> files) : files_(std::move(files)) {}
  std::vector<File> files_;
};

// Returns the address of the other end of a connection, without its port.
std::string address_of_peer(int file);

}  // namespace plumbline::real
