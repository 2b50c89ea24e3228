// The common base of the runners of kernel cases: a device's toolbox, samples in microseconds, findings by subject.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/timing.h"
#include "real/cuda/measure/toolbox.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "real/measure/runner.h"

namespace plumbline::real::cuda {

class CaseRunner : public Runner {
 public:
  // Takes `samples` of every subject in each round.
  CaseRunner(KernelCase what, Toolbox& tools, int samples)
      : what_(std::move(what)), tools_(tools), samples_(samples), findings_(subjects_of(what_).size()) {}

  // Allocates, checks results and warms up. Wrong numbers are a failure, so that nothing is timed.
  virtual Status prepare() = 0;

  model::Result<std::vector<Sample>> round(std::size_t number) final;
  Findings findings(std::size_t subject) const final { return findings_[subject]; }

 protected:
  // Appends microseconds by subject.
  using Times = std::vector<std::vector<double>>;
  virtual Status take(std::size_t round, Times& times) = 0;

  // Reads clocks and power while `stream` works, and enqueues a cycle count on it: the driver's reading of the SM clock
  // is up to a tenth of a second old. Throttle reasons accumulate over the readings.
  void read_clock(cudaStream_t stream, std::size_t subject);
  // Computes the SM clock from the counted cycles, after a wait for the stream.
  void finish_clock(std::size_t subject);

  KernelCase what_;
  Toolbox& tools_;
  int samples_;
  std::vector<Findings> findings_;  // by subject
  double copy_rate_ = 0;            // bytes per second of the copy concurrent with the last subject in this round
};

// Runs one operation of a case repeatedly, after its results were compared.
class OperationRunner : public CaseRunner {
 public:
  using CaseRunner::CaseRunner;

 protected:
  // Wrong numbers are a failure. Every subject's findings get the check, the algorithm and the note.
  Status prepare_operation(cudaStream_t stream, const std::string& note);

  std::unique_ptr<Operation> operation_;
  Sampled sampled_;
};

// Returns a failure with error and tolerance if the check failed.
Status passed(const CheckOutcome& outcome);

std::unique_ptr<CaseRunner> make_kernel_runner(const KernelCase& what, Toolbox& tools, int samples);
std::unique_ptr<CaseRunner> make_partition_runner(const KernelCase& what, Toolbox& tools, int samples);
std::unique_ptr<CaseRunner> make_copy_runner(const KernelCase& what, Toolbox& tools, int samples);
std::unique_ptr<CaseRunner> make_host_copy_runner(const KernelCase& what, Toolbox& tools, int samples);
std::unique_ptr<CaseRunner> make_launch_runner(const KernelCase& what, Toolbox& tools, int samples);
std::unique_ptr<CaseRunner> make_graph_runner(const KernelCase& what, Toolbox& tools, int samples);

}  // namespace plumbline::real::cuda
