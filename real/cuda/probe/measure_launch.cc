// What it costs to start work: single kernels, and graphs of them.
#include <chrono>
#include <utility>

#include "real/cuda/kernels/measuring.h"
#include "real/cuda/probe/measure.h"
#include "real/cuda/probe/timing.h"

namespace plumbline::real::cuda {

namespace {

constexpr int launches = 100;
constexpr std::int64_t head_start_ns = 2000000;  // in which the host enqueues all launches of a sample

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Status measure_launch(const Case& what, const MeasureOptions& options, Toolbox& tools,
                      std::vector<Measurement>& results) {
  const Enqueue once = [](cudaStream_t on) { return outcome(empty(on), "launching"); };
  const Enqueue many = [&](cudaStream_t on) {
    for (int i = 0; i < launches; ++i) PLUMBLINE_TRY(once(on));
    return Status{};
  };
  Graph graph;
  PLUMBLINE_TRY(many(tools.stream));
  PLUMBLINE_TRY(graph.capture(once, launches, tools.stream));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "warming up"));
  std::vector<Measurement> measured = blank_measurements(what);
  const Event start, end;
  for (int sample = 0; sample < options.samples; ++sample) {
    double gap = 0;
    PLUMBLINE_TRY(outcome(spin(head_start_ns, tools.stream), "spinning"));
    PLUMBLINE_TRY(outcome(cudaEventRecord(start.get(), tools.stream), "recording an event"));
    const auto host_start = std::chrono::steady_clock::now();
    PLUMBLINE_TRY(many(tools.stream));
    measured[0].samples_us.push_back(seconds_since(host_start) * 1e6 / launches);
    PLUMBLINE_TRY(outcome(cudaEventRecord(end.get(), tools.stream), "recording an event"));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "launching"));
    PLUMBLINE_TRY(elapsed_us(start, end, gap));
    measured[1].samples_us.push_back(gap / launches);
    const auto trip_start = std::chrono::steady_clock::now();
    PLUMBLINE_TRY(once(tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "launching"));
    measured[3].samples_us.push_back(seconds_since(trip_start) * 1e6);
  }
  PLUMBLINE_TRY(sample_hot([&](cudaStream_t on) { return graph.launch(on); }, options.samples, tools.stream,
                           measured[2].samples_us));
  for (double& replay : measured[2].samples_us) replay /= launches;
  for (Measurement& each : measured) results.push_back(std::move(each));
  return {};
}

Status measure_graph(const Case& what, const MeasureOptions& options, Toolbox& tools,
                     std::vector<Measurement>& results) {
  Graph graph;
  PLUMBLINE_TRY(outcome(empty(tools.stream), "launching"));  // loads the kernel before it is captured
  PLUMBLINE_TRY(graph.capture([](cudaStream_t on) { return outcome(empty(on), "launching"); },
                              static_cast<int>(what.nodes), tools.stream));
  PLUMBLINE_TRY(graph.launch(tools.stream));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "warming up"));
  std::vector<Measurement> measured = blank_measurements(what);
  for (int sample = 0; sample < options.samples; ++sample) {
    const auto start = std::chrono::steady_clock::now();
    PLUMBLINE_TRY(graph.launch(tools.stream));
    measured[0].samples_us.push_back(seconds_since(start) * 1e6);
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "launching"));
    measured[2].samples_us.push_back(seconds_since(start) * 1e6);
  }
  PLUMBLINE_TRY(sample_hot([&](cudaStream_t on) { return graph.launch(on); }, options.samples, tools.stream,
                           measured[1].samples_us));
  for (Measurement& each : measured) results.push_back(std::move(each));
  return {};
}

}  // namespace plumbline::real::cuda
