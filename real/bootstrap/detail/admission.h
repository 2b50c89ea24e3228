// Rank 0 admits the other ranks: all connections that wait are served at once, so that none of them holds up another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/bootstrap/detail/handshake.h"
#include "real/bootstrap/detail/listener.h"
#include "real/bootstrap/detail/socket.h"
#include "real/bootstrap/detail/tcp_channel.h"

namespace plumbline::real {

// Writes whom rank 0 refuses, each address once for each reason, up to a number of lines.
class RefusalLog {
 public:
  explicit RefusalLog(std::function<void(const std::string&)> write) : write_(std::move(write)) {}

  void add(const std::string& who, const std::string& reason);
  // Returns "; 3 connections were refused, the last one of 10.0.0.9: it ..."; empty: none was.
  std::string summary() const;

 private:
  std::function<void(const std::string&)> write_;
  std::map<std::string, std::int64_t> counts_;  // by line
  std::int64_t count_ = 0;
  std::string last_;
};

class Admission {
 public:
  // `strangers` connections may wait besides those of the ranks; references must outlive the object.
  Admission(const Listener& listener, const Identity& own, const ChannelOptions& options, std::size_t strangers);

  // Returns the sockets of all other ranks. At the deadline the ranks that came get the error, which names those that
  // did not; also where the process can open no more files.
  model::Result<Sockets> run();

 private:
  // A process that has not shown that it belongs to the job.
  struct Visitor {
    std::unique_ptr<Socket> socket;
    FirstHandshake handshake;
    Deadline deadline;
    std::string name;  // of messages: its address
  };
  using Visitors = std::list<Visitor>;

  std::vector<std::int32_t> missing() const;
  model::Result<void> wait(Deadline deadline);
  model::Result<void> accept(const File& listening);
  // Returns whether the visitor stays.
  bool serve(Visitor& visitor);
  bool admit(Visitor& visitor);
  void refuse(Visitor& visitor, const HandshakeStep& step);
  void drop_late();
  void drop_oldest(const std::string& reason);
  void drop_ended(std::size_t place);
  tl::unexpected<model::Error> fail(const std::string& reason, const std::string& hint);

  const Listener& listener_;
  const Identity& own_;
  std::size_t strangers_;
  double connect_s_, handshake_s_;
  RefusalLog log_;
  Visitors visitors_;  // the oldest first
  Sockets admitted_;
};

}  // namespace plumbline::real
