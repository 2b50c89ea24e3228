#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "model/base/bytes.h"
#include "real/bootstrap/bootstrap.h"
#include "real/bootstrap/detail/admission.h"
#include "real/bootstrap/detail/handshake.h"
#include "real/bootstrap/detail/job_token.h"
#include "real/bootstrap/detail/listener.h"
#include "real/bootstrap/detail/socket.h"
#include "real/bootstrap/detail/tcp_channel.h"
#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

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
