#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "real/bootstrap/bootstrap.h"
#include "real/bootstrap/detail/tcp_channel.h"

namespace plumbline::real {

namespace {

using model::Result;

// The longest wait for a hello, so that a connection that sends nothing does not block the other ranks.
constexpr double hello_s = 5;

Deadline deadline_of(const ChannelOptions& options) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(options.connect_s));
}

std::string hello(const Bootstrap& bootstrap) { return fmt::format("{} {}", bootstrap.rank, bootstrap.ranks); }

// Returns the rank in a connection's hello; 0: it is no rank of this job.
std::int32_t named_rank(const std::optional<Frame>& frame, std::int32_t ranks) {
  if (!frame || frame->kind != Frame::Kind::hello) return 0;
  for (std::int32_t rank = 1; rank < ranks; ++rank)
    if (frame->bytes == fmt::format("{} {}", rank, ranks)) return rank;
  return 0;
}

std::vector<std::int32_t> missing(const Sockets& sockets) {
  std::vector<std::int32_t> ranks;
  for (std::size_t i = 0; i < sockets.size(); ++i)
    if (!sockets[i]) ranks.push_back(static_cast<std::int32_t>(i) + 1);
  return ranks;
}

// Returns "rank 3" or "ranks 1, 2, 3 and 9 more".
std::string names_of(std::vector<std::int32_t> ranks) {
  constexpr std::size_t shown = 8;
  const std::size_t more = ranks.size() > shown ? ranks.size() - shown : 0;
  const char* plural = ranks.size() == 1 ? "" : "s";
  ranks.resize(ranks.size() - more);
  return fmt::format("rank{} {}{}", plural, fmt::join(ranks, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// Rank 0 has a connection to every other rank. Raises this process's limit of open files for it as far as is allowed.
Result<void> allow_files(std::int32_t ranks) {
  constexpr rlim_t others = 64;  // files that the process has open besides
  const rlim_t wanted = static_cast<rlim_t>(ranks) + others;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return {};
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (limit.rlim_cur == wanted && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
  return infeasible(
      fmt::format("rank 0 may have {} files open, and needs {} to talk to {} ranks", limit.rlim_max, wanted, ranks),
      "raise the limit where rank 0 runs: ulimit -Hn");
}

}  // namespace

Result<std::unique_ptr<ControlChannel>> listen_as_first(const Bootstrap& bootstrap, const ChannelOptions& options,
                                                        const std::function<void(int)>& listening) {
  TRY(allow_files(bootstrap.ranks));
  auto listener = TRY(Listener::open(bootstrap.port));
  if (listening) listening(listener.port());
  const Deadline deadline = deadline_of(options);
  Sockets sockets(static_cast<std::size_t>(bootstrap.ranks) - 1);
  for (std::size_t come = 0; come < sockets.size();) {
    const auto file = listener.accept(deadline);
    if (!file) {
      const std::string reason = fmt::format("{} did not connect to port {} within {:g} s", names_of(missing(sockets)),
                                             listener.port(), options.connect_s);
      for (const auto& socket : sockets)
        if (socket) socket->send({Frame::Kind::abort, reason});
      return infeasible(reason, "start all ranks of the job; MASTER_ADDR is where rank 0 runs");
    }
    auto socket = std::make_unique<Socket>(*file);
    socket->limit(hello_s);
    const std::int32_t rank = named_rank(socket->receive(), bootstrap.ranks);
    socket->limit(0);
    auto* place = rank == 0 ? nullptr : &sockets[static_cast<std::size_t>(rank) - 1];
    if (place == nullptr || *place) {
      socket->send({Frame::Kind::abort,
                    fmt::format("rank 0 of {} does not expect this rank, or it connected twice", bootstrap.ranks)});
      continue;
    }
    *place = std::move(socket);
    ++come;
  }
  for (const auto& socket : sockets) socket->send({Frame::Kind::welcome, ""});
  return make_tcp_channel(bootstrap.rank, bootstrap.ranks, options, std::move(sockets));
}

Result<std::unique_ptr<ControlChannel>> connect_to_first(const Bootstrap& bootstrap, const ChannelOptions& options) {
  const auto file = TRY(connect_to(bootstrap.host, bootstrap.port, deadline_of(options)));
  Sockets sockets;
  sockets.push_back(std::make_unique<Socket>(file));
  Socket& socket = *sockets[0];
  socket.limit(options.connect_s + hello_s);  // at its own deadline rank 0 sends which ranks are missing
  const auto answer = socket.send({Frame::Kind::hello, hello(bootstrap)}) ? socket.receive() : std::nullopt;
  socket.limit(0);
  if (answer && answer->kind == Frame::Kind::welcome)
    return make_tcp_channel(bootstrap.rank, bootstrap.ranks, options, std::move(sockets));
  if (answer && answer->kind == Frame::Kind::abort) return infeasible(answer->bytes);
  return infeasible(
      fmt::format("the process at {}:{} is not rank 0 of this job, or has ended", bootstrap.host, bootstrap.port),
      "set MASTER_ADDR and MASTER_PORT");
}

Result<std::unique_ptr<ControlChannel>> connect(const Bootstrap& bootstrap, const ChannelOptions& options) {
  if (bootstrap.ranks == 1) return lone_channel();
  if (bootstrap.host.empty())
    return infeasible(fmt::format("{} does not give the address of rank 0", bootstrap.starter),
                      "set MASTER_ADDR to the node of rank 0, on all ranks");
  return bootstrap.rank == 0 ? listen_as_first(bootstrap, options) : connect_to_first(bootstrap, options);
}

}  // namespace plumbline::real
