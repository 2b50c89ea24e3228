// Generating and evaluating every schedule on 64 ranks with 1,024 micro-batches: ops per second.
#include <benchmark/benchmark.h>

#include <string>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {
namespace {

constexpr ScheduleShape shape{.ranks = 64, .micro_batches = 1024};

std::size_t count_ops(const Schedule& schedule) {
  std::size_t ops = 0;
  for (const auto& rank : schedule.ranks) ops += rank.size();
  return ops;
}

void generate(benchmark::State& state, const ScheduleKind& kind) {
  std::size_t ops = 0;
  for (auto _ : state) ops += count_ops(kind.build(shape));
  state.counters["ops"] = benchmark::Counter(static_cast<double>(ops), benchmark::Counter::kIsRate);
}

void evaluate_mode(benchmark::State& state, const ScheduleKind& kind, PointToPoint mode) {
  const Schedule schedule = kind.build(shape);
  std::size_t ops = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(evaluate(schedule, ScheduleCosts{.p2p = 0.1}, mode));
    ops += count_ops(schedule);
  }
  state.counters["ops"] = benchmark::Counter(static_cast<double>(ops), benchmark::Counter::kIsRate);
}

// Registers the benchmarks of every schedule before main runs them.
const bool registered = [] {
  for (const ScheduleKind* kind : schedule_kinds()) {
    const std::string name(kind->name());
    benchmark::RegisterBenchmark(("generate/" + name).c_str(), [kind](benchmark::State& s) {
      generate(s, *kind);
    })->Unit(benchmark::kMillisecond);
    for (const PointToPoint mode : {PointToPoint::eager, PointToPoint::batched}) {
      const std::string label = "evaluate/" + name + (mode == PointToPoint::eager ? "/eager" : "/batched");
      benchmark::RegisterBenchmark(label.c_str(), [kind, mode](benchmark::State& s) {
        evaluate_mode(s, *kind, mode);
      })->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace plumbline::model
