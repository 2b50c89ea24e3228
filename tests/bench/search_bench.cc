// Plans decided and evaluated per second of searches on 2,048 GPUs. DeepSeek-V3 has fixed tensor, context and expert
// degrees and even experts; Llama-3-405B is searched over its whole space.
#include <benchmark/benchmark.h>

#include "model/architecture/load_architecture.h"
#include "sim/search/search.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

void measure(benchmark::State& state, const Inputs& inputs) {
  SearchResult found;
  for (auto _ : state) found = search(inputs, {}).value();
  const auto per_second = [&](std::uint64_t plans) {
    return benchmark::Counter(static_cast<double>(state.iterations() * plans), benchmark::Counter::kIsRate);
  };
  state.counters["plans"] = static_cast<double>(found.space);
  state.counters["decided_per_s"] = per_second(found.space);
  state.counters["evaluated_per_s"] = per_second(found.evaluated);
}

void deepseek_v3(benchmark::State& state) {
  measure(state, tests::step_inputs(tests::deepseek_plan, "h800",
                                    {"routing.imbalance=0", "search.tensor=1", "search.context=1", "search.expert=64",
                                     "search.expert_tensor=1", "search.micro_batch_size=[1, 2]"}));
}
BENCHMARK(deepseek_v3)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime();

void llama_3_405b(benchmark::State& state) {
  Inputs inputs = tests::step_inputs(
      tests::llama_plan, "h100-public",
      {"cluster.topology=h100-dgx", "cluster.gpus=2048", "batch.sequence_length=8192", "batch.global_batch_size=2048"});
  inputs.architecture = model::load_architecture(tests::shipped("examples/models/llama-3-405b.json")).value();
  measure(state, inputs);
}
BENCHMARK(llama_3_405b)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime();

}  // namespace
}  // namespace plumbline::sim
