// Flows on both loops: their times alone, limits, changes of links, and failures. Both loops must agree when no link is
// shared; flows that share one are in fidelity/wire_test.cc.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/heap_loop.h"
#include "sim/network/simgrid_loop.h"
#include "tests/support/network.h"

namespace plumbline::sim {
namespace {

using Seen = std::vector<std::pair<std::string, Time>>;
constexpr Time microsecond = 1'000'000;  // in picoseconds

// Expects equal times to the picosecond.
void expect_time(Time time, Time expected) {
  EXPECT_LE(std::abs(time - expected), 1) << time << " ps, not " << expected;
}

SimGridNetwork network_of(const std::vector<topologies::Link>& links) {
  auto network = SimGridNetwork::make(links);
  EXPECT_TRUE(network) << to_string(network.error());
  return std::move(*network);
}

class Flows : public testing::Test {
 protected:
  // There are two links of 50 GB/s and one of 10 GB/s.
  const std::vector<topologies::Link> links_ = tests::links_of({50e9, 50e9, 10e9});
  const Footprint fast_ = {{0, 1}}, other_ = {{1, 1}}, slow_ = {{2, 1}};
};

// Runs the same program on both loops.
template <class Loop>
Seen flows_alone(Loop& loop) {
  static const Footprint once = {{0, 1}}, twice = {{1, 2}}, both = {{0, 1}, {2, 1}};
  tests::Script script(loop);
  loop.flow({&once, 50e3}, script.task("once"));
  loop.flow({&twice, 50e3}, script.task("twice"));
  loop.at(10 * microsecond, script.task("timer", [&] {
    loop.flow({&both, 50e3}, script.task("both"));
    loop.flow({&twice, 50e3, 5e9}, script.task("limited"));
    loop.flow({nullptr, 50e3}, script.task("no links"));
    loop.flow({nullptr, 50e3, 50e9}, script.task("limit alone"));
    loop.flow({&twice, 0}, script.task("no bytes"));
  }));
  loop.run();
  return script.seen;
}

TEST_F(Flows, TakeTheTimeOfTheirSlowestLinkOnEitherLoop) {
  // 50 kB at 50 GB/s: 1 us; at 25 (crossing twice): 2 us; at 10 of the slowest link: 5 us; at a limit of 5: 10 us.
  const Seen expected = {{"once", microsecond},          {"twice", 2 * microsecond},
                         {"timer", 10 * microsecond},    {"no links", 10 * microsecond},
                         {"no bytes", 10 * microsecond}, {"limit alone", 11 * microsecond},
                         {"both", 15 * microsecond},     {"limited", 20 * microsecond}};
  HeapLoop heap(links_);
  EXPECT_EQ(flows_alone(heap), expected);
  SimGridNetwork network = network_of(links_);
  SimGridLoop simgrid(network);
  EXPECT_EQ(flows_alone(simgrid), expected);
}

template <class Loop>
Seen events_of_one_time(Loop& loop) {
  static const Footprint first = {{0, 1}}, second = {{1, 1}};
  tests::Script script(loop);
  loop.at(microsecond, script.task("timer 1", {}, 1));
  loop.flow({&first, 50e3}, script.task("flow 1", {}, 1));
  loop.flow({&second, 50e3}, script.task("flow 0", {}, 0));
  loop.at(microsecond, script.task("timer 0", {}, 0));
  loop.run();
  return script.seen;
}

TEST_F(Flows, EndsAndTimersOfOneTimeRunByPriorityThenStart) {
  const Seen expected = {
      {"flow 0", microsecond}, {"timer 0", microsecond}, {"timer 1", microsecond}, {"flow 1", microsecond}};
  HeapLoop heap(links_);
  EXPECT_EQ(events_of_one_time(heap), expected);
  SimGridNetwork network = network_of(links_);
  SimGridLoop simgrid(network);
  EXPECT_EQ(events_of_one_time(simgrid), expected);
}

TEST_F(Flows, FractionsOfABytePerPicosecondCount) {
  SimGridNetwork network = network_of(links_);
  SimGridLoop loop(network);
  tests::Script script(loop);
  // 0.05 B take 1 ps at 50 GB/s.
  loop.flow({&fast_, 100.05}, script.task("a"));
  loop.flow({&other_, 100}, script.task("b"));
  loop.run();
  EXPECT_EQ(script.seen, (Seen{{"b", 2000}, {"a", 2001}}));
}

template <class Loop>
Seen changing_limit(Loop& loop) {
  static const Footprint links = {{0, 1}};
  tests::Script script(loop);
  const FlowId flow = loop.flow({&links, 50e3, 25e9}, script.task("flow"));
  loop.at(microsecond, script.task("faster", [&] { loop.set_rate_limit(flow, 100e9); }));
  loop.at(5 * microsecond, script.task("too late", [&] { loop.set_rate_limit(flow, 1e9); }));
  loop.run();
  return script.seen;
}

TEST_F(Flows, LimitsChangeWhileTheyRun) {
  // 1 us at 25 GB/s leaves 25 kB; then the link's 50 GB/s bind: 0.5 us more.
  const Seen expected = {{"faster", microsecond}, {"flow", 1'500'000}, {"too late", 5 * microsecond}};
  HeapLoop heap(links_);
  EXPECT_EQ(changing_limit(heap), expected);
  SimGridNetwork network = network_of(links_);
  SimGridLoop simgrid(network);
  EXPECT_EQ(changing_limit(simgrid), expected);
}

template <class Loop>
Seen joined(Loop& loop) {
  static const Footprint link = {{0, 1}}, apart = {{1, 1}};
  const auto flow = [](double bytes) { return Flow{.footprint = &link, .bytes = bytes, .owner = 1}; };
  tests::Script script(loop);
  loop.flow(flow(100e3), script.task("first"));
  loop.at(microsecond, script.task("join", [&] {
    loop.flow(flow(50e3), script.task("second", [&] { loop.flow(flow(50e3), script.task("after")); }));
  }));
  const FlowId limited = loop.flow({&apart, 100e3, 100e9, {}, 2}, script.task("limited"));
  loop.at(microsecond / 2, script.task("slower", [&] { loop.set_rate_limit(limited, 25e9); }));
  loop.at(3 * microsecond / 2, script.task("join the limited", [&] {
    loop.flow({&apart, 25e3, unlimited, {}, 2}, script.task("with the limited"));
  }));
  loop.run();
  return script.seen;
}

TEST_F(Flows, ShareWithThoseThatJoinThem) {
  // 1 us alone leaves 50 kB, which take 2 us at half of the bandwidth, as those of the second do; then a flow is alone.
  // 0.5 us at 50 GB/s leave 75 kB, 1 us at 25 GB/s 50 kB, which take 2 us at that limit whether or not 25 kB more cross
  // the link in 1 us.
  const Seen expected = {{"slower", microsecond / 2},
                         {"join", microsecond},
                         {"join the limited", 3 * microsecond / 2},
                         {"with the limited", 5 * microsecond / 2},
                         {"first", 3 * microsecond},
                         {"second", 3 * microsecond},
                         {"limited", 7 * microsecond / 2},
                         {"after", 4 * microsecond}};
  HeapLoop heap(links_);
  EXPECT_EQ(joined(heap), expected);
  SimGridNetwork network = network_of(links_);
  SimGridLoop simgrid(network);
  EXPECT_EQ(joined(simgrid), expected);
}

TEST_F(Flows, SlowDownWithTheirLinkAndRecoverWithIt) {
  SimGridNetwork network = network_of(links_);
  for (const double start : {0.0, 0.25e-3}) {
    SimGridLoop loop(network);
    tests::Script script(loop);
    ASSERT_TRUE(loop.change({0.25e-3, 0, 0.25}));
    ASSERT_TRUE(loop.change({0.75e-3, 0, 1}));
    loop.at(to_time(start), script.task("start", [&] { loop.flow({&fast_, 50e6}, script.task("end")); }));
    loop.run();
    // 1 ms of work; 0.5 ms at a quarter of the bandwidth does 0.125 ms of it: 0.375 ms longer, also for the flow that
    // starts on the slow link.
    ASSERT_EQ(script.seen.size(), 2u);
    EXPECT_NEAR(to_seconds(script.seen[1].second), start + 1.375e-3, 2e-12);
  }
}

TEST_F(Flows, FailWithTheirLinkAndNameItAndTheTime) {
  SimGridNetwork network = network_of(links_);
  SimGridLoop loop(network);
  tests::Script script(loop);
  const Footprint both = {{1, 1}, {0, 1}};
  ASSERT_TRUE(loop.change({0.5e-6, 0, 0}));
  ASSERT_TRUE(loop.change({3e-6, 0, 1}));
  const FlowId first = loop.flow({&both, 50e3, unlimited, script.task("first failed")}, script.task("first"));
  loop.flow({&other_, 50e3}, script.task("unharmed"));
  loop.at(2 * microsecond, script.task("start", [&] { loop.flow({&fast_, 50e3}, script.task("on a dead link")); }));
  loop.at(4 * microsecond, script.task("start", [&] { loop.flow({&fast_, 50e3}, script.task("on a repaired link")); }));
  loop.run();
  ASSERT_EQ(loop.failures().size(), 2u);
  EXPECT_EQ(loop.failures()[0].flow, first);
  EXPECT_EQ(loop.failures()[0].time, microsecond / 2);
  EXPECT_EQ(loop.failures()[0].reason, "link link0 failed");
  EXPECT_EQ(loop.failures()[1].time, 2 * microsecond);
  // This flow shared link 1 with the failed one: 0.5 us at half the rate, then the whole rate: 1.25 us.
  ASSERT_EQ(script.seen.size(), 5u);
  EXPECT_EQ(script.seen[0], (Seen::value_type{"first failed", microsecond / 2}));
  EXPECT_EQ(script.seen[1].first, "unharmed");
  expect_time(script.seen[1].second, 1'250'000);
  EXPECT_EQ(script.seen[4], (Seen::value_type{"on a repaired link", 5 * microsecond}));
}

TEST_F(Flows, WhatSimGridCannotRunFailsWithAReason) {
  auto network = SimGridNetwork::make(links_, 1);
  ASSERT_TRUE(network);
  SimGridLoop loop(*network);
  tests::Script script(loop);
  const Footprint nowhere = {{3, 1}}, never = {{0, 0}};
  loop.flow({&nowhere, 1}, script.task(""));
  loop.flow({&never, 1}, script.task(""));
  loop.flow({&fast_, std::nan("")}, script.task(""));
  loop.flow({&fast_, -1}, script.task(""));
  loop.flow({&fast_, 1e20}, script.task(""));
  loop.flow({&fast_, 1, 0}, script.task(""));
  loop.flow({&fast_, 1e9, 1}, script.task(""));
  loop.flow({&fast_, 1e3, 1e9}, script.task("limited"));
  loop.flow({&fast_, 1e3, 1e9}, script.task(""));
  std::vector<std::string> reasons;
  for (const FlowFailure& failure : loop.failures()) reasons.push_back(failure.reason);
  EXPECT_EQ(reasons,
            (std::vector<std::string>{"there is no link 3", "link link0 is crossed 0 times", "a flow of nan bytes",
                                      "a flow of -1 bytes", "a flow of 1e+20 bytes", "a flow limited to 0 B/s",
                                      "a flow of 1000000000 s", "too many flows with a rate limit"}));
  loop.run();
  EXPECT_EQ(script.seen, (Seen{{"limited", microsecond}}));
}

TEST_F(Flows, ChangesOfLinksAreChecked) {
  SimGridNetwork network = network_of(links_);
  SimGridLoop loop(network);
  EXPECT_EQ(loop.change({0, 3, 0.5}).error().message, "there is no link 3");
  EXPECT_EQ(loop.change({0, 0, 1.5}).error().message, "a link's factor is 0, or 1e-06 to 1, not 1.5");
  EXPECT_EQ(loop.change({-1, 0, 0.5}).error().message, "a link cannot change at -1 s");
}

TEST_F(Flows, OneNetworkPerProcessAtATime) {
  {
    SimGridNetwork network = network_of(links_);
    const auto second = SimGridNetwork::make(links_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, model::ErrorKind::infeasible);
  }
  EXPECT_TRUE(SimGridNetwork::make(links_));
  const std::vector<topologies::Link> dead = tests::links_of({50e9, 0});
  EXPECT_EQ(SimGridNetwork::make(dead).error().message, "link link1 has a bandwidth of 0 B/s");
}

TEST_F(Flows, ALoopThatIsDroppedLeavesTheNetworkAsItWas) {
  SimGridNetwork network = network_of(links_);
  for (int i = 0; i < 3; ++i) {
    SimGridLoop loop(network);
    tests::Script script(loop);
    ASSERT_TRUE(loop.change({0, 0, 0.5}));
    loop.flow({&fast_, 50e3, 20e9}, script.task("never"));
    loop.at(microsecond, script.task("never"));
  }
  SimGridLoop loop(network);
  tests::Script script(loop);
  loop.flow({&fast_, 50e3}, script.task("end"));
  loop.run();
  EXPECT_EQ(script.seen, (Seen{{"end", microsecond}}));
}

TEST_F(Flows, ManyEvaluationsGiveTheSamePicoseconds) {
  SimGridNetwork network = network_of(links_);
  const auto evaluate = [&] {
    SimGridLoop loop(network);
    tests::Script script(loop);
    const Footprint shared = {{0, 3}, {1, 1}};
    loop.flow({&shared, 1.7e6}, script.task("a", [&] { loop.flow({&slow_, 3.1e6, 9e9}, script.task("b")); }));
    loop.flow({&fast_, 4.3e6}, script.task("c", [&] { loop.flow({&shared, 0.9e6}, script.task("d")); }));
    loop.at(70 * microsecond, script.task("e", [&] { loop.flow({&other_, 2.2e6}, script.task("f")); }));
    loop.run();
    return script.seen;
  };
  const Seen first = evaluate();
  EXPECT_EQ(first.size(), 6u);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(evaluate(), first) << "evaluation " << i;
}

// Flows over 513 links each, of which each two share one: where they end, SimGrid's solver recurses over all 262,145
// links, those of 32,768 GPUs. Its frames of 96 bytes take 24 MiB.
TEST(SimGridStack, IsAsLargeAsTheLinksNeed) {
  constexpr std::size_t flows = 512, links = flows * 512 + 1;
  const auto listed = tests::links_of(std::vector<double>(links, 50e9));
  std::vector<Footprint> footprints(flows);
  for (std::size_t flow = 0; flow < flows; ++flow)
    for (std::size_t link = 0; link <= 512; ++link)
      footprints[flow].push_back({static_cast<LinkId>(flow * 512 + link), 1});
  Seen seen;
  ASSERT_TRUE(on_own_stack(links, [&] {
    SimGridNetwork network = network_of(listed);
    SimGridLoop loop(network);
    tests::Script script(loop);
    for (const Footprint& footprint : footprints) loop.flow({&footprint, 50e3}, script.task("end"));
    loop.run();
    seen = script.seen;
  }));
  ASSERT_EQ(seen.size(), flows);
  expect_time(seen.back().second, 2 * microsecond);
}

TEST(SimGridStack, HasABound) {
  EXPECT_EQ(on_own_stack(10'000'000, [] {}).error().message,
            "10000000 links are more than SimGrid's solver can recurse over");
  EXPECT_THROW(static_cast<void>(on_own_stack(1, [] { throw std::bad_alloc(); })), std::bad_alloc);
}

// A program of timers and flows; each flow has a link of its own while it runs, so no link is shared.

class Program {
 public:
  Program(Loop& loop, const std::vector<std::pair<std::uint8_t, std::uint32_t>>& steps)
      : loop_(loop), script_(loop), steps_(steps) {}
  // GPU i runs every steps_.size() / 8th step, one after the other.
  void start() {
    for (std::size_t gpu = 0; gpu < 8; ++gpu) next(gpu);
  }
  const Seen& seen() const { return script_.seen; }

 private:
  void next(std::size_t step) {
    if (step >= steps_.size()) return;
    const auto [kind, amount] = steps_[step];
    footprints_[step % 8] = {{static_cast<LinkId>(step % 8), 1 + kind % 3u}};
    const double bytes = amount % 1000003 + 0.25;
    const Task then = script_.task(
        std::to_string(step), [this, step] { next(step + 8); }, kind % 5);
    if (kind % 4 == 0) {
      loop_.at(loop_.now() + amount % 90001, then);
    } else if (kind % 4 == 1) {
      const FlowId flow = loop_.flow({&footprints_[step % 8], bytes, 3e9}, then);
      loop_.at(loop_.now() + amount % 9001, script_.task("limit", [this, flow] { loop_.set_rate_limit(flow, 7e9); }));
    } else {
      loop_.flow({&footprints_[step % 8], bytes}, then);
    }
  }

  Loop& loop_;
  tests::Script script_;
  std::vector<std::pair<std::uint8_t, std::uint32_t>> steps_;
  std::array<Footprint, 8> footprints_;
};

// Both round the end of each flow to picoseconds, from doubles that differ in their last bits; so a chain of n flows
// may drift by n picoseconds.
RC_GTEST_PROP(Loops, AgreeWhenNothingIsShared, ()) {
  const auto steps = *rc::gen::container<std::vector<std::pair<std::uint8_t, std::uint32_t>>>(
      rc::gen::pair(rc::gen::arbitrary<std::uint8_t>(), rc::gen::arbitrary<std::uint32_t>()));
  const std::vector<topologies::Link> links = tests::links_of({50e9, 25e9, 10e9, 40e9, 1e9, 160e9, 450e9, 12.5e9});
  HeapLoop heap(links);
  Program on_heap(heap, steps);
  on_heap.start();
  heap.run();
  SimGridNetwork network = network_of(links);
  SimGridLoop simgrid(network);
  Program on_simgrid(simgrid, steps);
  on_simgrid.start();
  simgrid.run();
  const auto time_of = [](const Seen& seen, const std::string& name) {
    for (const auto& [step, time] : seen)
      if (step == name) return time;
    return Time{-1};
  };
  RC_ASSERT(on_heap.seen().size() == on_simgrid.seen().size());
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const Time difference =
        time_of(on_heap.seen(), std::to_string(step)) - time_of(on_simgrid.seen(), std::to_string(step));
    RC_ASSERT(std::abs(difference) <= static_cast<Time>(1 + step / 8));
  }
}

// This must be the last test: SimGrid's clock never goes back in this process.
class LongAfter : public Flows {};
TEST_F(LongAfter, FlowsEndOnAClockOfCoarseSteps) {
  SimGridNetwork network = network_of(links_);
  SimGridLoop loop(network);
  tests::Script script(loop);
  constexpr Time second = 1'000'000 * microsecond;
  // 10,000 s at 1 GB/s, and short flows after 20,000 s, where a double has steps of 3.6 ps.
  loop.flow({&slow_, 1e13, 1e9}, script.task("long"));
  loop.at(20'000 * second, script.task("late", [&] {
    for (int i = 0; i < 3; ++i) loop.flow({&fast_, 50e3 + i}, script.task("short"));
  }));
  loop.run();
  ASSERT_EQ(script.seen.size(), 5u);
  EXPECT_LE(std::abs(script.seen[0].second - 10'000 * second), 10);
  for (std::size_t i = 2; i < 5; ++i)
    EXPECT_LE(std::abs(script.seen[i].second - 20'000 * second - 3 * microsecond), 100) << script.seen[i].second;
}

}  // namespace
}  // namespace plumbline::sim
