// Messages between ranks that are neighbours in the pipeline.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "real/cuda/comm/nccl/nccl_groups.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

// Every lane and direction, to higher ranks and to lower ones, has a way of its own: a stream and a communicator, on
// which a send waits for its receiver and all behind it wait with it. In a pipeline that ends where it begins, a send
// would else stand before the receive that the receiver's own send waits for. What is sent is copied first: the sender
// goes on and may write its buffer.
class NcclMessages {
 public:
  static constexpr int channels = 2 * message_channels;  // of the groups' communicators

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
  struct Channel {
    cudaStream_t stream = nullptr;
    cudaEvent_t ready = nullptr, done = nullptr;
    std::vector<std::unique_ptr<Copy>> copies;
  };
  int channel_of(const Message& message) const;
  Status open(Channel& channel);
  Status take_copy(Channel& channel, std::int64_t bytes, Copy*& copy);
  Status transfer(int number, std::span<const Message> messages, bool rendezvous, cudaStream_t stream);

  NcclGroups& groups_;
  std::array<Channel, channels> channels_;
};

}  // namespace plumbline::real::cuda
