// The guarantee of the event loop: events run in order of time, then priority, then scheduling.
#include "sim/engine/heap_loop.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

namespace plumbline::sim {
namespace {

using Order = std::tuple<Time, std::uint16_t, std::uint64_t>;  // time, priority, argument

// Records the events that run and their times; `then` may schedule more.
class Notes final : public Handler {
 public:
  explicit Notes(HeapLoop& loop) : loop_(loop) {}
  void handle(std::uint32_t code, std::uint64_t argument) override {
    seen.emplace_back(loop_.now(), static_cast<std::uint16_t>(code), argument);
    if (then) then(argument);
  }
  void at(Time time, std::uint16_t priority, std::uint64_t argument) {
    loop_.at(time, {this, priority, priority, argument});
  }
  std::vector<Order> seen;
  std::function<void(std::uint64_t)> then;

 private:
  HeapLoop& loop_;
};

class HeapLoops : public testing::Test {
 protected:
  HeapLoop loop_;
  Notes notes_{loop_};
};

TEST_F(HeapLoops, TheWholeRangeOfPrioritiesCounts) {
  notes_.at(1, 65535, 0);
  notes_.at(1, 32768, 1);
  notes_.at(1, 1, 2);
  loop_.run();
  EXPECT_EQ(notes_.seen, (std::vector<Order>{{1, 1, 2}, {1, 32768, 1}, {1, 65535, 0}}));
}

TEST_F(HeapLoops, EventsScheduledWhileRunningTakeTheirPlace) {
  notes_.then = [&](std::uint64_t argument) {
    if (argument != 0) return;
    notes_.at(loop_.now(), 0, 10);  // still at this time, after the events scheduled before
    notes_.at(15, 0, 11);           // between two known events
  };
  notes_.at(10, 0, 0);
  notes_.at(10, 0, 1);
  notes_.at(20, 0, 2);
  EXPECT_EQ(loop_.run(), 5u);
  EXPECT_EQ(notes_.seen, (std::vector<Order>{{10, 0, 0}, {10, 0, 1}, {10, 0, 10}, {15, 0, 11}, {20, 0, 2}}));
}

TEST_F(HeapLoops, RunsOnAfterItRanDry) {
  notes_.at(10, 0, 0);
  loop_.run();
  notes_.at(10, 0, 1);
  EXPECT_EQ(loop_.run(), 1u);
  EXPECT_EQ(notes_.seen, (std::vector<Order>{{10, 0, 0}, {10, 0, 1}}));
}

// Few distinct times and priorities, so that ties are common; the argument counts the scheduling.
RC_GTEST_PROP(HeapLoop, RunsAsAStableSortWould, (const std::vector<std::pair<std::uint8_t, std::uint8_t>>& events)) {
  HeapLoop loop;
  Notes notes(loop);
  std::vector<Order> expected;
  for (const auto& [time, priority] : events) {
    const auto rank = static_cast<std::uint16_t>(priority % 4);
    notes.at(time % 16, rank, expected.size());
    expected.emplace_back(time % 16, rank, expected.size());
  }
  std::sort(expected.begin(), expected.end());
  RC_ASSERT(loop.run() == events.size());
  RC_ASSERT(notes.seen == expected);
}

// Each event that runs schedules the next of the list, at a later or the same time.
RC_GTEST_PROP(HeapLoop, StaysInOrderWhileItGrows, (const std::vector<std::uint8_t>& delays)) {
  HeapLoop loop;
  Notes notes(loop);
  std::size_t next = 0;
  notes.then = [&](std::uint64_t) {
    for (int i = 0; i < 2 && next < delays.size(); ++i, ++next)
      notes.at(loop.now() + delays[next] % 8, delays[next] % 3, next);
  };
  notes.at(0, 0, delays.size());
  RC_ASSERT(loop.run() == delays.size() + 1);
  RC_ASSERT(std::is_sorted(notes.seen.begin(), notes.seen.end(),
                           [](const Order& a, const Order& b) { return std::get<0>(a) < std::get<0>(b); }));
}

}  // namespace
}  // namespace plumbline::sim
