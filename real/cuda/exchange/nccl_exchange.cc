#include "real/cuda/exchange/nccl_exchange.h"

#include "real/cuda/exchange/calls.h"
#include "real/cuda/exchange/rows.h"

namespace plumbline::real::cuda {

namespace {

constexpr std::int64_t alignment = 256;

std::vector<std::int64_t> starts(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> first{0};
  for (const std::int64_t count : counts) first.push_back(first.back() + count);
  return first;
}

std::int64_t size_on_stage(std::int64_t row_bytes, std::int64_t rows) {
  return (row_bytes * rows + alignment - 1) / alignment * alignment;
}

}  // namespace

Status NcclExchange::stage(std::vector<void*>& places, const std::vector<std::int64_t>& row_bytes, std::int64_t rows,
                           cudaStream_t stream) {
  std::int64_t bytes = 0;
  for (const std::int64_t row : row_bytes) bytes += size_on_stage(row, rows);
  void* data = nullptr;
  PLUMBLINE_TRY(scratch_.take(stream, bytes, data));
  auto* at = static_cast<char*>(data);
  for (const std::int64_t row : row_bytes) {
    places.push_back(at);
    at += size_on_stage(row, rows);
  }
  return {};
}

Status NcclExchange::swap(const Group& group, const std::vector<Strip>& strips, const std::vector<std::int64_t>& sent,
                          const std::vector<std::int64_t>& received, cudaStream_t stream) {
  const auto own = static_cast<std::size_t>(group.position);
  const auto from = [&](const Strip& strip, std::size_t member) {
    return static_cast<const char*>(strip.from) + sent[member] * strip.row_bytes;
  };
  const auto to = [&](const Strip& strip, std::size_t member) {
    return static_cast<char*>(strip.to) + received[member] * strip.row_bytes;
  };
  const auto bytes = [](const Strip& strip, const std::vector<std::int64_t>& first, std::size_t member) {
    return static_cast<std::size_t>((first[member + 1] - first[member]) * strip.row_bytes);
  };
  for (const Strip& strip : strips)
    PLUMBLINE_TRY(outcome(
        cudaMemcpyAsync(to(strip, own), from(strip, own), bytes(strip, sent, own), cudaMemcpyDeviceToDevice, stream),
        "keeping tokens"));
  ncclComm_t communicator = nullptr;
  PLUMBLINE_TRY(groups_.find(group.ranks, stream, blocks_.ctas, communicator));
  return groups_.together(communicator, "an exchange", [&](const Nccl& nccl) {
    for (std::size_t distance = 1; distance < group.ranks.size(); ++distance) {
      const std::size_t target = (own + distance) % group.ranks.size();
      const std::size_t source = (own + group.ranks.size() - distance) % group.ranks.size();
      for (const Strip& strip : strips) {
        ncclResult_t result = ncclSuccess;
        if (const std::size_t size = bytes(strip, sent, target); size > 0)
          result = nccl.send(from(strip, target), size, ncclUint8, static_cast<int>(target), communicator, stream);
        if (result != ncclSuccess && result != ncclInProgress) return result;
        if (const std::size_t size = bytes(strip, received, source); size > 0)
          result = nccl.receive(to(strip, source), size, ncclUint8, static_cast<int>(source), communicator, stream);
        if (result != ncclSuccess && result != ncclInProgress) return result;
      }
    }
    return ncclSuccess;
  });
}

Status NcclExchange::dispatch(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  ncclComm_t communicator = nullptr;
  PLUMBLINE_TRY(groups_.find(group.ranks, stream, blocks_.ctas, communicator));
  const auto share = [&](const std::int32_t* own, std::int32_t* all, std::int64_t count) {
    return groups_.together(communicator, "sharing counts", [&](const Nccl& nccl) {
      return nccl.all_gather(own, all, static_cast<std::size_t>(count), ncclInt32, communicator, stream);
    });
  };
  const CudaBuffer &x = in(kernel, 0), &indices = in(kernel, 1), &weights = in(kernel, 2);
  std::shared_ptr<ExchangeMap> map;
  Arriving coming;
  PLUMBLINE_TRY(router_.route({indices, homes_of(group, kernel), 1, [&] { return groups_.alive(); }, share}, stream,
                              map, &coming));
  map->received = coming.rows;
  map->received_rows = starts(coming.rows).back();
  PLUMBLINE_TRY(receive(kernel, map, coming.rows_per_expert));

  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(x.view(), bytes));
  const std::int64_t choice_bytes = std::int64_t{4} * map->choices;
  std::vector<void*> places;
  PLUMBLINE_TRY(stage(places, {bytes.values, choice_bytes, choice_bytes, bytes.scales}, map->members.rows(), stream));
  RowCopy copy;
  copy.source = map->members.list.tokens;
  copy.rows = map->members.rows();
  copy.planes[copy.planes_count++] = {x.view().data, places[0], bytes.values, bytes.values};
  copy.planes[copy.planes_count++] = {weights.view().data, places[2], choice_bytes, choice_bytes};
  if (bytes.scales > 0) copy.planes[copy.planes_count++] = {x.view().scales, places[3], bytes.scales, bytes.scales};
  PLUMBLINE_TRY(outcome(copy_rows(copy, blocks_, stream), "sorting tokens"));
  PLUMBLINE_TRY(outcome(number_locally(task_of(*map, indices), map->members.list, map->members.rows(),
                                       static_cast<std::int32_t*>(places[1]), stream),
                        "numbering experts"));
  const TensorView to = out(kernel, 0).view();
  std::vector<Strip> strips = {{places[0], to.data, bytes.values},
                               {places[1], out(kernel, 1).view().data, choice_bytes},
                               {places[2], out(kernel, 2).view().data, choice_bytes}};
  if (bytes.scales > 0) strips.push_back({places[3], to.scales, bytes.scales});
  return swap(group, strips, map->members.first, starts(map->received), stream);
}

Status NcclExchange::combine_grad(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const ExchangeMap> map;
  PLUMBLINE_TRY(find_map(kernel, 1, nullptr, map));
  const TensorView x = in(kernel, 0).view();
  PLUMBLINE_TRY(out(kernel, 0).resize(map->received_rows));
  out(kernel, 0).mark_changed();
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(x, bytes));
  std::vector<void*> places;
  PLUMBLINE_TRY(stage(places, {bytes.values, bytes.scales}, map->members.rows(), stream));
  RowCopy copy;
  copy.source = map->members.list.tokens;
  copy.rows = map->members.rows();
  copy.planes[copy.planes_count++] = {x.data, places[0], bytes.values, bytes.values};
  if (bytes.scales > 0) copy.planes[copy.planes_count++] = {x.scales, places[1], bytes.scales, bytes.scales};
  PLUMBLINE_TRY(outcome(copy_rows(copy, blocks_, stream), "sorting gradients"));
  const TensorView to = out(kernel, 0).view();
  std::vector<Strip> strips = {{places[0], to.data, bytes.values}};
  if (bytes.scales > 0) strips.push_back({places[1], to.scales, bytes.scales});
  return swap(group, strips, map->members.first, starts(map->received), stream);
}

// What was received goes back as it came, and arrives in the order in which this rank had sent.
Status NcclExchange::sum_back(const Group& group, const Kernel& kernel, const ExchangeMap& map, const CudaBuffer* small,
                              cudaStream_t stream) {
  TensorView rows = in(kernel, 0).view();
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(rows, bytes));
  const std::int64_t choice_bytes = small == nullptr ? 0 : std::int64_t{4} * map.choices;
  std::vector<void*> places;
  PLUMBLINE_TRY(stage(places, {bytes.values, choice_bytes}, map.members.rows(), stream));
  std::vector<Strip> strips = {{rows.data, places[0], bytes.values}};
  if (small != nullptr) strips.push_back({small->view().data, places[1], choice_bytes});
  PLUMBLINE_TRY(swap(group, strips, starts(map.received), map.members.first, stream));
  rows.data = places[0];
  rows.rows = map.members.rows();
  RowSum sum;
  PLUMBLINE_TRY(make_sum(kernel, map, rows, small == nullptr ? nullptr : static_cast<const float*>(places[1]), sum));
  return outcome(sum_rows(sum, blocks_, stream), "adding what the ranks sent");
}

Status NcclExchange::dispatch_grad(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const ExchangeMap> map;
  PLUMBLINE_TRY(find_map(kernel, 2, &in(kernel, 0), map));
  return sum_back(group, kernel, *map, &in(kernel, 1), stream);
}

Status NcclExchange::combine(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const ExchangeMap> map;
  PLUMBLINE_TRY(find_map(kernel, 1, &in(kernel, 0), map));
  return sum_back(group, kernel, *map, nullptr, stream);
}

}  // namespace plumbline::real::cuda
