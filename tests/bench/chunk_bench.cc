// One overlapped pair of chunks of DeepSeek-V3, kernel by kernel.
#include <benchmark/benchmark.h>

#include "sim/step/chunk.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

void chunk_pair(benchmark::State& state) {
  const ChunkModel chunk = ChunkModel::make(tests::step_inputs(tests::deepseek_plan, "h800")).value();
  std::size_t kernels = 0;
  for (auto _ : state) kernels += chunk.run({})->timeline.kernels.size();
  state.counters["kernels"] = benchmark::Counter(static_cast<double>(kernels), benchmark::Counter::kIsRate);
}
BENCHMARK(chunk_pair)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plumbline::sim
