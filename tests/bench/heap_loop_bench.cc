// Events per second of the event loop with a constant set of pending events, as GPUs cause it: every event that runs
// schedules one more.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "model/base/random.h"
#include "sim/engine/heap_loop.h"

namespace plumbline::sim {
namespace {

class Rescheduler final : public Handler {
 public:
  Rescheduler(HeapLoop& loop, std::int64_t events) : loop_(loop), left_(events) {}
  void schedule() {
    --left_;
    // Events are scheduled up to a millisecond ahead, in picoseconds.
    loop_.at(loop_.now() + static_cast<Time>(random_.next() % 1'000'000'000), {this, 0, 0, 0});
  }
  void handle(std::uint32_t, std::uint64_t) override {
    if (left_ > 0) schedule();
  }

 private:
  HeapLoop& loop_;
  std::int64_t left_;
  model::Random random_{1};
};

void heap_loop(benchmark::State& state) {
  constexpr std::int64_t events = 1 << 20;
  for (auto _ : state) {
    HeapLoop loop;
    Rescheduler rescheduler(loop, events);
    for (std::int64_t i = 0; i < state.range(0); ++i) rescheduler.schedule();
    benchmark::DoNotOptimize(loop.run());
  }
  state.SetItemsProcessed(state.iterations() * events);
}
BENCHMARK(heap_loop)->Arg(64)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumbline::sim
