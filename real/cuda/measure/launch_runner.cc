// The cost of launches: single kernels, and graphs of them.
#include <chrono>

#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/timing.h"

namespace plumbline::real::cuda {
namespace {

constexpr int launches = 100;
constexpr std::int64_t head_start_ns = 2000000;  // in this time the host enqueues all launches of a sample

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

Status launch_empty(cudaStream_t on) { return outcome(empty(on), "launching"); }

// Graphs of empty kernels, and the host and device time of replaying them.
class GraphRunner : public CaseRunner {
 public:
  GraphRunner(const KernelCase& what, Toolbox& tools, int samples, int nodes)
      : CaseRunner(what, tools, samples), nodes_(nodes) {}

  Status prepare() override {
    PLUMBLINE_TRY(launch_empty(tools_.stream));  // loads the kernel before it is captured
    PLUMBLINE_TRY(graph_.capture(launch_empty, nodes_, tools_.stream));
    PLUMBLINE_TRY(graph_.launch(tools_.stream));
    return outcome(cudaStreamSynchronize(tools_.stream), "warming up");
  }

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    for (int sample = 0; sample < samples_; ++sample) {
      const auto start = std::chrono::steady_clock::now();
      PLUMBLINE_TRY(graph_.launch(tools_.stream));
      times[0].push_back(microseconds_since(start));
      PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "launching"));
      times[2].push_back(microseconds_since(start));
    }
    return replay(times[1]);
  }
  Status replay(std::vector<double>& times) const {
    return sample_hot([this](cudaStream_t on) { return graph_.launch(on); }, samples_, tools_.stream, times);
  }

 private:
  int nodes_;
  Graph graph_;
};

class LaunchRunner final : public GraphRunner {
 public:
  LaunchRunner(const KernelCase& what, Toolbox& tools, int samples) : GraphRunner(what, tools, samples, launches) {}

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    const CudaEvent start, end;
    for (int sample = 0; sample < samples_; ++sample) {
      double gap = 0;
      PLUMBLINE_TRY(outcome(spin(head_start_ns, tools_.stream), "spinning"));
      PLUMBLINE_TRY(outcome(cudaEventRecord(start.get(), tools_.stream), "recording an event"));
      const auto host_start = std::chrono::steady_clock::now();
      for (int i = 0; i < launches; ++i) PLUMBLINE_TRY(launch_empty(tools_.stream));
      times[0].push_back(microseconds_since(host_start) / launches);
      PLUMBLINE_TRY(outcome(cudaEventRecord(end.get(), tools_.stream), "recording an event"));
      PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "launching"));
      PLUMBLINE_TRY(elapsed_us(start, end, gap));
      times[1].push_back(gap / launches);
      const auto trip_start = std::chrono::steady_clock::now();
      PLUMBLINE_TRY(launch_empty(tools_.stream));
      PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "launching"));
      times[3].push_back(microseconds_since(trip_start));
    }
    PLUMBLINE_TRY(replay(times[2]));
    for (double& time : times[2]) time /= launches;
    return {};
  }
};

}  // namespace

std::unique_ptr<CaseRunner> make_launch_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<LaunchRunner>(what, tools, samples);
}

std::unique_ptr<CaseRunner> make_graph_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<GraphRunner>(what, tools, samples, static_cast<int>(what.nodes));
}

}  // namespace plumbline::real::cuda
