// The cost of launches, of single kernels and of graphs of them, and rates of copies.
#include <array>
#include <chrono>

#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/comparison.h"
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

// --- Rates of the device: copies within it and to the host ---

constexpr std::uint64_t seed_source = 41, seed_words = 42;

// Checks that sampled words of a copy equal those of its source.
Status check_copy(const float* from, const float* to, std::int64_t bytes, CheckOutcome& result) {
  Comparison comparison;
  for (const std::int64_t word : sampled_indices(bytes / 4, 64, seed_words)) {
    float source = 0, target = 0;
    PLUMBLINE_TRY(outcome(cudaMemcpy(&source, from + word, 4, cudaMemcpyDefault), "reading a word"));
    PLUMBLINE_TRY(outcome(cudaMemcpy(&target, to + word, 4, cudaMemcpyDefault), "reading a word"));
    comparison.add(target, source);
  }
  result = comparison.outcome(0);
  return passed(result);
}

// Copies from device memory to device memory, by plumbline's kernel and by the driver.
class CopyRunner final : public CaseRunner {
 public:
  using CaseRunner::CaseRunner;

  Status prepare() override {
    PLUMBLINE_TRY(from_.allocate(what_.bytes));
    PLUMBLINE_TRY(to_.allocate(what_.bytes));
    PLUMBLINE_TRY(outcome(fill_float(from_.as<float>(), what_.bytes / 4, seed_source, 1.0f, tools_.stream), "filling"));
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const auto bytes = static_cast<std::size_t>(what_.bytes);
      PLUMBLINE_TRY(outcome(cudaMemsetAsync(to_.as<void>(), 0xff, bytes, tools_.stream), "poisoning"));
      PLUMBLINE_TRY(copies_[i](tools_.stream));
      PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "copying"));
      CheckOutcome check;
      PLUMBLINE_TRY(check_copy(from_.as<float>(), to_.as<float>(), what_.bytes, check));
      findings_[i].check = check;
      findings_[i].note = "clocks read right after the samples";
    }
    return {};
  }

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      PLUMBLINE_TRY(sample_cold(copies_[i], samples_, tools_, times[i]));
      read_clock(tools_.stream, i);
      PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "counting cycles"));
      finish_clock(i);
    }
    return {};
  }

 private:
  DeviceMemory from_, to_;
  const std::array<Enqueue, 2> copies_ = {
      [this](cudaStream_t on) { return outcome(copy(from_.as<void>(), to_.as<void>(), what_.bytes, on), "copying"); },
      [this](cudaStream_t on) {
        const auto bytes = static_cast<std::size_t>(what_.bytes);
        return outcome(cudaMemcpyAsync(to_.as<void>(), from_.as<void>(), bytes, cudaMemcpyDeviceToDevice, on),
                       "copying");
      }};
};

// Copies from pinned memory to the device and back.
class HostCopyRunner final : public CaseRunner {
 public:
  using CaseRunner::CaseRunner;

  Status prepare() override {
    PLUMBLINE_TRY(device_.allocate(what_.bytes));
    PLUMBLINE_TRY(host_.allocate(what_.bytes));
    for (std::int64_t i = 0; i < what_.bytes / 4; ++i)
      host_.as<float>()[i] = random_normal(seed_source, static_cast<std::uint64_t>(i));
    const auto bytes = static_cast<std::size_t>(what_.bytes);
    PLUMBLINE_TRY(outcome(cudaMemsetAsync(device_.as<void>(), 0xff, bytes, tools_.stream), "poisoning"));
    PLUMBLINE_TRY(send(true, tools_.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "copying"));
    return check_copy(host_.as<float>(), device_.as<float>(), what_.bytes, findings_[0].check.emplace());
  }

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    for (const std::size_t direction : {0, 1})
      PLUMBLINE_TRY(sample_hot([&](cudaStream_t on) { return send(direction == 0, on); }, samples_, tools_.stream,
                               times[direction]));
    return {};
  }

 private:
  Status send(bool to_device, cudaStream_t on) const {
    void* target = to_device ? device_.as<void>() : host_.as<void>();
    const void* source = to_device ? host_.as<void>() : device_.as<void>();
    return outcome(cudaMemcpyAsync(target, source, static_cast<std::size_t>(what_.bytes), cudaMemcpyDefault, on),
                   "copying");
  }

  DeviceMemory device_;
  PinnedMemory host_;
};

}  // namespace

std::unique_ptr<CaseRunner> make_launch_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<LaunchRunner>(what, tools, samples);
}

std::unique_ptr<CaseRunner> make_graph_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<GraphRunner>(what, tools, samples, static_cast<int>(what.nodes));
}

std::unique_ptr<CaseRunner> make_copy_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<CopyRunner>(what, tools, samples);
}

std::unique_ptr<CaseRunner> make_host_copy_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<HostCopyRunner>(what, tools, samples);
}

}  // namespace plumbline::real::cuda
