#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "model/base/bytes.h"
#include "model/base/error.h"
#include "real/bootstrap/bootstrap.h"
#include "real/bootstrap/detail/handshake.h"
#include "real/bootstrap/detail/job_token.h"
#include "real/bootstrap/detail/socket.h"
#include "real/bootstrap/detail/tcp_channel.h"
#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

// The time in which a short answer fits into the buffers of a connection.
constexpr double answer_s = 1;

// Returns "rank 3" or "ranks 1, 2, 3 and 9 more".
std::string names_of(std::vector<std::int32_t> ranks) {
  constexpr std::size_t shown_ranks = 8;
  const std::size_t more = ranks.size() > shown_ranks ? ranks.size() - shown_ranks : 0;
  const char* plural = ranks.size() == 1 ? "" : "s";
  ranks.resize(ranks.size() - more);
  return fmt::format("rank{} {}{}", plural, fmt::join(ranks, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

bool no_more_files(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

// Writes whom rank 0 refuses, each address once for each reason, up to a number of lines.
class RefusalLog {
 public:
  explicit RefusalLog(std::function<void(const std::string&)> write) : write_(std::move(write)) {}

  void add(const std::string& who, const std::string& reason) {
    constexpr std::size_t most_lines = 50;
    ++count_;
    last_ = fmt::format("{}: it {}", who, reason);
    if (counts_.size() == most_lines && !counts_.contains(last_)) return;
    if (counts_[last_]++ > 0 || !write_) return;
    write_(fmt::format("rank 0 refuses a connection of {}", last_));
    if (counts_.size() == most_lines) write_("rank 0 does not report further refusals");
  }

  // Returns "; 3 connections were refused, the last one of 10.0.0.9: it ..."; empty: none was.
  std::string summary() const {
    if (count_ == 0) return "";
    return fmt::format("; {} connection{} refused, the last one of {}", count_, count_ == 1 ? " was" : "s were", last_);
  }

 private:
  std::function<void(const std::string&)> write_;
  std::map<std::string, std::int64_t> counts_;  // by line
  std::int64_t count_ = 0;
  std::string last_;
};

// Rank 0 admits the other ranks: all connections that wait are served at once, so that none of them holds up another.
class Admission {
 public:
  // `strangers` connections may wait besides those of the ranks; references must outlive the object.
  Admission(const Listener& listener, const Identity& own, const ChannelOptions& options, std::size_t strangers)
      : listener_(listener),
        own_(own),
        strangers_(strangers),
        connect_s_(options.connect_s),
        handshake_s_(options.handshake_s),
        log_(options.log),
        admitted_(static_cast<std::size_t>(own.ranks) - 1) {}

  // Returns the sockets of all other ranks. At the deadline the ranks that came get the error, which names those that
  // did not; also where the process can open no more files.
  model::Result<Sockets> run() {
    const Deadline deadline = deadline_in(connect_s_);
    while (!missing().empty()) {
      if (milliseconds_until(deadline) == 0)
        return fail(fmt::format("{} did not connect to {} within {:g} s{}", names_of(missing()), listener_.address(),
                                connect_s_, log_.summary()),
                    "start all ranks of the job; MASTER_ADDR is where rank 0 runs");
      TRY(wait(deadline));
    }
    for (const auto& socket : admitted_) socket->send({Frame::Kind::welcome, ""}, answer_s);
    return std::move(admitted_);
  }

 private:
  // A process that has not shown that it belongs to the job.
  struct Visitor {
    std::unique_ptr<Socket> socket;
    FirstHandshake handshake;
    Deadline deadline;
    std::string name;  // of messages: its address
  };
  using Visitors = std::list<Visitor>;

  std::vector<std::int32_t> missing() const {
    std::vector<std::int32_t> ranks;
    for (std::size_t i = 0; i < admitted_.size(); ++i)
      if (!admitted_[i]) ranks.push_back(static_cast<std::int32_t>(i) + 1);
    return ranks;
  }

  // Waits for the next event of any connection, and handles all that there are.
  model::Result<void> wait(Deadline deadline) {
    std::vector<pollfd> files;
    for (const File& file : listener_.files()) files.push_back({file.number(), POLLIN, 0});
    const std::size_t first_visitor = files.size();
    for (const Visitor& visitor : visitors_) files.push_back({visitor.socket->file(), POLLIN, 0});
    const std::size_t first_rank = files.size();
    for (const auto& socket : admitted_) files.push_back({socket ? socket->file() : -1, POLLRDHUP, 0});
    const Deadline next = visitors_.empty() ? deadline : std::min(deadline, visitors_.front().deadline);
    if (::poll(files.data(), files.size(), milliseconds_until(next)) < 0 && errno != EINTR)
      return fail(fmt::format("rank 0 cannot wait for {} connections: {}", files.size(), std::strerror(errno)),
                  "raise the limit of open files where rank 0 runs: ulimit -n");
    auto visitor = visitors_.begin();
    for (std::size_t i = first_visitor; i < first_rank; ++i) {
      const auto current = visitor++;
      if (files[i].revents != 0 && !serve(*current)) visitors_.erase(current);
    }
    for (std::size_t i = first_rank; i < files.size(); ++i)
      if (files[i].fd >= 0 && files[i].revents != 0) drop_ended(i - first_rank);
    drop_late();
    for (std::size_t i = 0; i < first_visitor; ++i)
      if (files[i].revents != 0) TRY(accept(listener_.files()[i]));
    return {};
  }

  model::Result<void> accept(const File& listening) {
    constexpr int at_once = 64;  // those that wait are served in between
    for (int i = 0; i < at_once; ++i) {
      const int file = ::accept4(listening.number(), nullptr, nullptr, SOCK_CLOEXEC);
      if (file < 0 && no_more_files(errno)) {
        if (visitors_.empty())
          return fail(fmt::format("rank 0 can open no more files, and {} did not connect yet: {}", names_of(missing()),
                                  std::strerror(errno)),
                      "raise the limit where rank 0 runs: ulimit -n");
        drop_oldest("is silent while rank 0 can open no more files");
        continue;
      }
      if (file < 0) return {};  // none is left, or it has ended already
      if (visitors_.size() >= missing().size() + strangers_) drop_oldest("is silent while many others connect");
      auto socket = std::make_unique<Socket>(file, most_stranger_bytes);
      visitors_.push_back({std::move(socket), FirstHandshake(own_), deadline_in(handshake_s_), address_of_peer(file)});
    }
    return {};
  }

  // Returns whether the visitor stays.
  bool serve(Visitor& visitor) {
    const bool open = visitor.socket->read();
    while (const auto frame = visitor.socket->next()) {
      const HandshakeStep step = visitor.handshake.take(*frame);
      if (!step.refused.empty()) {
        refuse(visitor, step);
        return false;
      }
      visitor.socket->accept(visitor.handshake.most_bytes());
      if (step.answer && !visitor.socket->send(*step.answer, 0)) return false;
      if (step.done) return admit(visitor);
    }
    if (visitor.socket->broken()) refuse(visitor, {.refused = "sends what is not of the protocol"});
    if (!open && !visitor.socket->broken()) refuse(visitor, {.refused = "ended its connection early"});
    return open && !visitor.socket->broken();
  }

  // Takes over the socket of a rank, unless another connection has its place.
  bool admit(Visitor& visitor) {
    auto& place = admitted_[static_cast<std::size_t>(visitor.handshake.rank()) - 1];
    if (place) {
      const std::string reason = "connected twice";
      refuse(visitor,
             {.answer = Frame{Frame::Kind::abort, "rank 0 refuses this process: it " + reason}, .refused = reason});
    } else {
      place = std::move(visitor.socket);
    }
    return false;
  }

  void refuse(Visitor& visitor, const HandshakeStep& step) {
    if (step.answer) visitor.socket->send(*step.answer, 0);
    const std::int32_t rank = visitor.handshake.rank();
    log_.add(rank > 0 ? fmt::format("rank {} at {}", rank, visitor.name) : visitor.name, step.refused);
  }

  void drop_late() {
    while (!visitors_.empty() && milliseconds_until(visitors_.front().deadline) == 0)
      drop_oldest(fmt::format("has not finished its handshake within {:g} s", handshake_s_));
  }

  void drop_oldest(const std::string& reason) {
    refuse(visitors_.front(), {.refused = reason});
    visitors_.pop_front();
  }

  // A rank that ends before the job begins may be started again.
  void drop_ended(std::size_t place) {
    log_.add(fmt::format("rank {} at {}", place + 1, address_of_peer(admitted_[place]->file())),
             "ended before the job began");
    admitted_[place].reset();
  }

  tl::unexpected<model::Error> fail(const std::string& reason, const std::string& hint) {
    for (const auto& socket : admitted_)
      if (socket) socket->send({Frame::Kind::abort, reason}, answer_s);
    return infeasible(reason, hint);
  }

  const Listener& listener_;
  const Identity& own_;
  std::size_t strangers_;
  double connect_s_, handshake_s_;
  RefusalLog log_;
  Visitors visitors_;  // the oldest first
  Sockets admitted_;
};

using model::Result;

Identity identity_of(const Bootstrap& bootstrap, const ChannelOptions& options) {
  // Inputs that fill a greeting are compared, though not shown.
  const bool fits = options.inputs.size() < most_greeting_bytes / 2;
  std::string inputs = fits ? options.inputs : fmt::format("hash {:016x}", model::hash_of(options.inputs));
  return {bootstrap.rank, bootstrap.ranks, bootstrap.token, bootstrap.job, options.program, std::move(inputs)};
}

// Rank 0 has a connection to every other rank, and some to processes that turn out to be none. Raises this process's
// limit of open files for them as far as is allowed; returns how many of the latter it leaves.
Result<std::size_t> allow_files(std::int32_t ranks) {
  constexpr rlim_t others = 64;                            // files that the process has open besides
  constexpr rlim_t fewest_strangers = 8, strangers = 256;  // that may wait at a time
  const rlim_t own = static_cast<rlim_t>(ranks) + others;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return strangers;
  if (limit.rlim_cur < own + strangers && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::min(own + strangers, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= own + fewest_strangers) return std::min(limit.rlim_cur - own, strangers);
  return infeasible(fmt::format("rank 0 may have {} files open, and needs {} to talk to {} ranks", limit.rlim_cur,
                                own + fewest_strangers, ranks),
                    "raise the limit where rank 0 runs: ulimit -Hn");
}

// The end of a connection that the other rank tries again after, or the error that it ends with.
struct Attempt {
  std::unique_ptr<Socket> socket;  // of a rank that is welcome
  bool again = false;
  std::string refused;
};

// Connects once, and does this rank's part of the handshake until the deadline.
Attempt shake_hands(int file, const Identity& own, Deadline deadline) {
  auto socket = std::make_unique<Socket>(file, most_stranger_bytes);
  OtherHandshake handshake(own);
  constexpr double send_s = 10;
  if (!socket->send(handshake.hello(), send_s)) return {.again = true};
  while (const auto frame = socket->receive(deadline)) {
    HandshakeStep step = handshake.take(*frame);
    if (!step.refused.empty()) return {.refused = std::move(step.refused)};
    // The end of a job that never began may be a long list of ranks.
    socket->accept(handshake.proved() ? most_greeting_bytes : most_stranger_bytes);
    if (step.answer && !socket->send(*step.answer, send_s)) break;
    if (step.done) return {.socket = std::move(socket)};
  }
  // Rank 0 closes connections that it has no files for; one of another protocol, or one that has ended, is no rank 0.
  return {.again = !socket->broken() && !handshake.proved()};
}

}  // namespace

Result<std::unique_ptr<ControlChannel>> listen_as_first(const Bootstrap& bootstrap, const ChannelOptions& options,
                                                        const std::function<void(int)>& listening) {
  TRY(prepare_proofs());
  const std::size_t strangers = TRY(allow_files(bootstrap.ranks));
  const Listener listener = TRY(Listener::open(bootstrap.listen, bootstrap.port));
  if (bootstrap.machines == Machines::several && listener.is_loopback())
    return infeasible(
        fmt::format("{} is {} here, which no other machine of this job reaches", bootstrap.listen, listener.address()),
        "set MASTER_ADDR to an address of this machine, on all ranks, or PLUMBLINE_LISTEN on rank 0");
  if (listening) listening(listener.port());
  const Identity own = identity_of(bootstrap, options);
  auto sockets = TRY(Admission(listener, own, options, strangers).run());
  return make_tcp_channel(bootstrap.rank, bootstrap.ranks, options, std::move(sockets));
}

Result<std::unique_ptr<ControlChannel>> connect_to_first(const Bootstrap& bootstrap, const ChannelOptions& options) {
  TRY(prepare_proofs());
  const Identity own = identity_of(bootstrap, options);
  const Deadline deadline = deadline_in(options.connect_s);
  constexpr double grace_s = 10;  // at its own deadline rank 0 sends which ranks are missing
  Attempt attempt;
  do {
    const auto file = TRY(connect_to(bootstrap.host, bootstrap.port, deadline));
    attempt = shake_hands(file, own, deadline_in(options.connect_s + grace_s));
    if (attempt.again) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (attempt.again && milliseconds_until(deadline) > 0);
  if (!attempt.refused.empty())
    return infeasible(fmt::format("{}:{}: {}", bootstrap.host, bootstrap.port, attempt.refused));
  if (!attempt.socket)
    return infeasible(
        fmt::format("the process at {}:{} is not rank 0 of this job, or has ended", bootstrap.host, bootstrap.port),
        "set MASTER_ADDR and MASTER_PORT");
  Sockets sockets;
  sockets.push_back(std::move(attempt.socket));
  return make_tcp_channel(bootstrap.rank, bootstrap.ranks, options, std::move(sockets));
}

Result<std::unique_ptr<ControlChannel>> connect(const Bootstrap& bootstrap, const ChannelOptions& options) {
  if (bootstrap.ranks == 1) return lone_channel();
  if (bootstrap.host.empty())
    return infeasible(fmt::format("{} does not give the address of rank 0", bootstrap.starter),
                      "set MASTER_ADDR to the node of rank 0, on all ranks");
  Bootstrap own = bootstrap;
  if (own.token.empty()) own.token = TRY(read_job_token(bootstrap.machines, process_environment()));
  return own.rank == 0 ? listen_as_first(own, options) : connect_to_first(own, options);
}

}  // namespace plumbline::real
