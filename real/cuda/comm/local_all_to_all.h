// Dispatch and combine of a rank without peers: alone in its group, or with emulated peers that do the same as it does,
// so that it receives what it sends. Expert e is then local expert e mod experts_per_rank. All tokens are received
// here; those for other nodes also go to host memory, at the rate of a NIC.
#pragma once

#include "real/cuda/comm/dispatch_layout.h"
#include "real/cuda/comm/rows.h"
#include "real/cuda/device/machine.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

class LocalAllToAll {
 public:
  struct Options {
    int ctas = 1;
    std::int32_t ranks_per_node = 8;
    double nic_gbps = 0;  // GB/s; 0: nothing leaves the node
  };
  LocalAllToAll(const Machine& machine, const Options& options)
      : options_(options), blocks_{options.ctas, static_cast<int>(machine.properties.sharedMemPerBlockOptin)} {}

  // Runs dispatch, combine or one of their gradients, which model/graph/operators.def defines.
  Status run(const Group& group, const Kernel& kernel, cudaStream_t stream);

 private:
  Status dispatch(const Group& group, const Kernel& kernel, cudaStream_t stream);
  Status dispatch_grad(const Kernel& kernel, cudaStream_t stream);
  Status combine(const Kernel& kernel, cudaStream_t stream);
  Status combine_grad(const Kernel& kernel, cudaStream_t stream);
  Wire wire_of(const Kernel& kernel) const;
  Status sum_back(const Kernel& kernel, const DispatchLayout& layout, RowSum& sum, cudaStream_t stream);

  Options options_;
  Blocks blocks_;
  DispatchLayoutBuilder layouts_;
  HostSink sink_;
};

}  // namespace plumbline::real::cuda
