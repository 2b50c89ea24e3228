// Plans per second of a sweep over the communication SMs of the shipped DeepSeek-V3 plan, on one thread and on all.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>

#include "sim/whatif/sweep.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

constexpr std::size_t points = 16;

// Uneven expert rows make every distinct slot a run of the whole expert group.
void sweep_sms(benchmark::State& state, Fidelity fidelity, bool even = false) {
  Inputs base = tests::step_inputs(tests::deepseek_plan, "h800");
  if (even) base.plan.routing.imbalance = 0;
  const SweepInputs inputs = [&base](std::size_t point) {
    Inputs one = base;  // files are read once, as only the sweep is measured
    one.plan.overlap.communication_sms = static_cast<std::int64_t>(8 + 2 * point);
    return model::Result<Inputs>(std::move(one));
  };
  for (auto _ : state)
    benchmark::DoNotOptimize(
        sweep(points, inputs, {.fidelity = fidelity, .threads = static_cast<unsigned>(state.range(0))}).value());
  state.counters["plans"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * points, benchmark::Counter::kIsRate);
}
// Other threads than the timed one work too, so the wall clock counts.
BENCHMARK_CAPTURE(sweep_sms, step, Fidelity::step)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(0)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep_sms, closed_form, Fidelity::closed_form)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(0)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(sweep_sms, closed_form_even_rows, Fidelity::closed_form, true)
    ->ArgName("threads")
    ->Arg(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumbline::sim
