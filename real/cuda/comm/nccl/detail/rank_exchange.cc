#include "real/cuda/comm/nccl/detail/rank_exchange.h"

#include <utility>

#include "real/cuda/comm/calls.h"
#include "real/cuda/comm/nccl/detail/nccl_carrier.h"
#include "real/cuda/comm/nccl/detail/node_carrier.h"
#include "real/cuda/comm/rows.h"

namespace plumbline::real::cuda {

namespace {

constexpr std::size_t indices_strip = 1;

std::int64_t sent(const Hop& hop) { return hop.traffic.sent_by(hop.traffic.own()).back(); }
std::int64_t received(const Hop& hop) { return hop.traffic.received_by(hop.traffic.own()).back(); }

// The first hop's list is known; that of what is passed on is made when it has come.
std::vector<Hop> hops_of(const ExchangeMap& map, const SharedCounts& counts) {
  if (counts.node_members == 1) return {{between_members(counts), map.members.list, false}};
  if (counts.nodes() == 1) return {{between_members(counts), map.members.list, true}};
  return {{between_nodes(counts), map.nodes.list, false}, {inside_node(counts), {}, true}};
}

// Memory on a stream that is divided as it is asked for.
class Stage {
 public:
  explicit Stage(void* begin) : at_(static_cast<char*>(begin)) {}
  std::vector<void*> take(std::span<const std::int64_t> row_bytes, std::int64_t rows) {
    const std::vector<std::int64_t> offsets = strip_offsets(row_bytes, rows);
    std::vector<void*> places;
    for (std::size_t i = 0; i < row_bytes.size(); ++i) places.push_back(at_ + offsets[i]);
    at_ += offsets.back();
    return places;
  }

 private:
  char* at_;
};

}  // namespace

RankExchange::Ways& RankExchange::ways_of(const Group& group, const ExpertHomes& homes) {
  const auto [entry, fresh] = ways_.try_emplace(group.ranks);
  Ways& ways = entry->second;
  if (!fresh) return ways;
  std::vector<std::int32_t> nodes;
  for (const std::int32_t rank : group.ranks) nodes.push_back(neighbours_.node_of[static_cast<std::size_t>(rank)]);
  ways.node_members = members_per_node(nodes);
  // Who passes a token on must choose among ranks with parts of the same expert as the sender would.
  const std::int32_t sharers = homes.members * homes.per_rank / homes.experts;
  if (ways.node_members % sharers != 0) ways.node_members = 1;

  const std::int32_t place = group.position % ways.node_members, first = group.position - place;
  std::vector<std::int32_t> across, beside;
  for (std::int32_t member = 0; member < group.size(); ++member) {
    const std::int32_t rank = group.ranks[static_cast<std::size_t>(member)];
    if (member % ways.node_members == place) across.push_back(rank);
    if (member >= first && member < first + ways.node_members) beside.push_back(rank);
  }
  if (across.size() > 1) ways.between = std::make_unique<NcclCarrier>(groups_, across, blocks_.ctas);
  if (beside.size() > 1) ways.inside = std::make_unique<NodeCarrier>(groups_, beside, place, blocks_);
  return ways;
}

Status RankExchange::send(Carrier& carrier, const Hop& hop, const Cargo& cargo, std::span<void* const> to,
                          cudaStream_t stream) {
  std::vector<void*> places;
  PLUMBLINE_TRY(carrier.outbox(hop.traffic, cargo.row_bytes, stream, places));
  RowCopy copy;
  copy.source = hop.list.tokens;
  copy.rows = sent(hop);
  std::vector<Strip> strips;
  for (std::size_t i = 0; i < places.size(); ++i) {
    copy.planes[copy.planes_count++] = {cargo.at[i], places[i], cargo.row_bytes[i], cargo.row_bytes[i]};
    strips.push_back({places[i], to[i], cargo.row_bytes[i]});
  }
  PLUMBLINE_TRY(outcome(copy_rows(copy, blocks_, stream), "sorting rows"));
  return carrier.swap(hop.traffic, strips, stream);
}

Status RankExchange::travel(const Ways& ways, const ExchangeMap& map, Cargo cargo, std::span<void* const> arrivals,
                            const Passing& passing, cudaStream_t stream) {
  const Hop& last = map.hops.back();
  if (map.hops.size() == 1) return send(ways.of(last), last, cargo, arrivals, stream);
  const Hop& first = map.hops.front();
  void* memory = nullptr;
  PLUMBLINE_TRY(scratch_.take(stream, strip_offsets(cargo.row_bytes, received(first)).back(), memory));
  const std::vector<void*> halfway = Stage(memory).take(cargo.row_bytes, received(first));
  PLUMBLINE_TRY(send(ways.of(first), first, cargo, halfway, stream));
  PLUMBLINE_TRY(passing(halfway));
  cargo.at.assign(halfway.begin(), halfway.end());
  return send(ways.of(last), last, cargo, arrivals, stream);
}

Status RankExchange::run(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  switch (kernel.op->kind) {
    case model::OperatorKind::dispatch:
      return dispatch(group, kernel, stream);
    case model::OperatorKind::dispatch_grad:
      return dispatch_grad(group, kernel, stream);
    case model::OperatorKind::combine:
      return combine(group, kernel, stream);
    default:
      return combine_grad(group, kernel, stream);
  }
}

Status RankExchange::dispatch(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  const ExpertHomes homes = homes_of(group, kernel);
  const Ways& ways = ways_of(group, homes);
  ncclComm_t communicator = nullptr;
  PLUMBLINE_TRY(groups_.find(group.ranks, stream, blocks_.ctas, communicator));
  const auto share = [&](const std::int32_t* own, std::int32_t* all, std::int64_t count) {
    return groups_.together(communicator, "sharing counts", [&](const Nccl& nccl) {
      return nccl.all_gather(own, all, static_cast<std::size_t>(count), ncclInt32, communicator, stream);
    });
  };
  const CudaBuffer &x = in(kernel, 0), &indices = in(kernel, 1), &weights = in(kernel, 2);
  std::shared_ptr<ExchangeMap> map;
  SharedCounts counts;
  PLUMBLINE_TRY(
      router_.route({indices, homes, ways.node_members, [&] { return groups_.alive(); }, share}, stream, map, &counts));
  map->hops = hops_of(*map, counts);
  map->received_rows = received(map->hops.back());
  PLUMBLINE_TRY(receive(kernel, map, arriving_per_expert(counts)));

  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(x.view(), bytes));
  const std::int64_t choice_bytes = std::int64_t{4} * map->choices;
  Cargo cargo{{x.view().data, indices.view().data, weights.view().data}, {bytes.values, choice_bytes, choice_bytes}};
  std::vector<void*> arrivals = {out(kernel, 0).view().data, out(kernel, 1).view().data, out(kernel, 2).view().data};
  if (bytes.scales > 0) {
    cargo.at.push_back(x.view().scales);
    cargo.row_bytes.push_back(bytes.scales);
    arrivals.push_back(out(kernel, 0).view().scales);
  }
  const auto passing = [&](std::span<void* const> at) {
    return list_passing(*map, static_cast<const std::int32_t*>(at[indices_strip]), received(map->hops.front()),
                        map->hops.back().list, stream);
  };
  PLUMBLINE_TRY(travel(ways, *map, cargo, arrivals, passing, stream));
  return outcome(number_locally(homes, static_cast<std::int32_t*>(arrivals[indices_strip]),
                                map->received_rows * map->choices, stream),
                 "numbering experts");
}

Status RankExchange::combine_grad(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const ExchangeMap> map;
  PLUMBLINE_TRY(find_map(kernel, 1, nullptr, map));
  const TensorView x = in(kernel, 0).view();
  PLUMBLINE_TRY(out(kernel, 0).resize(map->received_rows));
  out(kernel, 0).mark_changed();
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(x, bytes));
  Cargo cargo{{x.data}, {bytes.values}};
  std::vector<void*> arrivals = {out(kernel, 0).view().data};
  if (bytes.scales > 0) {
    cargo.at.push_back(x.scales);
    cargo.row_bytes.push_back(bytes.scales);
    arrivals.push_back(out(kernel, 0).view().scales);
  }
  const auto listed = [](std::span<void* const> /*at*/) { return Status{}; };
  return travel(ways_of(group, map->homes), *map, cargo, arrivals, listed, stream);
}

// What was received goes back as it came, and arrives in the order in which it was sent.
Status RankExchange::sum_back(const Group& group, const Kernel& kernel, const ExchangeMap& map, const float* small,
                              cudaStream_t stream) {
  TensorView rows = in(kernel, 0).view();
  RowSum last;
  PLUMBLINE_TRY(make_sum(kernel, map, rows, small, last));
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(rows, bytes));
  const std::vector<std::int64_t> sizes = {bytes.values, small == nullptr ? 0 : std::int64_t{4} * map.choices};
  std::int64_t needed = 0;
  for (const Hop& hop : map.hops) needed += strip_offsets(sizes, sent(hop)).back();
  if (map.hops.size() > 1) needed += strip_offsets(sizes, received(map.hops.front())).back();
  void* memory = nullptr;
  PLUMBLINE_TRY(scratch_.take(stream, needed, memory));
  Stage stage(memory);

  const Ways& ways = ways_of(group, map.homes);
  for (std::size_t number = map.hops.size(); number-- > 0;) {
    const Hop& hop = map.hops[number];
    const std::vector<void*> arrived = stage.take(sizes, sent(hop));
    std::vector<Strip> strips = {{rows.data, arrived[0], sizes[0]}};
    if (small != nullptr) strips.push_back({small, arrived[1], sizes[1]});
    PLUMBLINE_TRY(ways.of(hop).swap(hop.traffic.back(), strips, stream));
    RowSum sum = last;
    sum.rows.data = arrived[0];
    sum.rows.rows = sent(hop);
    sum.slots = hop.list.slots;
    if (small != nullptr) sum.small_rows = static_cast<const float*>(arrived[1]);
    if (number > 0) {
      rows.rows = received(map.hops[number - 1]);
      const std::vector<void*> summed = stage.take(sizes, rows.rows);
      rows.data = summed[0];
      sum.out = rows;
      sum.addends_count = 0;
      if (small != nullptr) small = sum.small_out = static_cast<float*>(summed[1]);
    }
    PLUMBLINE_TRY(outcome(sum_rows(sum, blocks_, stream), "adding what the ranks sent"));
  }
  return {};
}

Status RankExchange::dispatch_grad(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const ExchangeMap> map;
  PLUMBLINE_TRY(find_map(kernel, 2, &in(kernel, 0), map));
  return sum_back(group, kernel, *map, in(kernel, 1).data<const float>(), stream);
}

Status RankExchange::combine(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const ExchangeMap> map;
  PLUMBLINE_TRY(find_map(kernel, 1, &in(kernel, 0), map));
  return sum_back(group, kernel, *map, nullptr, stream);
}

}  // namespace plumbline::real::cuda
