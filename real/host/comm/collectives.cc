#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>

#include "real/host/comm/members.h"
#include "real/host/comm/packing.h"
#include "real/host/rounding.h"

namespace plumbline::real::host {
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
