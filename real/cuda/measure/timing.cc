#include "real/cuda/measure/timing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plumbline::real::cuda {
namespace {

constexpr double short_us = 50, graph_us = 200;
constexpr int warm_ups = 3, estimate_runs = 5, least_nodes = 20, most_nodes = 400;

}  // namespace

Status elapsed_us(const CudaEvent& from, const CudaEvent& to, double& microseconds) {
  float milliseconds = 0;
  PLUMBLINE_TRY(outcome(cudaEventElapsedTime(&milliseconds, from.get(), to.get()), "reading an event"));
  microseconds = static_cast<double>(milliseconds) * 1e3;
  return {};
}

Status sample_hot(const Enqueue& work, int count, cudaStream_t stream, std::vector<double>& samples,
                  const std::function<void()>& meanwhile) {
  const std::vector<CudaEvent> events(static_cast<std::size_t>(count) + 1);
  PLUMBLINE_TRY(work(stream));
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i > 0) PLUMBLINE_TRY(work(stream));
    PLUMBLINE_TRY(outcome(cudaEventRecord(events[i].get(), stream), "recording an event"));
  }
  if (meanwhile) meanwhile();
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(stream), "running the samples"));
  for (std::size_t i = 1; i < events.size(); ++i) {
    samples.push_back(0);
    PLUMBLINE_TRY(elapsed_us(events[i - 1], events[i], samples.back()));
  }
  return {};
}

Status sample_cold(const Enqueue& work, int count, const Toolbox& tools, std::vector<double>& samples) {
  const std::vector<CudaEvent> starts(static_cast<std::size_t>(count)), ends(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    PLUMBLINE_TRY(tools.flush_cache(tools.stream));
    PLUMBLINE_TRY(outcome(cudaEventRecord(starts[i].get(), tools.stream), "recording an event"));
    PLUMBLINE_TRY(work(tools.stream));
    PLUMBLINE_TRY(outcome(cudaEventRecord(ends[i].get(), tools.stream), "recording an event"));
  }
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running the samples"));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    samples.push_back(0);
    PLUMBLINE_TRY(elapsed_us(starts[i], ends[i], samples.back()));
  }
  return {};
}

Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

Status Graph::capture(const Enqueue& work, int nodes, cudaStream_t stream) {
  PLUMBLINE_TRY(outcome(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph"));
  Status captured;
  for (int i = 0; i < nodes && captured.ok(); ++i) captured = work(stream);
  cudaGraph_t graph = nullptr;
  const Status ended = outcome(cudaStreamEndCapture(stream, &graph), "capturing a graph");
  if (captured.ok()) captured = ended;
  if (captured.ok()) captured = outcome(cudaGraphInstantiate(&executable_, graph, 0), "building a graph");
  if (graph != nullptr) cudaGraphDestroy(graph);
  PLUMBLINE_TRY(captured);
  nodes_ = nodes;
  return outcome(cudaGraphUpload(executable_, stream), "uploading a graph");
}

Status Graph::launch(cudaStream_t stream) const {
  return outcome(cudaGraphLaunch(executable_, stream), "launching a graph");
}

Status Sampled::prepare(Enqueue work, cudaStream_t stream) {
  work_ = std::move(work);
  for (int i = 0; i < warm_ups; ++i) PLUMBLINE_TRY(work_(stream));
  std::vector<double> trial;
  PLUMBLINE_TRY(sample_hot(work_, estimate_runs, stream, trial));
  std::sort(trial.begin(), trial.end());
  estimate_us_ = trial[trial.size() / 2];
  if (estimate_us_ >= short_us) return {};
  const double wanted = std::ceil(graph_us / std::max(estimate_us_, 0.5));
  const int nodes = std::clamp(static_cast<int>(wanted), least_nodes, most_nodes);
  PLUMBLINE_TRY(graph_.capture(work_, nodes, stream));
  return outcome(cudaStreamSynchronize(stream), "uploading a graph");
}

Status Sampled::hot(int count, cudaStream_t stream, std::vector<double>& samples,
                    const std::function<void()>& meanwhile) const {
  if (graph_.nodes() == 0) return sample_hot(work_, count, stream, samples, meanwhile);
  const std::size_t before = samples.size();
  PLUMBLINE_TRY(sample_hot([this](cudaStream_t on) { return graph_.launch(on); }, count, stream, samples, meanwhile));
  for (std::size_t i = before; i < samples.size(); ++i) samples[i] /= graph_.nodes();
  return {};
}

std::string Sampled::method() const {
  return graph_.nodes() == 0 ? "events" : "graph of " + std::to_string(graph_.nodes());
}

}  // namespace plumbline::real::cuda
