#include "real/cuda/comm/nccl/detail/nccl_messages.h"

#include <algorithm>

#include "real/cuda/device/buffer.h"

namespace plumbline::real::cuda {
namespace {

CudaBuffer& buffer_of(const Message& message) { return static_cast<CudaBuffer&>(*message.buffer); }

std::int64_t bytes_of(const Message& message) {
  return data_bytes(buffer_of(message).format(), buffer_of(message).elements());
}

Status make_event(cudaEvent_t& event) {
  return outcome(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
}

// Makes `later` wait for all work enqueued on `earlier`.
Status follow(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event) {
  PLUMBLINE_TRY(outcome(cudaEventRecord(event, earlier), "recording an event"));
  return outcome(cudaStreamWaitEvent(later, event, 0), "waiting for an event");
}

}  // namespace

NcclMessages::~NcclMessages() {
  for (Channel& channel : channels_) {
    if (channel.stream != nullptr) cudaStreamSynchronize(channel.stream);
    for (const auto& copy : channel.copies) cudaEventDestroy(copy->sent);
    if (channel.ready != nullptr) cudaEventDestroy(channel.ready);
    if (channel.done != nullptr) cudaEventDestroy(channel.done);
    if (channel.stream != nullptr) cudaStreamDestroy(channel.stream);
  }
}

int NcclMessages::channel_of(const Message& message) const {
  const bool to_higher = message.send == (groups_.rank() < message.peer);
  return 2 * message.channel + (to_higher ? 0 : 1);
}

Status NcclMessages::open(Channel& channel) {
  if (channel.stream != nullptr) return {};
  PLUMBLINE_TRY(outcome(cudaStreamCreateWithFlags(&channel.stream, cudaStreamNonBlocking), "making a stream"));
  PLUMBLINE_TRY(make_event(channel.ready));
  return make_event(channel.done);
}

// Returns a copy buffer whose send has ended, else a new one: a slow receiver costs memory, not time.
Status NcclMessages::take_copy(Channel& channel, std::int64_t bytes, Copy*& copy) {
  for (const auto& known : channel.copies) {
    const bool free = !known->used || cudaEventQuery(known->sent) == cudaSuccess;
    if (!free || known->memory.bytes() < bytes) continue;
    copy = known.get();
    copy->used = true;
    return {};
  }
  channel.copies.push_back(std::make_unique<Copy>());
  copy = channel.copies.back().get();
  copy->used = true;
  PLUMBLINE_TRY(make_event(copy->sent));
  return copy->memory.allocate(bytes);
}

Status NcclMessages::transfer(int number, std::span<const Message> messages, bool rendezvous, cudaStream_t stream) {
  Channel& channel = channels_[static_cast<std::size_t>(number)];
  PLUMBLINE_TRY(open(channel));
  std::vector<Copy*> copies(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].send) {
      buffer_of(messages[i]).mark_changed();
      continue;
    }
    PLUMBLINE_TRY(take_copy(channel, bytes_of(messages[i]), copies[i]));
    PLUMBLINE_TRY(
        outcome(cudaMemcpyAsync(copies[i]->memory.as<char>(), buffer_of(messages[i]).view().data,
                                static_cast<std::size_t>(bytes_of(messages[i])), cudaMemcpyDeviceToDevice, stream),
                "copying a message"));
  }
  PLUMBLINE_TRY(follow(channel.stream, stream, channel.ready));
  const ncclComm_t communicator = groups_.channel(number);
  PLUMBLINE_TRY(groups_.together(communicator, "a message", [&](const Nccl& nccl) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Message& message = messages[i];
      const auto bytes = static_cast<std::size_t>(bytes_of(message));
      const ncclResult_t result = message.send ? nccl.send(copies[i]->memory.as<char>(), bytes, ncclUint8, message.peer,
                                                           communicator, channel.stream)
                                               : nccl.receive(buffer_of(message).view().data, bytes, ncclUint8,
                                                              message.peer, communicator, channel.stream);
      if (result != ncclSuccess && result != ncclInProgress) return result;
    }
    return ncclSuccess;
  }));
  for (Copy* copy : copies)
    if (copy != nullptr) PLUMBLINE_TRY(outcome(cudaEventRecord(copy->sent, channel.stream), "recording an event"));
  const bool waits =
      rendezvous || std::any_of(messages.begin(), messages.end(), [](const Message& m) { return !m.send; });
  return waits ? follow(stream, channel.stream, channel.done) : Status{};
}

Status NcclMessages::send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream) {
  for (const Message& message : messages)
    if (message.channel < 0 || message.channel >= message_channels || buffer_of(message).view().scales != nullptr)
      return {"a message of an unknown channel, or with scales"};
  for (int channel = 0; channel < channels; ++channel) {
    std::vector<Message> of_channel;
    for (const Message& message : messages)
      if (channel_of(message) == channel) of_channel.push_back(message);
    if (!of_channel.empty()) PLUMBLINE_TRY(transfer(channel, of_channel, rendezvous, stream));
  }
  return {};
}

}  // namespace plumbline::real::cuda
