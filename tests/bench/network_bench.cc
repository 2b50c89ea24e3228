// The speed of the network simulation: all-to-alls by footprint and flow by flow, the platform of a large cluster, and
// events and flows per second of the SimGrid loop and the heap loop.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/base/random.h"
#include "sim/engine/heap_loop.h"
#include "sim/network/simgrid_loop.h"
#include "tests/support/flow_time.h"
#include "tests/support/network.h"

namespace plumbline::sim {
namespace {

using topologies::Fabric;

double resident_mb() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) * 1e-6;
}

// One all-to-all over 64 GPUs, or 32 of them at the same time over 2,048.
void all_to_all(benchmark::State& state,
                std::vector<TrafficFlow> (*flows_of)(const Fabric&, std::span<const Transfer>)) {
  const std::int64_t groups = state.range(0);
  const Fabric fabric = *Fabric::make(tests::planes_of_nodes(), 64 * groups);
  auto network = SimGridNetwork::make(fabric.links());
  std::vector<TrafficFlow> flows;
  for (std::int64_t group = 0; group < groups; ++group) {
    const auto transfers = transfers_of(fabric, tests::expert_dispatch(tests::gpus_from(64 * group, 64)));
    for (TrafficFlow& flow : flows_of(fabric, *transfers)) flows.push_back(std::move(flow));
  }
  for (auto _ : state) benchmark::DoNotOptimize(*tests::simulate_seconds(*network, flows, {}));
  state.counters["flows"] = static_cast<double>(flows.size());
}
BENCHMARK_CAPTURE(all_to_all, footprint, footprint_flows)->Arg(1)->Arg(32)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_to_all, flow_by_flow, tests::flow_by_flow)->Arg(1)->Unit(benchmark::kMicrosecond);

void closed_form(benchmark::State& state) {
  const Fabric fabric = *Fabric::make(tests::planes_of_nodes(), 64);
  const auto transfers = *transfers_of(fabric, tests::expert_dispatch(tests::gpus_from(0, 64)));
  for (auto _ : state) benchmark::DoNotOptimize(bottleneck_seconds(fabric, transfers));
}
BENCHMARK(closed_form)->Unit(benchmark::kMicrosecond);

// Fabric and SimGrid's links; "RSS_MB" is the memory of the whole process with them.
void platform(benchmark::State& state) {
  double resident = 0;
  std::size_t links = 0;
  for (auto _ : state) {
    const Fabric fabric = *Fabric::make(tests::planes_of_nodes(), state.range(0));
    const auto network = SimGridNetwork::make(fabric.links());
    links = fabric.links().size();
    state.PauseTiming();
    resident = std::max(resident, resident_mb());
    state.ResumeTiming();
  }
  state.counters["links"] = static_cast<double>(links);
  state.counters["RSS_MB"] = resident;
}
BENCHMARK(platform)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond);

// Each event that runs schedules one more.
class Rescheduler final : public Handler {
 public:
  Rescheduler(Loop& loop, std::int64_t events) : loop_(loop), left_(events) {}
  void schedule() {
    --left_;
    // Up to a millisecond ahead, in picoseconds.
    loop_.at(loop_.now() + static_cast<Time>(random_.next() % 1'000'000'000), {this, 0, 0, 0});
  }
  void handle(std::uint32_t, std::uint64_t) override {
    if (left_ > 0) schedule();
  }

 private:
  Loop& loop_;
  std::int64_t left_;
  model::Random random_{1};
};

// With a constant set of pending events, as GPUs cause it.
void reschedule(benchmark::State& state, Loop& loop, std::int64_t events) {
  Rescheduler rescheduler(loop, events);
  for (std::int64_t i = 0; i < state.range(0); ++i) rescheduler.schedule();
  benchmark::DoNotOptimize(loop.run());
  state.SetItemsProcessed(state.items_processed() + events);
}

void timers(benchmark::State& state) {
  const std::vector<topologies::Link> links = tests::links_of({50e9});
  auto network = SimGridNetwork::make(links);
  for (auto _ : state) {
    SimGridLoop loop(*network);
    reschedule(state, loop, 1 << 18);
  }
}
BENCHMARK(timers)->Arg(64)->Arg(4096)->Unit(benchmark::kMillisecond);

void heap_loop(benchmark::State& state) {
  for (auto _ : state) {
    HeapLoop loop;
    reschedule(state, loop, 1 << 20);
  }
}
BENCHMARK(heap_loop)->Arg(64)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

// The size of a training step: 16 GPUs, each 5,000 times four kernels and then an all-to-all; 80,000 flows in all. A
// GPU's flows cross the links of one GPU each, or of all 64 of its group.
class StepProgram final : public Handler {
 public:
  static constexpr std::uint64_t gpus = 16, flows_per_gpu = 5000, kernels = 4;
  StepProgram(Loop& loop, const std::vector<Footprint>& footprints) : loop_(loop), footprints_(footprints) {
    for (std::uint64_t gpu = 0; gpu < gpus; ++gpu) handle(0, gpu);
  }
  void handle(std::uint32_t step, std::uint64_t gpu) override {
    if (step == flows_per_gpu * (kernels + 1)) return;
    const Task next = {this, step + 1, 0, gpu};
    if (step % (kernels + 1) == kernels)
      loop_.flow({&footprints_[gpu], 2e6 + static_cast<double>(gpu)}, next);
    else
      loop_.at(loop_.now() + 20'000'000 + static_cast<Time>(random_.next() % 1'000'000), next);
  }

 private:
  Loop& loop_;
  const std::vector<Footprint>& footprints_;
  model::Random random_{1};
};

std::vector<Footprint> network_footprints(const Fabric& fabric, bool whole_group) {
  std::vector<Footprint> footprints;
  for (std::int64_t rank = 0; rank < static_cast<std::int64_t>(StepProgram::gpus); ++rank) {
    std::vector<Transfer> transfers;
    for (std::int64_t gpu = 64 * rank; gpu < 64 * rank + (whole_group ? 64 : 1); ++gpu)
      transfers.push_back({gpu, 64 * rank + (gpu + 8) % 64, 1, 0});
    footprints.push_back(footprint_flows(fabric, transfers)[0].footprint);
  }
  return footprints;
}

void step(benchmark::State& state, bool on_simgrid) {
  const Fabric fabric = *Fabric::make(tests::planes_of_nodes(), 1024);
  const std::vector<Footprint> footprints = network_footprints(fabric, state.range(0) > 1);
  auto network = SimGridNetwork::make(fabric.links());
  std::uint64_t events = 0;
  for (auto _ : state) {
    std::unique_ptr<Loop> loop;
    if (on_simgrid)
      loop = std::make_unique<SimGridLoop>(*network);
    else
      loop = std::make_unique<HeapLoop>(fabric.links());
    StepProgram program(*loop, footprints);
    events = loop->run();
  }
  state.counters["links_per_flow"] = static_cast<double>(footprints[0].size());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(events));
}
BENCHMARK_CAPTURE(step, on_simgrid, true)->Arg(1)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, on_heap, false)->Arg(1)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumbline::sim
