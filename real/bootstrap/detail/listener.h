// Where rank 0 waits for the other ranks: the addresses of one name, at one port.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "real/bootstrap/detail/file.h"

namespace plumbline::real {

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
