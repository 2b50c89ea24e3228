// Memory of a plan whose step program exists, which a search needs for every candidate.
#include <benchmark/benchmark.h>

#include "model/memory/memory.h"
#include "model/program/compile.h"
#include "tests/support/step_inputs.h"

namespace plumbline::model {
namespace {

void memory_of_a_plan(benchmark::State& state, const char* plan) {
  const sim::Inputs inputs = tests::step_inputs(plan, "h800");
  const Layout layout = make_layout(inputs.plan, inputs.architecture).value();
  const StepProgram program = compile(inputs.plan, inputs.architecture, layout).value();
  double bytes = 0;
  for (auto _ : state) bytes += memory(inputs.plan, layout, program, inputs.cluster.device).peak_bytes;
  benchmark::DoNotOptimize(bytes);
  state.counters["plans"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(memory_of_a_plan, deepseek_v3, "deepseek-v3-2048xh800")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(memory_of_a_plan, llama_3_8b, "llama-3-8b-64xh800")->Unit(benchmark::kMicrosecond);

void slots_of_a_plan(benchmark::State& state) {
  const sim::Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  const Layout layout = make_layout(inputs.plan, inputs.architecture).value();
  const StepProgram program = compile(inputs.plan, inputs.architecture, layout).value();
  std::size_t moments = 0;
  for (auto _ : state)
    for (const SlotMemory& slot : slot_memories(program)) moments += slot.moments.size();
  state.counters["operators"] = benchmark::Counter(static_cast<double>(moments), benchmark::Counter::kIsRate);
}
BENCHMARK(slots_of_a_plan)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plumbline::model
