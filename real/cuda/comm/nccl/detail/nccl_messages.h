// Point-to-point messages between pipeline stages.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "real/cuda/comm/nccl/nccl_groups.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

// Each message channel has one stream and communicator to higher ranks, and one to lower ranks. A send waits there for
// its receiver, and all behind it wait with it. With one queue, in a pipeline that ends where it begins, a send could
// block the receive for which the receiver's own send waits. Data is copied before it is sent, so that the sender may
// overwrite its buffer.
class NcclMessages {
 public:
  static constexpr int channels = 2 * message_channels;  // NCCL communicators in use

  explicit NcclMessages(NcclGroups& groups) : groups_(groups) {}
  ~NcclMessages();
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;

  Status send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream);

 private:
  struct Copy {  // of data in flight
    DeviceMemory memory;
    cudaEvent_t sent = nullptr;
    bool used = false;  // in use since `sent` was last seen to have happened
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
