// Collectives between the ranks of a run; the first one makes the communicator.
#pragma once

#include <memory>

#include "real/cuda/measure/case_runner.h"
#include "real/executor/control_channel.h"

namespace plumbline::real::cuda {

class Collectives {
 public:
  // The ranks share NCCL's id over the channel, which must outlive this.
  explicit Collectives(ControlChannel& channel);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // All ranks prepare and measure the same cases in the same order. The runner must not outlive this.
  std::unique_ptr<CaseRunner> make_runner(const KernelCase& what, Toolbox& tools, int samples);

 private:
  struct State;
  class Collective;

  ControlChannel& channel_;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::real::cuda
