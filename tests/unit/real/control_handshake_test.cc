// The handshake of the control channel, frame by frame: who has no token, or another job, program or inputs, is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "real/bootstrap/detail/frame.h"
#include "real/bootstrap/detail/handshake.h"

namespace plumbline::real {
namespace {

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
