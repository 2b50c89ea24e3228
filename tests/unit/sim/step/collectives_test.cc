// Collectives of data parallelism alone: when they start and end, and how much memory they take.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "sim/engine/heap_loop.h"
#include "sim/step/detail/data_parallel_runner.h"

namespace plumbline::sim {
namespace {

using Kind = Collectives::Kind;

// GPUs of one pipeline rank, each of which posts the next collective of a unit when one has ended on it.
class Chains {
 public:
  Chains(std::int32_t gpus, std::int32_t count, double slowdown)
      : gpus_(gpus),
        count_(count),
        collectives_(loop_, static_cast<std::size_t>(gpus), gpus, slowdown, {},
                     {[](std::int32_t, bool) {}, [this](const Collectives::Run& run) { ended(run); }}),
        next_(static_cast<std::size_t>(gpus), 0) {}

  void post(std::int32_t gpu, double seconds) {
    seconds_ = seconds;
    collectives_.post(gpu, 0,
                      {.kind = Kind::gather,
                       .number = next_[static_cast<std::size_t>(gpu)]++,
                       .members = static_cast<std::size_t>(gpus_)},
                      {.seconds = seconds});
  }
  void run() { loop_.run(); }

  const std::vector<Collectives::Run>& runs() const { return runs_; }
  Loop& loop() { return loop_; }
  Collectives& collectives() { return collectives_; }

 private:
  void ended(const Collectives::Run& run) {
    runs_.push_back(run);
    for (const std::int32_t gpu : run.gpus)
      if (next_[static_cast<std::size_t>(gpu)] < count_) post(gpu, seconds_);
  }

  HeapLoop loop_;
  std::int32_t gpus_, count_;
  Collectives collectives_;
  std::vector<std::int32_t> next_;  // [gpu] number of its next collective
  double seconds_ = 0;
  std::vector<Collectives::Run> runs_;
};

// A thousand collectives of one second, each posted after the one before it: they run one after the other, and one
// place holds them all.
TEST(Collectives, TakeTheMemoryOfThoseInFlight) {
  Chains chains(2, 1000, 1);
  for (const std::int32_t gpu : {0, 1}) chains.post(gpu, 1);
  chains.run();
  ASSERT_EQ(chains.runs().size(), 1000U);
  for (std::size_t i = 0; i < chains.runs().size(); ++i) {
    EXPECT_EQ(chains.runs()[i].start, to_time(static_cast<double>(i)));
    EXPECT_EQ(chains.runs()[i].end, to_time(static_cast<double>(i + 1)));
  }
  EXPECT_EQ(chains.collectives().places(), 1U);
}

// Compute that ends after a second.
class Compute final : public Handler {
 public:
  Compute(Loop& loop, Collectives& collectives) : collectives_(collectives) {
    collectives.computing(0, true);
    loop.at(to_time(1), {this, 0, 0, 0});
  }
  void handle(std::uint32_t, std::uint64_t) override { collectives_.computing(0, false); }

 private:
  Collectives& collectives_;
};

// With a slowdown of 2 while the GPU computes, a collective of one second would end after two. Compute ends after one
// second, half of the work is left, and it ends after 1.5 s. The void end at 2 s does not end the next one, which has
// the same place and takes from 1.5 to 2.5 s.
TEST(Collectives, AVoidEndDoesNotEndTheNextInItsPlace) {
  Chains chains(1, 2, 2);
  Compute compute(chains.loop(), chains.collectives());
  chains.post(0, 1);
  chains.run();
  ASSERT_EQ(chains.runs().size(), 2U);
  EXPECT_EQ(chains.runs()[0].end, to_time(1.5));
  EXPECT_EQ(chains.runs()[1].start, to_time(1.5));
  EXPECT_EQ(chains.runs()[1].end, to_time(2.5));
  EXPECT_EQ(chains.collectives().places(), 1U);
}

// Groups of a unit run by themselves, each of its two collectives after the other.
TEST(Collectives, GroupsOfAUnitDoNotWaitForEachOther) {
  HeapLoop loop;
  std::vector<Collectives::Run> runs;
  Collectives collectives(loop, 4, 4, 1, {},
                          {[](std::int32_t, bool) {}, [&](const Collectives::Run& run) { runs.push_back(run); }});
  for (const std::int32_t number : {0, 1})
    for (std::int32_t gpu = 0; gpu < 4; ++gpu)
      collectives.post(gpu, 0, {.kind = Kind::reduce, .number = number, .group = gpu / 2, .members = 2},
                       {.seconds = 1.0 + gpu / 2});
  loop.run();
  // Group 0 ends its two after 1 and 2 s, group 1 after 2 and 4 s. At most all four were posted at once.
  ASSERT_EQ(runs.size(), 4U);
  const auto end = [&](std::int32_t gpu, std::size_t which) {
    std::vector<Time> ends;
    for (const Collectives::Run& run : runs)
      if (run.gpus.front() == gpu) ends.push_back(run.end);
    return ends.at(which);
  };
  EXPECT_EQ(end(0, 0), to_time(1));
  EXPECT_EQ(end(0, 1), to_time(2));
  EXPECT_EQ(end(2, 0), to_time(2));
  EXPECT_EQ(end(2, 1), to_time(4));
  EXPECT_EQ(collectives.places(), 4U);
}

}  // namespace
}  // namespace plumbline::sim
