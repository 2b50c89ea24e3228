#include "real/host/comm/communicator.h"

#include <cstddef>
#include <type_traits>
#include <utility>

#include "real/executor/infeasible.h"
#include "real/host/buffer.h"
#include "real/host/comm/members.h"
#include "real/host/comm/packing.h"

namespace plumbline::real::host {
namespace {

// Channels of the transport. Each stream has its own for operators between ranks, because streams run concurrently.
constexpr std::int32_t messages_channel = 0, acknowledgements_channel = 1, first_stream_channel = control_channel + 1;

std::int32_t channel_of(model::Stream stream) { return first_stream_channel + static_cast<std::int32_t>(stream); }

HostBuffer& buffer_of(const Message& message) { return static_cast<HostBuffer&>(*message.buffer); }

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(HostDevice& device, Transport& transport)
      : device_(device), transport_(transport), control_(make_control_channel(transport)) {
    // Other streams of this rank and other ranks may wait for packets that will not be sent.
    device.on_failure([&transport](const std::string& reason) { transport.abort(reason); });
  }

  std::int32_t rank() const override { return transport_.rank(); }
  std::int32_t ranks() const override { return transport_.ranks(); }

  void send_receive(model::Stream stream, std::span<const Message> messages, bool rendezvous,
                    std::uint32_t label) override {
    const std::vector<Message> own(messages.begin(), messages.end());
    StreamWork work;
    work.label = label;
    work.start = [this, own, rendezvous](StreamClock& clock) { post(own, rendezvous, clock); };
    work.finish = [this, own, rendezvous](StreamClock& clock) { complete(own, rendezvous, clock); };
    device_.enqueue(stream, std::move(work));
  }

  void launch(model::Stream stream, const Group& group, const Kernel& kernel) override {
    StreamWork work = work_of(Members(transport_, group, channel_of(stream)), kernel);
    work.label = kernel.label;
    device_.enqueue(stream, std::move(work));
  }
  model::Result<std::vector<double>> sum(std::vector<double> values) override { return control_->sum(values); }
  model::Result<std::vector<std::string>> gather(const std::string& text) override { return control_->gather(text); }
  void abort(const std::string& reason) override { transport_.abort(reason); }

 private:
  // Sends the messages. With a rendezvous, it also acknowledges to each sender that the receive is posted.
  void post(const std::vector<Message>& messages, bool rendezvous, StreamClock& clock) {
    for (const Message& message : messages) {
      if (message.send) {
        HostBuffer& buffer = buffer_of(message);
        Packer packer(buffer.elements().size() * wire_bytes(buffer.type()));
        packer.add(buffer.type(), buffer.elements());
        transport_.send(message.peer, {messages_channel, message.tag}, {packer.take(), clock.now()});
      } else if (rendezvous) {
        transport_.send(message.peer, {acknowledgements_channel, message.tag}, {{}, clock.now()});
      }
    }
  }

  void complete(const std::vector<Message>& messages, bool rendezvous, StreamClock& clock) {
    for (const Message& message : messages) {
      if (message.send && !rendezvous) continue;
      const std::int32_t channel = message.send ? acknowledgements_channel : messages_channel;
      const Packet packet = transport_.receive(message.peer, {channel, message.tag});
      clock.advance_to(packet.time);
      if (message.send) continue;
      Unpacker unpacker(packet.bytes);
      unpacker.copy(buffer_of(message).type(), buffer_of(message).elements());
      unpacker.finish();
    }
  }

  static StreamWork work_of(const Members& members, const Kernel& kernel) {
    switch (kernel.op->kind) {
#define OPERATOR(kind, ...)       \
  case model::OperatorKind::kind: \
    break;
#define ALL_TO_ALL_OPERATOR(kind, ...) \
  case model::OperatorKind::kind:      \
    return kind(members, kernel);
#define COLLECTIVE_OPERATOR(kind, ...) ALL_TO_ALL_OPERATOR(kind)
#include "model/graph/operators.def"
    }
    throw RankFailure(kernel.op->name + " is no operator between ranks");
  }

  HostDevice& device_;
  Transport& transport_;
  std::unique_ptr<ControlChannel> control_;
};

constexpr Tag control_tag{control_channel, 0};

Packet packet_of(const std::string& bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {{begin, begin + bytes.size()}, 0};
}

class TransportChannel final : public ControlChannel {
 public:
  explicit TransportChannel(Transport& transport) : transport_(transport) {}

  std::int32_t rank() const override { return transport_.rank(); }
  std::int32_t ranks() const override { return transport_.ranks(); }

  model::Result<void> send(std::int32_t rank, const std::string& bytes) override {
    return guarded([&] { transport_.send(rank, control_tag, packet_of(bytes)); });
  }

  model::Result<std::string> receive(std::int32_t rank) override {
    return guarded([&] {
      const std::vector<std::byte> bytes = transport_.receive(rank, control_tag).bytes;
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
  }

  void abort(const std::string& reason) override { transport_.abort(reason); }
  std::optional<std::string> failure() const override { return std::nullopt; }

 private:
  template <class Body>
  static auto guarded(Body body) -> model::Result<decltype(body())> {
    try {
      if constexpr (std::is_void_v<decltype(body())>) {
        body();
        return {};
      } else {
        return body();
      }
    } catch (const RankFailure& failure) {
      return infeasible(failure.what());
    }
  }

  Transport& transport_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(HostDevice& device, Transport& transport) {
  return std::make_unique<HostCommunicator>(device, transport);
}

std::unique_ptr<ControlChannel> make_control_channel(Transport& transport) {
  return std::make_unique<TransportChannel>(transport);
}

}  // namespace plumbline::real::host
