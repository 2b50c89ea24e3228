// Point-to-point transfers between ranks: each holds its links for 100 ps and arrives 10 ps after it left them.
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "sim/engine/heap_loop.h"
#include "sim/step/detail/recorder.h"

namespace plumbline::sim {
namespace {

constexpr Time latency = 10, duration = 100;

model::Transfer hop(bool send, std::int32_t peer, std::int32_t micro_batch, bool forward = true) {
  return {.send = send, .forward = forward, .peer = peer, .direction = 0, .stage = 0, .micro_batch = micro_batch};
}

// Three ranks and nine micro-batches.
model::Schedule three_ranks() {
  model::Schedule schedule;
  schedule.ranks.resize(3);
  schedule.ranks[0].push_back({.f_mb = 8});
  return schedule;
}

class MessageRuns : public testing::Test, public Handler {
 protected:
  struct Seen {
    std::int32_t sender, receiver, micro_batch;
    Time start, end, arrival;
    bool operator==(const Seen&) const = default;
  };

  void send(Time time, std::int32_t from, std::int32_t to, std::int32_t micro_batch, bool rendezvous = false) {
    at(time, [=, this] { messages_.post_send(from, hop(true, to, micro_batch), rendezvous); });
  }
  void receive(Time time, std::int32_t from, std::int32_t to, std::int32_t micro_batch) {
    at(time, [=, this] { messages_.post_receive(to, hop(false, from, micro_batch)); });
  }
  void at(Time time, std::function<void()> action) {
    loop_.at(time, {this, 0, 0, actions_.size()});
    actions_.push_back(std::move(action));
  }
  void handle(std::uint32_t, std::uint64_t argument) override { actions_[argument](); }

  const std::vector<Seen>& run() {
    loop_.run();
    return seen_;
  }

  HeapLoop loop_;
  model::Schedule schedule_ = three_ranks();
  std::vector<std::function<void()>> actions_;
  std::vector<Seen> seen_;
  Messages messages_{
      loop_, schedule_, 1, latency, {.bytes = to_seconds(duration), .rate = 1}, [this](const Messages::Arrival& a) {
        seen_.push_back({a.sender, a.receiver, a.micro_batch, a.start, a.end, loop_.now()});
      }};
};

TEST_F(MessageRuns, AnEagerMessageLeavesAtOnce) {
  send(5, 0, 1, 7);
  EXPECT_EQ(run(), (std::vector<Seen>{{0, 1, 7, 5, 105, 115}}));  // 5 + 100 on the links + 10
}

TEST_F(MessageRuns, AnEagerMessageMovesOnceThoughItsReceiveIsPostedLater) {
  send(0, 0, 1, 7);
  receive(50, 0, 1, 7);
  receive(500, 0, 1, 7);
  EXPECT_EQ(run(), (std::vector<Seen>{{0, 1, 7, 0, 100, 110}}));
}

TEST_F(MessageRuns, ARendezvousWaitsForTheReceiver) {
  send(0, 0, 1, 7, true);
  receive(50, 0, 1, 7);
  EXPECT_EQ(run(), (std::vector<Seen>{{0, 1, 7, 50, 150, 160}}));
}

TEST_F(MessageRuns, ARendezvousWaitsForTheSender) {
  receive(0, 0, 1, 7);
  send(50, 0, 1, 7, true);
  EXPECT_EQ(run(), (std::vector<Seen>{{0, 1, 7, 50, 150, 160}}));
}

TEST_F(MessageRuns, ARendezvousWithoutItsPartnerNeverMoves) {
  send(0, 0, 1, 7, true);
  receive(0, 1, 2, 8);
  EXPECT_TRUE(run().empty());
  EXPECT_FALSE(messages_.arrived(0, hop(true, 1, 7)));
}

TEST_F(MessageRuns, BothSidesAreNotifiedOfTheArrival) {
  send(0, 0, 1, 7);
  at(109, [this] { EXPECT_FALSE(messages_.arrived(1, hop(false, 0, 7))); });
  at(111, [this] {
    EXPECT_TRUE(messages_.arrived(1, hop(false, 0, 7)));
    EXPECT_TRUE(messages_.arrived(0, hop(true, 1, 7)));
    EXPECT_FALSE(
        messages_.arrived(1, hop(false, 0, 7, false)));  // the gradient of the same micro-batch is a separate transfer
  });
  EXPECT_EQ(run().size(), 1u);
}

TEST_F(MessageRuns, ASenderSendsOneAtATime) {
  send(0, 0, 1, 1);
  send(20, 0, 2, 2);
  // The second waits for the sender's link, free at 100; latencies overlap.
  EXPECT_EQ(run(), (std::vector<Seen>{{0, 1, 1, 0, 100, 110}, {0, 2, 2, 100, 200, 210}}));
}

TEST_F(MessageRuns, AReceiverReceivesOneAtATime) {
  send(0, 0, 2, 1);
  send(20, 1, 2, 2);
  EXPECT_EQ(run(), (std::vector<Seen>{{0, 2, 1, 0, 100, 110}, {1, 2, 2, 100, 200, 210}}));
}

TEST_F(MessageRuns, BothDirectionsOfALinkAreIndependent) {
  send(0, 0, 1, 1);
  send(0, 1, 0, 2);
  EXPECT_EQ(run(), (std::vector<Seen>{{0, 1, 1, 0, 100, 110}, {1, 0, 2, 0, 100, 110}}));
}

TEST_F(MessageRuns, ALinkThatFellIdleIsFree) {
  send(0, 0, 1, 1);
  send(250, 0, 1, 2);
  EXPECT_EQ(run(), (std::vector<Seen>{{0, 1, 1, 0, 100, 110}, {0, 1, 2, 250, 350, 360}}));
}

}  // namespace
}  // namespace plumbline::sim
