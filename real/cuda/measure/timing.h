// Timing with events: pairs around each run, replayed graphs for runs too short for pairs, hot and cold caches.
#pragma once

#include <functional>
#include <vector>

#include "real/cuda/measure/toolbox.h"

namespace plumbline::real::cuda {

// Enqueues the work of one sample.
using Enqueue = std::function<Status(cudaStream_t)>;

class CudaEvent {
 public:
  CudaEvent() { cudaEventCreate(&event_); }
  ~CudaEvent() { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

Status elapsed_us(const CudaEvent& from, const CudaEvent& to, double& microseconds);

// Times `count` consecutive runs with an event between each two; one earlier run is not counted. `meanwhile` is called
// once while the device works. Microseconds are appended.
Status sample_hot(const Enqueue& work, int count, cudaStream_t stream, std::vector<double>& samples,
                  const std::function<void()>& meanwhile = nullptr);

// Times `count` runs, each after the L2 cache was filled with other data.
Status sample_cold(const Enqueue& work, int count, const Toolbox& tools, std::vector<double>& samples);

// The same work `nodes` times as one graph: launched as a whole, so that the gaps are those of the device alone.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Status capture(const Enqueue& work, int nodes, cudaStream_t stream);
  Status launch(cudaStream_t stream) const;
  int nodes() const { return nodes_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
  int nodes_ = 0;
};

// Work that is sampled as it is, or as a graph of many runs if one takes less than 50 microseconds.
class Sampled {
 public:
  // Warms up and chooses the method. `work` must stay valid as long as this.
  Status prepare(Enqueue work, cudaStream_t stream);
  // Samples like sample_hot; times are per run.
  Status hot(int count, cudaStream_t stream, std::vector<double>& samples,
             const std::function<void()>& meanwhile = nullptr) const;
  const Enqueue& work() const { return work_; }
  double estimate_us() const { return estimate_us_; }
  // How the samples were taken: "events" or "graph of N".
  std::string method() const;

 private:
  Enqueue work_;
  Graph graph_;
  double estimate_us_ = 0;
};

}  // namespace plumbline::real::cuda
