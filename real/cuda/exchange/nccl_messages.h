// Messages between ranks that are neighbours in the pipeline.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "real/cuda/exchange/nccl_groups.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

// Each lane has a stream and a communicator of its own, so that what is sent on one never waits for a receiver on
// another. What is sent is copied first: the sender goes on and may write its buffer.
class NcclMessages {
 public:
  explicit NcclMessages(NcclGroups& groups) : groups_(groups) {}
  ~NcclMessages();
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;

  Status send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream);

 private:
  struct Copy {  // of something on its way
    DeviceMemory memory;
    cudaEvent_t sent = nullptr;
    bool used = false;  // since the event was last seen to have happened
  };
  struct Lane {
    cudaStream_t stream = nullptr;
    cudaEvent_t ready = nullptr, done = nullptr;
    std::vector<std::unique_ptr<Copy>> copies;
  };
  Status open(Lane& lane);
  Status take_copy(Lane& lane, std::int64_t bytes, Copy*& copy);
  Status exchange(int number, std::span<const Message> messages, bool rendezvous, cudaStream_t stream);

  NcclGroups& groups_;
  std::array<Lane, message_lanes> lanes_;
};

}  // namespace plumbline::real::cuda
