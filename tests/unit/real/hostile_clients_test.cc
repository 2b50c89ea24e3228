#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "real/bootstrap/bootstrap.h"
#include "real/bootstrap/detail/frame.h"
#include "real/bootstrap/detail/handshake.h"
#include "real/bootstrap/detail/job_token.h"
#include "real/bootstrap/detail/socket.h"
#include "tests/support/processes.h"
#include "tests/support/real/channel_ranks.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using tests::local_rank;

// Strangers at the port of rank 0: whatever they do, the job goes on, and rank 0 reports each kind of them once.

// The payload that a stranger of these tests reads.
constexpr std::uint64_t readable = 4096;

// The longest that a stranger waits for anything, so that it ends where rank 0 has failed.
Deadline soon() { return deadline_in(60); }

std::unique_ptr<Socket> stranger(int port) {
  return std::make_unique<Socket>(connect_to("127.0.0.1", port, soon()).value(), readable);
}

// Sends bytes as they are; rank 0 may have closed the connection.
void send_raw(const Socket& socket, const std::string& bytes) {
  ::send(socket.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void wait_for_end(Socket& socket) {
  while (socket.receive(soon())) continue;
}

struct Outcome {
  std::string error;  // of rank 0
  std::vector<std::string> log, gathered;
};

// Runs a job of three ranks in which `before` has the port before another rank does; `options` are those of rank 0.
Outcome job_among(const std::function<void(int port)>& before, ChannelOptions options = {}) {
  Outcome outcome;
  options.log = [&](const std::string& line) { outcome.log.push_back(line); };
  std::vector<std::jthread> others;
  const auto first = listen_as_first(local_rank(0, 3), options, [&](int port) {
    // Rank 0 must wait for connections while strangers talk to it.
    others.emplace_back([&before, port] {
      before(port);
      std::vector<std::jthread> ranks;
      for (const std::int32_t rank : {1, 2})
        ranks.emplace_back([rank, port] {
          const auto channel = connect_to_first(local_rank(rank, 3, port), {});
          if (channel) (*channel)->gather("rank " + std::to_string(rank)).value();
        });
    });
  });
  if (!first) {
    outcome.error = to_string(first.error());
  } else {
    outcome.gathered = (*first)->gather("rank 0").value();
    others.clear();
  }
  return outcome;
}

const auto all_came = testing::ElementsAre("rank 0", "rank 1", "rank 2");

TEST(HostileClients, WithoutTheTokenAreRefusedOneByOneAndReportedOnce) {
  constexpr int tries = 200;
  int refused = 0;
  const Outcome job = job_among([&](int port) {
    for (int i = 0; i < tries; ++i) {
      Bootstrap own = local_rank(1 + i % 2, 3, port);
      own.token += std::to_string(i);
      const auto channel = connect_to_first(own, {});
      if (!channel && to_string(channel.error()).ends_with("it does not have the token of this job")) ++refused;
    }
  });
  EXPECT_EQ(refused, tries);
  EXPECT_THAT(job.gathered, all_came);
  EXPECT_THAT(job.log,
              testing::ElementsAre("rank 0 refuses a connection of 127.0.0.1: it does not have the token of this job"));
}

// The time of a handshake where no test is to wait for its end: strangers stay, also on a slow machine.
const ChannelOptions patient{.handshake_s = 600};

// Port scans, other protocols, hellos without an end, lengths that no memory has, all of them open at a time.
TEST(HostileClients, SendWhatIsNotOfTheProtocol) {
  std::vector<std::unique_ptr<Socket>> open;
  const auto before = [&](int port) {
    for (int i = 0; i < 20; ++i) {
      stranger(port);                  // ends at once
      open.push_back(stranger(port));  // is silent
      auto web = stranger(port), giant = stranger(port), half = stranger(port);
      send_raw(*web, "GET / HTTP/1.1\r\nHost: n17\r\n\r\n");
      std::string header = header_of({Frame::Kind::hello, ""});
      header[12] = '\x7f';  // 545 GB
      send_raw(*giant, header);
      send_raw(*half, header_of({Frame::Kind::hello, std::string(44, 'x')}) + "half");
      wait_for_end(*web);
      wait_for_end(*giant);
      open.push_back(std::move(half));
    }
  };
  const Outcome job = job_among(before, patient);
  EXPECT_THAT(job.gathered, all_came);
  EXPECT_THAT(job.log, Contains(HasSubstr("sends what is not of the protocol")));
  EXPECT_THAT(job.log, Contains(HasSubstr("ended its connection early")));
  EXPECT_THAT(job.log, testing::SizeIs(2));
}

// A byte at a time, without an end: the connection gets no longer than a silent one.
TEST(HostileClients, DripBytes) {
  std::atomic<bool> over = false;
  std::jthread drip;
  const auto start = [&](int port) {
    // It is connected before rank 0 can end.
    drip = std::jthread([&over, socket = stranger(port)] {
      const std::string bytes = header_of({Frame::Kind::hello, std::string(400, 'x')}) + std::string(399, 'x');
      for (std::size_t i = 0; !over; i = (i + 1) % bytes.size()) {
        send_raw(*socket, bytes.substr(i, 1));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  };
  const Outcome job = job_among(start);
  EXPECT_THAT(job.gathered, all_came);
  over = true;
  drip.join();
  // Rank 0 keeps its deadline.
  over = false;
  const auto alone = listen_as_first(local_rank(0, 2), {.connect_s = 0.5}, start);
  over = true;
  ASSERT_FALSE(alone);
  EXPECT_THAT(to_string(alone.error()), HasSubstr("rank 1 did not connect to 127.0.0.1:"));
}

TEST(HostileClients, AreDroppedWhenTheirHandshakeTakesTooLong) {
  const Outcome job = job_among(
      [&](int port) {
        const auto silent = stranger(port);
        wait_for_end(*silent);
      },
      {.handshake_s = 2});
  EXPECT_THAT(job.gathered, all_came);
  EXPECT_THAT(job.log,
              Contains("rank 0 refuses a connection of 127.0.0.1: it has not finished its handshake within 2 s"));
}

// More silent strangers than may wait, whose oldest make way for whoever comes.
TEST(HostileClients, FillTheQueue) {
  std::vector<std::unique_ptr<Socket>> open;
  const auto before = [&](int port) {
    for (int i = 0; i < 400; ++i) open.push_back(stranger(port));
  };
  const Outcome job = job_among(before, patient);
  EXPECT_THAT(job.gathered, all_came);
  EXPECT_THAT(job.log, Contains(HasSubstr("is silent while many others connect")));
}

// Returns the error of rank 0 in a process that may open `files` files, of which others leave `left` once it listens.
std::string error_with_files(rlim_t files, std::int32_t ranks, std::size_t left, int strangers) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t child = tests::start_child([&] {
    ::close(ends[0]);
    const rlimit limit{files, files};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const auto first = listen_as_first(local_rank(0, ranks), {.connect_s = 2}, [&](int port) {
      std::vector<int> taken;
      for (int file = ::dup(0); file >= 0; file = ::dup(0)) taken.push_back(file);
      for (std::size_t i = 0; i < left; ++i) ::close(taken[i]);
      [[maybe_unused]] const auto written = ::write(ends[1], &port, sizeof port);
      // The time of rank 0 begins when all strangers have connected.
      [[maybe_unused]] const auto end = ::read(ends[1], &port, sizeof port);
    });
    const std::string error = first ? "" : to_string(first.error());
    [[maybe_unused]] const auto written = ::write(ends[1], error.data(), error.size());
  });
  ::close(ends[1]);
  int port = 0;
  std::vector<std::unique_ptr<Socket>> open;
  if (strangers > 0 && ::read(ends[0], &port, sizeof port) == sizeof port)
    for (int i = 0; i < strangers; ++i) open.push_back(stranger(port));
  ::shutdown(ends[0], SHUT_WR);
  std::string error(4096, '\0');
  std::size_t bytes = 0;
  while (const ssize_t got = ::read(ends[0], error.data() + bytes, error.size() - bytes)) {
    if (got < 0) break;
    bytes += static_cast<std::size_t>(got);
  }
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  return error.substr(0, bytes);
}

TEST(HostileClients, FewFilesAreAnErrorAndNoEndlessLoop) {
  EXPECT_THAT(error_with_files(256, 1100, 64, 0),
              HasSubstr("rank 0 may have 256 files open, and needs 1172 to talk to 1100 ranks"));
  EXPECT_THAT(error_with_files(100, 4, 5, 100), testing::AllOf(HasSubstr("ranks 1, 2, 3 did not connect to 127.0.0.1:"),
                                                               HasSubstr("connections were refused")));
  EXPECT_THAT(error_with_files(100, 4, 0, 1),
              HasSubstr("rank 0 can open no more files, and ranks 1, 2, 3 did not connect yet"));
}

// Where the token of a job comes from.

model::Result<std::string> token(const std::map<std::string, std::string>& variables,
                                 Machines machines = Machines::one) {
  return read_job_token(machines, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(JobToken, IsThatOfTheEnvironment) {
  EXPECT_EQ(token({{"PLUMBLINE_JOB_TOKEN", "0123456789abcdef"}, {"HOME", "/nowhere"}}), "0123456789abcdef");
  EXPECT_EQ(to_string(token({{"PLUMBLINE_JOB_TOKEN", "secret"}}).error()),
            "PLUMBLINE_JOB_TOKEN: 6 characters can be guessed (at least 16: openssl rand -hex 16)");
}

// torchrun's own id is "none" unless somebody chooses one, which no token is made of.
TEST(JobToken, IsTorchrunsIdWhereMachinesShareNoFile) {
  const tests::TemporaryDirectory home;
  const std::string id = "8f14e45f-ceea-467f-a9b0-5c6e2f1d7a10";
  std::map<std::string, std::string> variables{{"TORCHELASTIC_RUN_ID", id}, {"HOME", home.path().string()}};
  EXPECT_EQ(token(variables, Machines::several), id);
  const std::string own = token(variables, Machines::one).value();
  EXPECT_NE(own, id);
  variables["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(token(variables, Machines::several), own);
}

TEST(JobToken, IsAFileThatTheFirstProcessCreatesForItsUserAlone) {
  const tests::TemporaryDirectory home;
  std::vector<std::string> tokens(8);
  std::vector<std::jthread> processes;
  for (std::string& own : tokens)
    processes.emplace_back([&] { own = token({{"HOME", home.path().string()}}).value(); });
  processes.clear();
  EXPECT_THAT(tokens, testing::Each(tokens[0]));
  EXPECT_EQ(tokens[0].size(), 65U);  // 32 bytes as digits, and the end of the line
  const fs::path file = home.path() / ".local/state/plumbline/job-token";
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()), 1);
  EXPECT_EQ(token({{"HOME", "/nowhere"}, {"XDG_STATE_HOME", (home.path() / ".local/state").string()}}), tokens[0]);
}

TEST(JobToken, RefusesFilesThatOthersCanReadOrReplace) {
  const tests::TemporaryDirectory state;
  const fs::path file = state.write("plumbline/job-token", std::string(65, 'x'));
  const std::map<std::string, std::string> variables{{"XDG_STATE_HOME", state.path().string()}};
  EXPECT_THAT(to_string(token(variables).error()), HasSubstr("can be read by others (remove it, or set"));
  fs::permissions(file, fs::perms::owner_read);
  EXPECT_EQ(token(variables), std::string(65, 'x'));
  fs::rename(file, state.path() / "elsewhere");
  fs::create_symlink(state.path() / "elsewhere", file);
  EXPECT_THAT(to_string(token(variables).error()), HasSubstr("cannot be read"));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(to_string(token(variables).error()), HasSubstr("is no file"));
}

TEST(JobToken, NamesWhatToSetWhereThereIsNoPlaceForAFile) {
  EXPECT_THAT(to_string(token({}).error()), HasSubstr("set PLUMBLINE_JOB_TOKEN to the same secret on all ranks"));
  EXPECT_THAT(to_string(token({{"HOME", "/dev/null"}}).error()),
              HasSubstr("set PLUMBLINE_JOB_TOKEN to the same secret on all ranks"));
}

}  // namespace
}  // namespace plumbline::real
