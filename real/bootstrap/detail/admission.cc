#include "real/bootstrap/detail/admission.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

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

}  // namespace

void RefusalLog::add(const std::string& who, const std::string& reason) {
  constexpr std::size_t most_lines = 50;
  ++count_;
  last_ = fmt::format("{}: it {}", who, reason);
  if (counts_.size() == most_lines && !counts_.contains(last_)) return;
  if (counts_[last_]++ > 0 || !write_) return;
  write_(fmt::format("rank 0 refuses a connection of {}", last_));
  if (counts_.size() == most_lines) write_("rank 0 does not report further refusals");
}

std::string RefusalLog::summary() const {
  if (count_ == 0) return "";
  return fmt::format("; {} connection{} refused, the last one of {}", count_, count_ == 1 ? " was" : "s were", last_);
}

Admission::Admission(const Listener& listener, const Identity& own, const ChannelOptions& options,
                     std::size_t strangers)
    : listener_(listener),
      own_(own),
      strangers_(strangers),
      connect_s_(options.connect_s),
      handshake_s_(options.handshake_s),
      log_(options.log),
      admitted_(static_cast<std::size_t>(own.ranks) - 1) {}

std::vector<std::int32_t> Admission::missing() const {
  std::vector<std::int32_t> ranks;
  for (std::size_t i = 0; i < admitted_.size(); ++i)
    if (!admitted_[i]) ranks.push_back(static_cast<std::int32_t>(i) + 1);
  return ranks;
}

model::Result<Sockets> Admission::run() {
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

// Waits for the next event of any connection, and handles all that there are.
model::Result<void> Admission::wait(Deadline deadline) {
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

model::Result<void> Admission::accept(const File& listening) {
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

bool Admission::serve(Visitor& visitor) {
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
bool Admission::admit(Visitor& visitor) {
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

void Admission::refuse(Visitor& visitor, const HandshakeStep& step) {
  if (step.answer) visitor.socket->send(*step.answer, 0);
  const std::int32_t rank = visitor.handshake.rank();
  log_.add(rank > 0 ? fmt::format("rank {} at {}", rank, visitor.name) : visitor.name, step.refused);
}

void Admission::drop_late() {
  while (!visitors_.empty() && milliseconds_until(visitors_.front().deadline) == 0)
    drop_oldest(fmt::format("has not finished its handshake within {:g} s", handshake_s_));
}

void Admission::drop_oldest(const std::string& reason) {
  refuse(visitors_.front(), {.refused = reason});
  visitors_.pop_front();
}

// A rank that ends before the job begins may be started again.
void Admission::drop_ended(std::size_t place) {
  log_.add(fmt::format("rank {} at {}", place + 1, address_of_peer(admitted_[place]->file())),
           "ended before the job began");
  admitted_[place].reset();
}

tl::unexpected<model::Error> Admission::fail(const std::string& reason, const std::string& hint) {
  for (const auto& socket : admitted_)
    if (socket) socket->send({Frame::Kind::abort, reason}, answer_s);
  return infeasible(reason, hint);
}

}  // namespace plumbline::real
