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

// `later` goes on when all that stands on `earlier` has ended.
Status follow(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event) {
  PLUMBLINE_TRY(outcome(cudaEventRecord(event, earlier), "recording an event"));
  return outcome(cudaStreamWaitEvent(later, event, 0), "waiting for an event");
}

}  // namespace

NcclMessages::~NcclMessages() {
  for (Way& way : ways_) {
    if (way.stream != nullptr) cudaStreamSynchronize(way.stream);
    for (const auto& copy : way.copies) cudaEventDestroy(copy->sent);
    if (way.ready != nullptr) cudaEventDestroy(way.ready);
    if (way.done != nullptr) cudaEventDestroy(way.done);
    if (way.stream != nullptr) cudaStreamDestroy(way.stream);
  }
}

int NcclMessages::way_of(const Message& message) const {
  const bool to_higher = message.send == (groups_.rank() < message.peer);
  return 2 * message.lane + (to_higher ? 0 : 1);
}

Status NcclMessages::open(Way& way) {
  if (way.stream != nullptr) return {};
  PLUMBLINE_TRY(outcome(cudaStreamCreateWithFlags(&way.stream, cudaStreamNonBlocking), "making a stream"));
  PLUMBLINE_TRY(make_event(way.ready));
  return make_event(way.done);
}

// One that nothing is sent from any more, else a new one: a slow receiver costs memory, not time.
Status NcclMessages::take_copy(Way& way, std::int64_t bytes, Copy*& copy) {
  for (const auto& known : way.copies) {
    const bool free = !known->used || cudaEventQuery(known->sent) == cudaSuccess;
    if (!free || known->memory.bytes() < bytes) continue;
    copy = known.get();
    copy->used = true;
    return {};
  }
  way.copies.push_back(std::make_unique<Copy>());
  copy = way.copies.back().get();
  copy->used = true;
  PLUMBLINE_TRY(make_event(copy->sent));
  return copy->memory.allocate(bytes);
}

Status NcclMessages::exchange(int number, std::span<const Message> messages, bool rendezvous, cudaStream_t stream) {
  Way& way = ways_[static_cast<std::size_t>(number)];
  PLUMBLINE_TRY(open(way));
  std::vector<Copy*> copies(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].send) {
      buffer_of(messages[i]).mark_changed();
      continue;
    }
    PLUMBLINE_TRY(take_copy(way, bytes_of(messages[i]), copies[i]));
    PLUMBLINE_TRY(
        outcome(cudaMemcpyAsync(copies[i]->memory.as<char>(), buffer_of(messages[i]).view().data,
                                static_cast<std::size_t>(bytes_of(messages[i])), cudaMemcpyDeviceToDevice, stream),
                "copying a message"));
  }
  PLUMBLINE_TRY(follow(way.stream, stream, way.ready));
  const ncclComm_t communicator = groups_.way(number);
  PLUMBLINE_TRY(groups_.together(communicator, "a message", [&](const Nccl& nccl) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Message& message = messages[i];
      const auto bytes = static_cast<std::size_t>(bytes_of(message));
      const ncclResult_t result =
          message.send
              ? nccl.send(copies[i]->memory.as<char>(), bytes, ncclUint8, message.peer, communicator, way.stream)
              : nccl.receive(buffer_of(message).view().data, bytes, ncclUint8, message.peer, communicator, way.stream);
      if (result != ncclSuccess && result != ncclInProgress) return result;
    }
    return ncclSuccess;
  }));
  for (Copy* copy : copies)
    if (copy != nullptr) PLUMBLINE_TRY(outcome(cudaEventRecord(copy->sent, way.stream), "recording an event"));
  const bool waits =
      rendezvous || std::any_of(messages.begin(), messages.end(), [](const Message& m) { return !m.send; });
  return waits ? follow(stream, way.stream, way.done) : Status{};
}

Status NcclMessages::send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream) {
  for (const Message& message : messages)
    if (message.lane < 0 || message.lane >= message_lanes || buffer_of(message).view().scales != nullptr)
      return {"a message of an unknown lane, or with scales"};
  for (int way = 0; way < ways; ++way) {
    std::vector<Message> of_way;
    for (const Message& message : messages)
      if (way_of(message) == way) of_way.push_back(message);
    if (!of_way.empty()) PLUMBLINE_TRY(exchange(way, of_way, rendezvous, stream));
  }
  return {};
}

}  // namespace plumbline::real::cuda
