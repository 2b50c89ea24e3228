#include "real/host/comm/communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "real/executor/infeasible.h"
#include "real/host/comm/members.h"
#include "real/host/comm/packing.h"
#include "real/host/pool.h"
#include "real/host/rounding.h"

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

namespace {

// Returns part `j` of `parts` parts of nearly equal size.
template <class Number>
std::span<Number> part(std::span<Number> all, std::size_t j, std::size_t parts) {
  const std::size_t begin = all.size() * j / parts;
  return all.subspan(begin, all.size() * (j + 1) / parts - begin);
}

// Unpacks values; throws RankFailure where the number of bytes does not match.
void unpack(std::span<const std::byte> bytes, model::DataType type, std::span<float> into) {
  Unpacker unpacker(bytes);
  unpacker.copy(type, into);
  unpacker.finish();
}

std::vector<std::byte> packed(model::DataType type, std::span<const float> values) {
  Packer packer(values.size() * wire_bytes(type));
  packer.add(type, values);
  return packer.take();
}

void move_to(std::span<const float> values, std::span<float> to) {
  if (!values.empty()) std::memmove(to.data(), values.data(), values.size_bytes());
}

// Resizes the output. A right size keeps the contents, because the input may be a part of the output.
void fit(HostBuffer& out, std::size_t size) {
  const auto wanted = static_cast<Index>(size);
  if (out.size() == wanted) return;
  if (wanted % out.columns() != 0)
    throw RankFailure("a collective gives " + std::to_string(size) + " elements to a tensor of " +
                      std::to_string(out.columns()) + " columns");
  out.resize(wanted / out.columns());
}

// Sends every other member its part of `in`.
void send_parts(const Members& members, const HostBuffer& in, StreamClock& clock) {
  for (std::size_t i = 1; i < members.size(); ++i) {
    const std::size_t to = members.other(i);
    members.send(to, Round::parts, packed(in.type(), part(in.elements(), to, members.size())), clock);
  }
}

// Returns this member's part, summed over all members.
std::vector<float> sum_parts(const Members& members, const HostBuffer& in, model::DataType to, StreamClock& clock) {
  const std::span<const float> own = part(in.elements(), members.position(), members.size());
  std::vector<float> sum(own.size());
  for (std::size_t from = 0; from < members.size(); ++from) {
    if (from == members.position())
      std::ranges::transform(sum, own, sum.begin(), std::plus<>());
    else
      Unpacker(members.receive(from, Round::parts, clock)).add(in.type(), sum);
  }
  round_to(to, sum);
  return sum;
}

void check_same_size(const HostBuffer& in, const HostBuffer& out) {
  if (in.size() != out.size())
    throw RankFailure("a sum of " + std::to_string(in.size()) + " elements goes to a tensor of " +
                      std::to_string(out.size()));
}

void check_even(const HostBuffer& in, std::size_t parts) {
  if (in.size() % static_cast<Index>(parts) != 0)
    throw RankFailure("a sum of " + std::to_string(in.size()) + " elements does not scatter over " +
                      std::to_string(parts) + " ranks");
}

}  // namespace

StreamWork all_reduce(const Members& members, const Kernel& kernel) {
  const HostBuffer& in = host::in(kernel, 0);
  HostBuffer& out = host::out(kernel, 0);
  StreamWork work;
  work.start = [=, &in, &out](StreamClock& clock) {
    check_same_size(in, out);
    send_parts(members, in, clock);
  };
  work.finish = [=, &in, &out](StreamClock& clock) {
    const std::vector<float> sum = sum_parts(members, in, out.type(), clock);
    const std::vector<std::byte> bytes = packed(out.type(), sum);
    for (std::size_t i = 1; i < members.size(); ++i) members.send(members.other(i), Round::results, bytes, clock);
    move_to(sum, part(out.elements(), members.position(), members.size()));
    for (std::size_t from = 0; from < members.size(); ++from)
      if (from != members.position())
        unpack(members.receive(from, Round::results, clock), out.type(), part(out.elements(), from, members.size()));
  };
  return work;
}

StreamWork reduce_scatter(const Members& members, const Kernel& kernel) {
  const HostBuffer& in = host::in(kernel, 0);
  HostBuffer& out = host::out(kernel, 0);
  StreamWork work;
  work.start = [=, &in](StreamClock& clock) {
    check_even(in, members.size());
    send_parts(members, in, clock);
  };
  work.finish = [=, &in, &out](StreamClock& clock) {
    const std::vector<float> sum = sum_parts(members, in, out.type(), clock);
    fit(out, sum.size());
    move_to(sum, out.elements());
  };
  return work;
}

StreamWork all_gather(const Members& members, const Kernel& kernel) {
  const HostBuffer& in = host::in(kernel, 0);
  HostBuffer& out = host::out(kernel, 0);
  StreamWork work;
  work.start = [=, &in](StreamClock& clock) {
    const std::vector<std::byte> bytes = packed(in.type(), in.elements());
    for (std::size_t i = 1; i < members.size(); ++i) members.send(members.other(i), Round::parts, bytes, clock);
  };
  work.finish = [=, &in, &out](StreamClock& clock) {
    std::vector<std::vector<std::byte>> pieces(members.size());
    std::vector<std::size_t> sizes(members.size(), static_cast<std::size_t>(in.size()));
    std::size_t total = sizes[members.position()];
    for (std::size_t from = 0; from < members.size(); ++from) {
      if (from == members.position()) continue;
      pieces[from] = members.receive(from, Round::parts, clock);
      sizes[from] = pieces[from].size() / wire_bytes(in.type());
      total += sizes[from];
    }
    fit(out, total);
    std::span<float> left = out.elements();
    for (std::size_t from = 0; from < members.size(); ++from) {
      const std::span<float> place = left.first(sizes[from]);
      left = left.subspan(sizes[from]);
      if (from == members.position())
        move_to(in.elements(), place);
      else
        unpack(pieces[from], in.type(), place);
    }
    if (in.type() != out.type()) round_to(out.type(), out.elements());
  };
  return work;
}

}  // namespace plumbline::real::host
