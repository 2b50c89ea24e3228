#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "real/cuda/comm/calls.h"
#include "real/cuda/comm/nccl/detail/rank_all_to_all.h"
#include "real/cuda/comm/nccl/nccl_groups.h"
#include "real/cuda/comm/nccl/other_ranks.h"
#include "real/cuda/device/buffer.h"
#include "real/executor/communicator.h"
#include "real/executor/infeasible.h"

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

// Point-to-point messages between pipeline stages. Each message channel has one stream and communicator to higher
// ranks, and one to lower ranks. A send waits there for its receiver, and all behind it wait with it. With one queue,
// in a pipeline that ends where it begins, a send could block the receive for which the receiver's own send waits. Data
// is copied before it is sent, so that the sender may overwrite its buffer.
class NcclMessages {
 public:
  static constexpr int channels = 2 * message_channels;  // NCCL communicators in use

  explicit NcclMessages(NcclGroups& groups) : groups_(groups) {}
  ~NcclMessages() {
    for (Channel& channel : channels_) {
      if (channel.stream != nullptr) cudaStreamSynchronize(channel.stream);
      for (const auto& copy : channel.copies) cudaEventDestroy(copy->sent);
      if (channel.ready != nullptr) cudaEventDestroy(channel.ready);
      if (channel.done != nullptr) cudaEventDestroy(channel.done);
      if (channel.stream != nullptr) cudaStreamDestroy(channel.stream);
    }
  }

  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;

  Status send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream) {
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
  int channel_of(const Message& message) const {
    const bool to_higher = message.send == (groups_.rank() < message.peer);
    return 2 * message.channel + (to_higher ? 0 : 1);
  }

  Status open(Channel& channel) {
    if (channel.stream != nullptr) return {};
    PLUMBLINE_TRY(outcome(cudaStreamCreateWithFlags(&channel.stream, cudaStreamNonBlocking), "making a stream"));
    PLUMBLINE_TRY(make_event(channel.ready));
    return make_event(channel.done);
  }

  // Returns a copy buffer whose send has ended, else a new one: a slow receiver costs memory, not time.
  Status take_copy(Channel& channel, std::int64_t bytes, Copy*& copy) {
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

  Status transfer(int number, std::span<const Message> messages, bool rendezvous, cudaStream_t stream) {
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
        const ncclResult_t result = message.send ? nccl.send(copies[i]->memory.as<char>(), bytes, ncclUint8,
                                                             message.peer, communicator, channel.stream)
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

  NcclGroups& groups_;
  std::array<Channel, channels> channels_;
};

struct Elements {
  ncclDataType_t type = ncclUint8;
  std::size_t count = 0;
};

Status elements_of(const CudaBuffer& in, const CudaBuffer& out, Elements& elements) {
  if (in.format() != out.format()) return {"a collective between tensors of two formats"};
  elements.count = static_cast<std::size_t>(in.elements());
  switch (in.format()) {
    case Format::fp32:
      elements.type = ncclFloat32;
      return {};
    case Format::bf16:
      elements.type = ncclBfloat16;
      return {};
    case Format::fp16:
      elements.type = ncclFloat16;
      return {};
    case Format::int32:
      elements.type = ncclInt32;
      return {};
    default:
      return {"a collective of a tensor that NCCL cannot add"};
  }
}

class NcclRanks final : public OtherRanks {
 public:
  NcclRanks(const OwnDevice& device, std::unique_ptr<NcclGroups> groups, NodePeers node_peers,
            const CommunicatorOptions& options)
      : groups_(std::move(groups)),
        transports_(transports_of(node_peers)),
        ctas_(options.collective_ctas),
        all_to_all_(device.scratch, *groups_, std::move(node_peers), {options.communication_sms, device.shared_bytes}),
        messages_(*groups_) {}

  std::string transports() const override { return transports_; }

  Status launch(const Group& group, const Kernel& kernel, cudaStream_t stream) override {
    const CudaBuffer& in = cuda::in(kernel, 0);
    CudaBuffer& out = cuda::out(kernel, 0);
    switch (kernel.op->kind) {
      case model::OperatorKind::all_reduce:
        return all_reduce(group, in, out, stream);
      case model::OperatorKind::reduce_scatter:
        return reduce_scatter(group, in, out, stream);
      case model::OperatorKind::all_gather:
        return all_gather(group, in, out, stream);
      default:
        return all_to_all_.run(group, kernel, stream);
    }
  }
  Status send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream) override {
    return messages_.send_receive(messages, rendezvous, stream);
  }

 private:
  Status all_reduce(const Group& group, const CudaBuffer& in, CudaBuffer& out, cudaStream_t stream) {
    if (in.elements() != out.elements()) return {"an all-reduce between tensors of two sizes"};
    return collective(group, in, out, "an all-reduce", stream, [&](const Nccl& nccl, const Elements& e, ncclComm_t c) {
      return nccl.all_reduce(in.view().data, out.view().data, e.count, e.type, ncclSum, c, stream);
    });
  }
  Status reduce_scatter(const Group& group, const CudaBuffer& in, CudaBuffer& out, cudaStream_t stream) {
    if (in.elements() % group.size() != 0) return {"a reduce-scatter into uneven parts"};
    const std::int64_t part = in.elements() / group.size();
    if (out.elements() != part) PLUMBLINE_TRY(out.resize(part / out.columns()));
    const auto count = static_cast<std::size_t>(part);
    return collective(group, in, out, "a reduce-scatter", stream,
                      [&](const Nccl& nccl, const Elements& e, ncclComm_t c) {
                        return nccl.reduce_scatter(in.view().data, out.view().data, count, e.type, ncclSum, c, stream);
                      });
  }
  Status all_gather(const Group& group, const CudaBuffer& in, CudaBuffer& out, cudaStream_t stream) {
    const std::int64_t whole = in.elements() * group.size();
    if (out.elements() != whole) PLUMBLINE_TRY(out.resize(whole / out.columns()));
    return collective(group, in, out, "an all-gather", stream, [&](const Nccl& nccl, const Elements& e, ncclComm_t c) {
      return nccl.all_gather(in.view().data, out.view().data, e.count, e.type, c, stream);
    });
  }

  template <class Call>
  Status collective(const Group& group, const CudaBuffer& in, CudaBuffer& out, const char* name, cudaStream_t stream,
                    Call call) {
    Elements elements;
    PLUMBLINE_TRY(elements_of(in, out, elements));
    ncclComm_t communicator = nullptr;
    PLUMBLINE_TRY(groups_->find(group.ranks, stream, ctas_, communicator));
    out.mark_changed();
    return groups_->together(communicator, name, [&](const Nccl& nccl) { return call(nccl, elements, communicator); });
  }

  std::unique_ptr<NcclGroups> groups_;
  std::string transports_;
  int ctas_;
  RankAllToAll all_to_all_;
  NcclMessages messages_;
};

}  // namespace

model::Result<std::unique_ptr<OtherRanks>> connect_ranks(const OwnDevice& device, ControlChannel& channel,
                                                         const CommunicatorOptions& options) {
  std::unique_ptr<NcclGroups> groups;
  if (const Status opened = NcclGroups::open(device.folders, channel, NcclMessages::channels, groups); !opened.ok())
    return infeasible(opened.failure);
  NodePeers node_peers;
  if (const Status found = find_node_peers(channel, options.machine, node_peers); !found.ok())
    return infeasible(found.failure);
  return std::make_unique<NcclRanks>(device, std::move(groups), std::move(node_peers), options);
}

}  // namespace plumbline::real::cuda
