// Dispatch and combine between GPUs: blocks of our own sort tokens by the rank that gets them, NCCL carries them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "real/cuda/device/scratch.h"
#include "real/cuda/exchange/map.h"
#include "real/cuda/exchange/nccl_groups.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

class NcclExchange {
 public:
  NcclExchange(Scratch& scratch, NcclGroups& groups, const Blocks& blocks)
      : scratch_(scratch), groups_(groups), blocks_(blocks) {}

  // model/graph/attributes.h says what each reads and writes. A token goes to a rank once.
  Status dispatch(const Group& group, const Kernel& kernel, cudaStream_t stream);
  Status dispatch_grad(const Group& group, const Kernel& kernel, cudaStream_t stream);
  Status combine(const Group& group, const Kernel& kernel, cudaStream_t stream);
  Status combine_grad(const Group& group, const Kernel& kernel, cudaStream_t stream);

 private:
  // Rows that lie by member, one after the other, to all of them, and theirs from them.
  struct Strip {
    const void* from = nullptr;
    void* to = nullptr;
    std::int64_t row_bytes = 0;
  };
  Status swap(const Group& group, const std::vector<Strip>& strips, const std::vector<std::int64_t>& sent,
              const std::vector<std::int64_t>& received, cudaStream_t stream);
  // Room on the stream for `rows` rows of each strip, which then begins there.
  Status stage(std::vector<void*>& places, const std::vector<std::int64_t>& row_bytes, std::int64_t rows,
               cudaStream_t stream);
  Status sum_back(const Group& group, const Kernel& kernel, const ExchangeMap& map, const CudaBuffer* small,
                  cudaStream_t stream);

  Scratch& scratch_;
  NcclGroups& groups_;
  Blocks blocks_;
  Router router_;
};

}  // namespace plumbline::real::cuda
