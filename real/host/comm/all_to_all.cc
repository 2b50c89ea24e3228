#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <variant>

#include "real/host/comm/members.h"
#include "real/host/comm/packing.h"
#include "real/host/rounding.h"

namespace plumbline::real::host {
namespace {

using Packets = std::vector<std::vector<std::byte>>;  // [member]

// The placement of experts on members. Where experts are also divided by columns, adjacent members (replicas) hold the
// parts of the same experts. A token goes to the part with its own rank's index among its replicas.
class Homes {
 public:
  Homes(const Members& members, const Kernel& kernel) : members_(members) {
    const auto& attributes = std::get<model::DispatchAttributes>(kernel.op->attributes);
    per_rank_ = static_cast<std::size_t>(attributes.experts_per_rank);
    experts_ = static_cast<float>(attributes.experts);
    replicas_ = members.size() * per_rank_ / static_cast<std::size_t>(attributes.experts);
  }

  bool exists(float expert) const { return expert >= 0 && expert < experts_; }
  std::size_t home(std::size_t expert) const {
    return expert / per_rank_ * replicas_ + members_.position() % replicas_;
  }
  // Returns the expert's index on this member; -1 for an expert of another member.
  float local_number(float expert) const {
    const auto number = static_cast<std::size_t>(expert);
    return home(number) == members_.position() ? static_cast<float>(number % per_rank_) : -1.0F;
  }
  // Returns the members that send tokens to this one, itself included, in order.
  std::vector<std::size_t> peers() const {
    std::vector<std::size_t> result;
    for (std::size_t i = members_.position() % replicas_; i < members_.size(); i += replicas_) result.push_back(i);
    return result;
  }

 private:
  const Members& members_;
  std::size_t per_rank_ = 1, replicas_ = 1;
  float experts_ = 0;
};

// Returns the tokens that go to each member.
std::vector<std::vector<Index>> route(const Homes& homes, std::size_t members, const HostBuffer& indices) {
  std::vector<std::vector<Index>> sent(members);
  for (Index token = 0; token < indices.rows(); ++token) {
    for (Index choice = 0; choice < indices.columns(); ++choice) {
      const float expert = indices.matrix()(token, choice);
      if (!homes.exists(expert)) throw RankFailure("a token chooses expert " + std::to_string(expert));
      std::vector<Index>& tokens = sent[homes.home(static_cast<std::size_t>(expert))];
      if (tokens.empty() || tokens.back() != token) tokens.push_back(token);
    }
  }
  return sent;
}

std::shared_ptr<const DispatchLayout> earlier_layout(const Kernel& kernel, std::size_t indices) {
  if (in(kernel, indices).dispatch_layout == nullptr)
    throw RankFailure(kernel.op->name + " runs before the dispatch of its tokens");
  return in(kernel, indices).dispatch_layout;
}

std::size_t row_bytes(const Kernel& kernel, std::size_t tensors) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < tensors; ++i)
    bytes += static_cast<std::size_t>(in(kernel, i).columns()) * wire_bytes(in(kernel, i).type());
  return bytes;
}

// Packs the given rows of the kernel's first `tensors` reads.
std::vector<std::byte> packed(const Kernel& kernel, std::size_t tensors, std::span<const Index> rows) {
  Packer packer(rows.size() * row_bytes(kernel, tensors));
  for (std::size_t i = 0; i < tensors; ++i) packer.add_rows(in(kernel, i), rows);
  return packer.take();
}

// Sends each peer its rows; returns the rows that stay on this member.
std::vector<std::byte> send_rows(const Members& members, const Kernel& kernel, std::size_t tensors,
                                 const std::vector<std::vector<Index>>& rows, StreamClock& clock) {
  const std::vector<std::size_t> peers = Homes(members, kernel).peers();
  for (std::size_t i = 1; i < members.size(); ++i) {
    const std::size_t to = members.other(i);
    if (std::ranges::binary_search(peers, to)) members.send(to, Round::parts, packed(kernel, tensors, rows[to]), clock);
  }
  return packed(kernel, tensors, rows[members.position()]);
}

Packets receive_rows(const Members& members, const Kernel& kernel, std::vector<std::byte> own, StreamClock& clock) {
  Packets packets(members.size());
  for (const std::size_t from : Homes(members, kernel).peers())
    packets[from] = from == members.position() ? std::move(own) : members.receive(from, Round::parts, clock);
  return packets;
}

// Writes the received rows one after the other, and returns how many came from each member.
std::vector<Index> unpack_rows(const Kernel& kernel, std::size_t tensors, const Packets& packets) {
  std::vector<Index> counts;
  for (const std::vector<std::byte>& packet : packets)
    counts.push_back(static_cast<Index>(packet.size() / row_bytes(kernel, tensors)));
  const Index total = std::accumulate(counts.begin(), counts.end(), Index{0});
  for (std::size_t i = 0; i < tensors; ++i) out(kernel, i).resize(total);
  Index first = 0;
  for (std::size_t from = 0; from < packets.size(); ++from) {
    Unpacker unpacker(packets[from]);
    for (std::size_t i = 0; i < tensors; ++i) {
      HostBuffer& to = out(kernel, i);
      unpacker.copy(in(kernel, i).type(),
                    {to.data() + first * to.columns(), static_cast<std::size_t>(counts[from] * to.columns())});
    }
    first += counts[from];
  }
  return counts;
}

// Returns the received rows by the member that sent them.
std::vector<std::vector<Index>> received_rows(const DispatchLayout& layout) {
  std::vector<std::vector<Index>> rows;
  Index first = 0;
  for (const Index count : layout.received) {
    rows.emplace_back(static_cast<std::size_t>(count));
    std::iota(rows.back().begin(), rows.back().end(), first);
    first += count;
  }
  return rows;
}

void round_outputs(const Kernel& kernel) {
  for (std::size_t i = 0; i < kernel.writes.size(); ++i) {
    HostBuffer& to = out(kernel, i);
    round_to(to.type(), {to.data(), static_cast<std::size_t>(to.size())});
  }
}

// Returns the work that sends tokens to the ranks of their experts; find_layout(), called in start(), selects them.
template <class FindLayout, class Finished>
StreamWork send_out(const Members& members, const Kernel& kernel, std::size_t tensors, FindLayout find_layout,
                    Finished finished) {
  const auto own = std::make_shared<std::vector<std::byte>>();
  StreamWork work;
  work.start = [=](StreamClock& clock) { *own = send_rows(members, kernel, tensors, find_layout(), clock); };
  work.finish = [=](StreamClock& clock) {
    finished(unpack_rows(kernel, tensors, receive_rows(members, kernel, std::move(*own), clock)));
    round_outputs(kernel);
  };
  return work;
}

// Returns the work that sends the experts' results back to the ranks of their tokens and sums them there. The kernel's
// reads from `addends` on are added last.
StreamWork send_back(const Members& members, const Kernel& kernel, std::size_t tensors, std::size_t indices,
                     std::size_t addends) {
  const auto own = std::make_shared<std::vector<std::byte>>();
  StreamWork work;
  work.start = [=](StreamClock& clock) {
    *own = send_rows(members, kernel, tensors, received_rows(*earlier_layout(kernel, indices)), clock);
  };
  work.finish = [=](StreamClock& clock) {
    const Packets packets = receive_rows(members, kernel, std::move(*own), clock);
    for (std::size_t i = 0; i < tensors; ++i) {
      out(kernel, i).resize(in(kernel, indices).rows());
      out(kernel, i).array().setZero();
    }
    const std::shared_ptr<const DispatchLayout> layout = earlier_layout(kernel, indices);
    for (std::size_t from = 0; from < packets.size(); ++from) {
      Unpacker unpacker(packets[from]);
      for (std::size_t i = 0; i < tensors; ++i)
        unpacker.add_rows(in(kernel, i).type(), out(kernel, i), layout->sent[from]);
    }
    for (std::size_t i = addends; i < kernel.reads.size(); ++i) out(kernel, 0).array() += in(kernel, i).array();
    round_outputs(kernel);
  };
  return work;
}

}  // namespace

StreamWork dispatch(const Members& members, const Kernel& kernel) {
  constexpr std::size_t indices = 1;
  const auto layout = std::make_shared<DispatchLayout>();
  return send_out(
      members, kernel, 3,
      [=] {
        layout->sent = route(Homes(members, kernel), members.size(), in(kernel, indices));
        return layout->sent;
      },
      [=](std::vector<Index> received) {
        layout->received = std::move(received);
        in(kernel, indices).dispatch_layout = layout;
        const Homes homes(members, kernel);
        for (float& expert : out(kernel, indices).array()) expert = homes.local_number(expert);
      });
}

StreamWork combine_grad(const Members& members, const Kernel& kernel) {
  return send_out(
      members, kernel, 1, [=] { return earlier_layout(kernel, 1)->sent; }, [](const std::vector<Index>&) {});
}

StreamWork dispatch_grad(const Members& members, const Kernel& kernel) {
  return send_back(members, kernel, 2, 2, kernel.reads.size());
}

StreamWork combine(const Members& members, const Kernel& kernel) { return send_back(members, kernel, 1, 1, 2); }

}  // namespace plumbline::real::host
