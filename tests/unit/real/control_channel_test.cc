#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <latch>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "real/bootstrap/bootstrap.h"
#include "real/bootstrap/detail/frame.h"
#include "real/bootstrap/detail/handshake.h"
#include "tests/support/processes.h"
#include "tests/support/real/channel_ranks.h"

namespace plumbline::real {
namespace {

using Variables = std::map<std::string, std::string>;
using testing::HasSubstr;
using tests::local_rank;
using tests::on_ranks;

// Ranks connect, send each other texts and numbers, and all end when one of them is lost.

model::Result<Bootstrap> read(const Variables& variables) {
  return read_bootstrap([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Bootstrap, IsOneRankWhereNobodyStartedSeveral) {
  const Bootstrap alone = read({}).value();
  EXPECT_EQ(alone.rank, 0);
  EXPECT_EQ(alone.ranks, 1);
  EXPECT_EQ(alone.starter, "");
}

TEST(Bootstrap, LeavesTorchrunItsOwnPort) {
  Variables variables{{"RANK", "9"},          {"WORLD_SIZE", "16"},     {"LOCAL_RANK", "1"},
                      {"MASTER_ADDR", "n17"}, {"MASTER_PORT", "29400"}, {"LOCAL_WORLD_SIZE", "8"}};
  EXPECT_EQ(read(variables)->port, 29400);
  variables["TORCHELASTIC_RUN_ID"] = "none";
  const Bootstrap found = read(variables).value();
  EXPECT_EQ(found.starter, "torchrun");
  EXPECT_EQ(found.rank, 9);
  EXPECT_EQ(found.ranks, 16);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.host, "n17");
  EXPECT_EQ(found.port, 29401);
  variables["PLUMBLINE_PORT"] = "4000";
  EXPECT_EQ(read(variables)->port, 4000);
}

TEST(Bootstrap, ReadsMpirun) {
  const Bootstrap one_node = read({{"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})
                                 .value();
  EXPECT_EQ(one_node.starter, "mpirun");
  EXPECT_EQ(one_node.local_rank, 3);
  EXPECT_EQ(one_node.host, "127.0.0.1");
  EXPECT_EQ(one_node.listen, "127.0.0.1");
  EXPECT_EQ(one_node.machines, Machines::one);
  const Bootstrap two_nodes = read({{"OMPI_COMM_WORLD_RANK", "3"},
                                    {"OMPI_COMM_WORLD_SIZE", "4"},
                                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
                                  .value();
  EXPECT_EQ(two_nodes.host, "");
  EXPECT_EQ(two_nodes.machines, Machines::several);
  const auto channel = connect(two_nodes);
  ASSERT_FALSE(channel);
  EXPECT_EQ(to_string(channel.error()),
            "mpirun does not give the address of rank 0 (set MASTER_ADDR to the node of rank 0, on all ranks)");
}

// A job of one machine needs no other interface than loopback, whatever name its starter gives the machine.
TEST(Bootstrap, ListensAtTheAddressOfTheJobAlone) {
  Variables variables{{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "8"}, {"MASTER_ADDR", "n17"}};
  EXPECT_EQ(read(variables)->listen, "127.0.0.1");
  EXPECT_EQ(read(variables)->host, "127.0.0.1");
  variables["WORLD_SIZE"] = "16";
  EXPECT_EQ(read(variables)->listen, "n17");
  variables["PLUMBLINE_LISTEN"] = "10.0.0.1";
  EXPECT_EQ(read(variables)->listen, "10.0.0.1");
  EXPECT_EQ(read(variables)->host, "n17");
}

TEST(Bootstrap, NamesTheJob) {
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}})->job, "");
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}})->job, "torchrun none");
  EXPECT_EQ(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "3"}})->job,
            "Slurm 17.3");
}

TEST(Bootstrap, FindsTheFirstNodeOfSlurm) {
  Variables variables{{"SLURM_PROCID", "8"}, {"SLURM_NTASKS", "16"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "41007"}};
  const std::pair<std::string, std::string> lists[] = {
      {"gpu[003-004]", "gpu003"}, {"gpu[7,9-12],login1", "gpu7"}, {"alpha,beta[1-2]", "alpha"}, {"solo", "solo"}};
  for (const auto& [list, first] : lists) {
    variables["SLURM_JOB_NODELIST"] = list;
    const Bootstrap found = read(variables).value();
    EXPECT_EQ(found.starter, "srun");
    EXPECT_EQ(found.rank, 8);
    EXPECT_EQ(found.host, first);
    EXPECT_EQ(found.port, 29507);
  }
  variables["SLURM_STEP_NODELIST"] = "gpu[004]";
  EXPECT_EQ(read(variables)->host, "gpu004");
}

TEST(Bootstrap, NamesWhatIsNoNumber) {
  EXPECT_EQ(to_string(read({{"RANK", "two"}, {"WORLD_SIZE", "4"}}).error()),
            "RANK: 'two' is no number of ranks or ports (the starter of the ranks, such as torchrun or srun, sets it)");
  EXPECT_EQ(to_string(read({{"RANK", "4"}, {"WORLD_SIZE", "4"}}).error()),
            "RANK: there is no rank 4 among 4 (the starter of the ranks, such as torchrun or srun, sets it)");
  EXPECT_THAT(to_string(read({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "70000"}}).error()),
              HasSubstr("MASTER_PORT: 70000 is no port"));
}

TEST(ControlChannel, SumsGathersAndBroadcastsInTheOrderOfRanks) {
  const auto said = on_ranks(4, {3, 1, 0, 2}, {}, [](ControlChannel& channel) {
    const auto rank = static_cast<double>(channel.rank());
    // 1e16 + 1 is rounded: only one order of adding gives these bits.
    const auto sums = channel.sum({rank, rank == 0 ? 1e16 : 1.0}).value();
    EXPECT_THAT(sums, testing::ElementsAre(6, ((1e16 + 1) + 1) + 1));
    const auto all = channel.gather("rank " + std::to_string(channel.rank())).value();
    if (channel.rank() == 0) {
      EXPECT_THAT(all, testing::ElementsAre("rank 0", "rank 1", "rank 2", "rank 3"));
    } else {
      EXPECT_THAT(all, testing::IsEmpty());
    }
    const std::string key(128, '\0');
    EXPECT_EQ(channel.broadcast(channel.rank() == 0 ? key : "").value(), key);
    EXPECT_THAT(channel.sum({}).value(), testing::IsEmpty());
    return channel.failure().value_or("fine");
  });
  EXPECT_THAT(said, testing::Each(testing::Eq("fine")));
}

TEST(ControlChannel, CarriesMuch) {
  const std::string large(std::size_t{20} << 20, 'x');
  on_ranks(3, {0, 1, 2}, {}, [&](ControlChannel& channel) {
    const auto all = channel.gather(large).value();
    EXPECT_EQ(all.size(), channel.rank() == 0 ? 3U : 0U);
    for (const std::string& text : all) EXPECT_TRUE(text == large);
    EXPECT_TRUE(channel.broadcast(large).value() == large);
    return "";
  });
}

TEST(ControlChannel, RefusesSumsOfDifferentLengthOnAllRanks) {
  const auto said = on_ranks(2, {0, 1}, {}, [](ControlChannel& channel) {
    return to_string(channel.sum(std::vector<double>(static_cast<std::size_t>(channel.rank()) + 1)).error());
  });
  EXPECT_THAT(said, testing::Each(testing::Eq("ranks sum different numbers of values")));
}

TEST(ControlChannel, SendsAllRanksTheReasonWhyOneEndsTheJob) {
  const auto said = on_ranks(3, {0, 1, 2}, {}, [](ControlChannel& channel) {
    if (channel.rank() == 2) {
      channel.abort("out of memory");
      return std::string();
    }
    const auto sum = channel.sum({1});
    EXPECT_EQ(channel.failure(), "rank 2: out of memory");
    return sum ? "went on" : to_string(sum.error());
  });
  EXPECT_THAT(said, testing::ElementsAre("rank 2: out of memory", "rank 2: out of memory", ""));
}

TEST(ControlChannel, NamesWhoDidNotCome) {
  const auto said = on_ranks(4, {0, 2}, {.connect_s = 3}, [](ControlChannel&) { return "came"; });
  EXPECT_THAT(said[0], HasSubstr("ranks 1, 3 did not connect to 127.0.0.1:"));
  EXPECT_THAT(said[2], HasSubstr("ranks 1, 3 did not connect to 127.0.0.1:"));
}

TEST(ControlChannel, NamesWhoIsSilent) {
  std::latch noticed(1);
  const auto said = on_ranks(2, {0, 1}, {.wait_s = 0.2}, [&](ControlChannel& channel) {
    if (channel.rank() == 1) {
      noticed.wait();
      return std::string();
    }
    const std::string error = to_string(channel.gather("").error());
    noticed.count_down();
    return error;
  });
  EXPECT_EQ(said[0], "rank 1 has not answered for 0.2 s");
}

TEST(ControlChannel, NamesWhereRankZeroWasLookedFor) {
  const auto channel = connect(local_rank(1, 2, 1), {.connect_s = 0.1});
  ASSERT_FALSE(channel);
  EXPECT_THAT(to_string(channel.error()), HasSubstr("rank 0 cannot be reached at 127.0.0.1:1: Connection refused"));
}

// A name that is a loopback address here would let the other machines wait for nothing.
TEST(ControlChannel, NamesAnAddressThatNoOtherMachineReaches) {
  Bootstrap first = local_rank(0, 2);
  first.machines = Machines::several;
  const auto channel = connect(first);
  ASSERT_FALSE(channel);
  EXPECT_THAT(to_string(channel.error()), HasSubstr("which no other machine of this job reaches"));
  first.listen = "192.0.2.1";  // an address for documentation, which no machine has
  const auto elsewhere = connect(first);
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(to_string(elsewhere.error()),
              HasSubstr("rank 0 cannot listen at 192.0.2.1: this machine does not have the address"));
}

// A process that dies sends nothing; the others detect it even while they wait for another rank.
TEST(ControlChannel, NamesAProcessThatDied) {
  int pipe_files[2];
  ASSERT_EQ(::pipe(pipe_files), 0);
  const pid_t child = tests::start_child([&] {
    ::close(pipe_files[1]);
    int port = 0;
    if (::read(pipe_files[0], &port, sizeof port) != sizeof port) return;
    const auto channel = connect_to_first(local_rank(1, 3, port), {});
    if (channel) (*channel)->gather("one last word").value();
    ::_exit(0);  // without the destructor, which would announce its end
  });
  std::jthread third;
  const auto first = listen_as_first(local_rank(0, 3), {}, [&](int port) {
    EXPECT_EQ(::write(pipe_files[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    third = std::jthread([port] {
      const auto channel = connect_to_first(local_rank(2, 3, port), {});
      ASSERT_TRUE(channel);
      while (!(*channel)->failure()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ((*channel)->failure(), "rank 1 ended without a word");
    });
  });
  ASSERT_TRUE(first);
  const auto all = (*first)->gather("");
  ASSERT_FALSE(all);
  EXPECT_EQ(to_string(all.error()), "rank 1 ended without a word");
  third.join();
  ::waitpid(child, nullptr, 0);
  ::close(pipe_files[0]);
  ::close(pipe_files[1]);
}

// The handshake of the control channel, frame by frame: who has no token, or another job, program or inputs, is
// refused.

const Identity first_rank{0, 4, "a token of the job", "job 17", "plumbline 1", "pipeline = 2\nexpert = 4\n"};

Identity other_rank() {
  Identity other = first_rank;
  other.rank = 3;
  return other;
}

// What both ends have sent, and how it ended.
struct Talk {
  std::vector<Frame> of_other, of_first;
  std::string refused_by_first, refused_by_other;
  bool done = false;
};

Talk talk(const Identity& first, const Identity& other) {
  FirstHandshake here(first);
  OtherHandshake there(other);
  Talk talk;
  std::optional<Frame> next = there.hello();
  while (next) {
    talk.of_other.push_back(*next);
    const HandshakeStep answer = here.take(*next);
    talk.refused_by_first = answer.refused;
    talk.done = answer.done;
    if (!answer.answer) break;
    talk.of_first.push_back(*answer.answer);
    const HandshakeStep reply = there.take(*answer.answer);
    talk.refused_by_other = reply.refused;
    next = reply.answer;
  }
  return talk;
}

TEST(Handshake, AdmitsARankOfTheJob) {
  const Talk done = talk(first_rank, other_rank());
  EXPECT_TRUE(done.done);
  EXPECT_EQ(done.refused_by_first + done.refused_by_other, "");
  for (const auto& sent : {done.of_other, done.of_first})
    for (const Frame& frame : sent) EXPECT_EQ(frame.bytes.find(first_rank.token), std::string::npos);
}

// Wrong, absent, recorded and cut proofs, and those with a bit that is wrong: none of a thousand is taken.
TEST(Handshake, RefusesEveryProofWithoutTheToken) {
  std::mt19937_64 random(27);
  const Talk recorded = talk(first_rank, other_rank());
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    FirstHandshake here(first_rank);
    Identity stranger = other_rank();
    if (i % 5 == 0) stranger.token = first_rank.token.substr(0, random() % first_rank.token.size());
    if (i % 5 == 1) stranger.token[random() % stranger.token.size()] ^= static_cast<char>(1 + random() % 127);
    OtherHandshake there(stranger);
    const HandshakeStep challenge = here.take(i % 5 == 2 ? recorded.of_other[0] : there.hello());
    Frame proof = i % 5 == 2 ? recorded.of_other[1] : there.take(*challenge.answer).answer.value();
    if (i % 5 == 3) proof.bytes.resize(random() % proof.bytes.size());
    if (i % 5 == 4) proof.bytes[random() % proof.bytes.size()] ^= static_cast<char>(1 << random() % 7);
    const HandshakeStep verdict = here.take(proof);
    EXPECT_EQ(here.rank(), 0);
    if (verdict.refused == "does not have the token of this job" && verdict.answer->kind == Frame::Kind::abort)
      ++refused;
  }
  EXPECT_EQ(refused, 1000);
}

// A process without the token lets rank 0 and a rank prove something to each other's numbers: neither proof is of use.
TEST(Handshake, RefusesItsOwnProofs) {
  FirstHandshake here(first_rank);
  OtherHandshake there(other_rank());
  const HandshakeStep challenge = here.take(there.hello());
  const HandshakeStep proof = there.take(*challenge.answer);
  EXPECT_EQ(there.take(*proof.answer).refused, "it does not have the token of this job");
  const HandshakeStep own = here.take(*proof.answer);
  EXPECT_EQ(here.rank(), 3);
  FirstHandshake again(first_rank);
  again.take(there.hello());
  EXPECT_EQ(again.take(*own.answer).refused, "does not have the token of this job");
}

// A rank does not send its inputs to a process that has not proved that it is rank 0.
TEST(Handshake, RefusesARankZeroWithoutTheToken) {
  OtherHandshake there(other_rank());
  const HandshakeStep proof = there.take({Frame::Kind::challenge, std::string(proof_bytes, 'x')});
  ASSERT_TRUE(proof.answer);
  const HandshakeStep end = there.take({Frame::Kind::proof, std::string(proof_bytes, 'y')});
  EXPECT_EQ(end.refused, "it does not have the token of this job");
  EXPECT_FALSE(end.answer);
  OtherHandshake early(other_rank());
  EXPECT_EQ(early.take({Frame::Kind::welcome, ""}).refused, "it sends what is not of the protocol");
}

TEST(Handshake, NamesWhatDiffers) {
  const auto refusal = [](auto change) {
    Identity other = other_rank();
    change(other);
    const Talk end = talk(first_rank, other);
    EXPECT_FALSE(end.done);
    EXPECT_THAT(end.refused_by_other, testing::HasSubstr("rank 0 refuses this process: it " + end.refused_by_first));
    return end.refused_by_first;
  };
  EXPECT_EQ(refusal([](Identity& other) { other.ranks = 8; }), "is one of 8 ranks, but rank 0 one of 4");
  EXPECT_EQ(refusal([](Identity& other) { other.rank = 4; }), "claims to be rank 4 of 4");
  EXPECT_EQ(refusal([](Identity& other) { other.rank = -1; }), "claims to be rank -1 of 4");
  EXPECT_EQ(refusal([](Identity& other) { other.job = "job 18"; }), "is of job 'job 18', rank 0 of job 'job 17'");
  EXPECT_EQ(refusal([](Identity& other) { other.program = "plumbline 2"; }), "is plumbline 2, rank 0 is plumbline 1");
  EXPECT_EQ(refusal([](Identity& other) { other.inputs = "pipeline = 2\nexpert = 8\n"; }),
            "has other inputs: 'expert = 8' where rank 0 has 'expert = 4'");
  EXPECT_EQ(refusal([](Identity& other) { other.inputs = "pipeline = 2\n"; }),
            "has other inputs: '' where rank 0 has 'expert = 4'");
}

// The hello of processes before there were tokens: "2 4" for rank 2 of 4.
TEST(Handshake, RefusesAnotherVersionOfTheProtocol) {
  FirstHandshake here(first_rank);
  const HandshakeStep end = here.take({Frame::Kind::hello, "2 4"});
  EXPECT_EQ(end.refused, "is of another version of plumbline");
  EXPECT_THAT(end.answer.value().bytes, testing::HasSubstr("it is of another version of plumbline"));
}

TEST(Handshake, RefusesFramesOutOfOrder) {
  const Talk recorded = talk(first_rank, other_rank());
  for (const Frame& frame : {recorded.of_other[1], recorded.of_other[2], Frame{Frame::Kind::data, "x"}}) {
    FirstHandshake here(first_rank);
    EXPECT_EQ(here.take(frame).refused, "sends what is not of the protocol");
    EXPECT_EQ(here.rank(), 0);
  }
  FirstHandshake twice(first_rank);
  twice.take(recorded.of_other[0]);
  EXPECT_EQ(twice.take(recorded.of_other[0]).refused, "sends what is not of the protocol");
}

TEST(Handshake, ShowsNothingThatSteersATerminal) {
  EXPECT_EQ(shown("a\x1b[2Jb\nc"), "a [2Jb c");
  EXPECT_EQ(shown(std::string(5000, 'x')).size(), 400U);
}

TEST(FrameReader, CutsBytesIntoFramesWhereverTheyAreDivided) {
  const std::vector<Frame> frames{{Frame::Kind::hello, ""}, {Frame::Kind::data, "text"}, {Frame::Kind::leave, "end"}};
  std::string bytes;
  for (const Frame& frame : frames) bytes += header_of(frame) + frame.bytes;
  for (std::size_t part = 1; part <= bytes.size(); ++part) {
    FrameReader reader(16);
    std::vector<Frame> found;
    for (std::size_t at = 0; at < bytes.size(); at += part) {
      reader.add(std::string_view(bytes).substr(at, part));
      while (auto frame = reader.next()) found.push_back(std::move(*frame));
    }
    ASSERT_EQ(found.size(), frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(found[i].kind, frames[i].kind);
      EXPECT_EQ(found[i].bytes, frames[i].bytes);
    }
    EXPECT_FALSE(reader.broken());
  }
}

TEST(FrameReader, RefusesLengthsKindsAndBytesThatAreNoFrames) {
  const std::string header = header_of({Frame::Kind::data, std::string(17, 'x')});
  std::string kind = header, magic = header;
  kind[4] = 99;
  magic[0] = 'X';
  for (const std::string& bytes : {header, kind, magic, std::string("GET / HTTP/1.1\r\n\r\n")}) {
    FrameReader reader(16);
    reader.add(bytes);
    EXPECT_FALSE(reader.next());
    EXPECT_TRUE(reader.broken());
    reader.add(header_of({Frame::Kind::leave, ""}));
    EXPECT_FALSE(reader.next());
  }
}

}  // namespace
}  // namespace plumbline::real
