// Steps by events of the shipped DeepSeek-V3 plan: events per second, with and without its timeline, and plans per
// second. tests/bench/predictor_bench.cc has its closed form.
#include <benchmark/benchmark.h>

#include <memory>

#include "sim/predict/memos.h"
#include "sim/predict/simulate.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

void step(benchmark::State& state) {
  const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  const bool record = state.range(0) != 0;
  std::uint64_t events = 0;
  for (auto _ : state) {
    const Simulation simulation = simulate(inputs, Fidelity::step, record).value();
    events += simulation.events;
  }
  state.counters["events"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}
BENCHMARK(step)->ArgName("record")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// Runs the step with the routing already known, as in a search.
void step_again(benchmark::State& state) {
  Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  inputs.routing = std::make_shared<ExpertGroupMemo>();
  for (auto _ : state) benchmark::DoNotOptimize(simulate(inputs, Fidelity::step, false));
  state.counters["plans"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(step_again)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumbline::sim
