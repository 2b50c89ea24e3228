// A campaign of 54 days on 16,384 GPUs with 18 kinds of failures and 1,000 seeds, the search for its interval included.
#include <benchmark/benchmark.h>

#include "sim/campaign/campaign.h"

namespace plumbline::sim {
namespace {

void llama_3(benchmark::State& state) {
  CampaignInput input;
  input.gpus = 16384;
  input.phases = {{"pretraining", 54 * 86400, 1, 1}};
  // 419 failures of 18 kinds in 16,384 * 54 GPU-days.
  const double per_gpu_hour = 419.0 / 18 / (16384 * 54 * 24);
  input.failures.assign(18, {.name = "component", .per_gpu_hour = per_gpu_hour, .detect_s = 300, .repair_s = 86400});
  input.checkpoint = {.stall_s = 3, .write_s = 60, .load_s = 60};
  input.restart_s = 450;
  input.spare_nodes = 16;
  input.seeds = 1000;
  double interruptions = 0;
  for (auto _ : state) interruptions = run_campaign(input).value().mean_interruptions;
  state.counters["interruptions"] = interruptions;
}
BENCHMARK(llama_3)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime();

}  // namespace
}  // namespace plumbline::sim
