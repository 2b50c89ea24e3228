#include "real/cuda/comm/dispatch_layout.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <thread>

namespace plumbline::real::cuda {
namespace {

// The integers of a layout in one region; the counts come first, because the host reads them.
struct Sizes {
  std::int64_t members, nodes, experts, entries;
  std::int64_t copies = 1;  // of the counts: 1, or one per member after this rank's own

  std::int64_t counts() const { return members + nodes + experts + 1; }
  std::int64_t integers() const { return (1 + copies) * counts() + members + 1 + nodes + 1 + 4 * entries; }
};

Sizes sizes_of(const DispatchLayout& layout, bool shares) {
  return {bucket_count(layout.members.buckets), bucket_count(layout.nodes.buckets), layout.homes.experts,
          layout.tokens * layout.choices, shares ? layout.homes.members : 1};
}

// Growing memory waits for the device, so that no kernel still uses the old memory.
Status fit(DispatchLayout& layout, const Sizes& sizes) {
  constexpr auto integer = static_cast<std::int64_t>(sizeof(std::int32_t));
  if (layout.memory.bytes() < sizes.integers() * integer)
    PLUMBLINE_TRY(layout.memory.allocate(sizes.integers() * integer));
  const std::int64_t counts_bytes = sizes.copies * sizes.counts() * integer;
  if (layout.counts_bytes >= counts_bytes) return {};
  layout.counts_bytes = 0;
  PLUMBLINE_TRY(layout.counts.allocate(counts_bytes));
  layout.counts_bytes = counts_bytes;
  return {};
}

void place(DispatchLayout& layout, const Sizes& sizes) {
  auto* at = layout.memory.as<std::int32_t>() + (1 + sizes.copies) * sizes.counts();
  const auto take = [&at](std::int64_t count) {
    std::int32_t* taken = at;
    at += count;
    return taken;
  };
  layout.members.list = {take(sizes.members + 1), take(sizes.entries), take(sizes.entries)};
  layout.nodes.list = {take(sizes.nodes + 1), take(sizes.entries), take(sizes.entries)};
}

Status check_fit(const ExpertHomes& homes) {
  const std::int64_t places = static_cast<std::int64_t>(homes.members) * homes.per_rank;
  if (homes.per_rank > 0 && homes.experts > 0 && places >= homes.experts && places % homes.experts == 0) return {};
  return {std::to_string(homes.experts) + " experts do not lie evenly on " + std::to_string(homes.members) +
          " ranks of " + std::to_string(homes.per_rank)};
}

RouteTask task_of(const RouteTask& task, const Route& route) {
  RouteTask of_route = task;
  of_route.buckets = route.buckets;
  return of_route;
}

Status count(const DispatchLayout& layout, const RouteTask& task, const Sizes& sizes, cudaStream_t stream) {
  auto* counts = layout.memory.as<std::int32_t>();
  const auto bytes = static_cast<std::size_t>(sizes.counts()) * sizeof(std::int32_t);
  PLUMBLINE_TRY(outcome(cudaMemsetAsync(counts, 0, bytes, stream), "clearing counts"));
  PLUMBLINE_TRY(outcome(count_sends(task_of(task, layout.members), counts, stream), "counting tokens"));
  PLUMBLINE_TRY(outcome(count_sends(task_of(task, layout.nodes), counts + sizes.members, stream), "counting tokens"));
  return outcome(count_choices(task, counts + sizes.members + sizes.nodes, stream), "counting choices");
}

// Copies this rank's counts, or those of all members, to the host.
Status fetch_counts(const DispatchLayout& layout, const Sizes& sizes, const DispatchLayoutBuilder::Share& share,
                    cudaStream_t stream) {
  auto* counts = layout.memory.as<std::int32_t>();
  if (share) {
    PLUMBLINE_TRY(share(counts, counts + sizes.counts(), sizes.counts()));
    counts += sizes.counts();
  }
  const auto bytes = static_cast<std::size_t>(sizes.copies * sizes.counts()) * sizeof(std::int32_t);
  return outcome(cudaMemcpyAsync(layout.counts.as<std::int32_t>(), counts, bytes, cudaMemcpyDeviceToHost, stream),
                 "copying counts");
}

Status list(const DispatchLayout& layout, const RouteTask& task, const Sizes& sizes, cudaStream_t stream) {
  const auto* counts = layout.memory.as<std::int32_t>();
  PLUMBLINE_TRY(
      outcome(list_sends(task_of(task, layout.members), counts, layout.members.list, stream), "listing tokens"));
  return outcome(list_sends(task_of(task, layout.nodes), counts + sizes.members, layout.nodes.list, stream),
                 "listing tokens");
}

std::vector<std::int64_t> starts(const std::int32_t* counts, std::int64_t buckets) {
  std::vector<std::int64_t> first(static_cast<std::size_t>(buckets) + 1);
  std::partial_sum(counts, counts + buckets, first.begin() + 1,
                   [](std::int64_t sum, std::int64_t n) { return sum + n; });
  return first;
}

Status read_counts(DispatchLayout& layout, const Sizes& sizes) {
  const std::int64_t place_of_own = sizes.copies > 1 ? layout.homes.position : 0;
  const std::int32_t* counts = layout.counts.as<std::int32_t>() + place_of_own * sizes.counts();
  layout.members.first = starts(counts, sizes.members);
  layout.nodes.first = starts(counts + sizes.members, sizes.nodes);
  const std::int32_t* choices = counts + sizes.members + sizes.nodes;
  layout.choices_of.assign(choices, choices + sizes.experts);
  if (const std::int32_t strays = choices[sizes.experts]; strays > 0)
    return {std::to_string(strays) + " choices of tokens are experts that do not exist"};
  return {};
}

}  // namespace

std::int32_t members_per_node(std::span<const std::int32_t> nodes) {
  std::vector<std::int32_t> sizes;
  std::set<std::int32_t> seen;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (i > 0 && nodes[i] == nodes[i - 1]) {
      ++sizes.back();
      continue;
    }
    if (!seen.insert(nodes[i]).second) return 1;  // members of a node are not contiguous
    sizes.push_back(1);
  }
  const bool even = std::all_of(sizes.begin(), sizes.end(), [&](std::int32_t size) { return size == sizes.front(); });
  return even && !sizes.empty() ? sizes.front() : 1;
}

std::vector<std::int64_t> folded_rows_per_expert(const ExpertHomes& homes,
                                                 const std::vector<std::int64_t>& choices_of) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(homes.per_rank));
  for (std::size_t expert = 0; expert < choices_of.size(); ++expert) rows[expert % rows.size()] += choices_of[expert];
  return rows;
}

Status list_passing(DispatchLayout& layout, const std::int32_t* indices, std::int64_t rows, SendList& list,
                    cudaStream_t stream) {
  RouteTask task{indices, rows, layout.choices, layout.members.buckets};
  task.buckets.leg = Leg::inside_node;
  const std::int64_t places = bucket_count(task.buckets), entries = rows * layout.choices;
  const std::int64_t bytes = (2 * places + 1 + 2 * entries) * static_cast<std::int64_t>(sizeof(std::int32_t));
  // Rows differ from layer to layer: half as much again avoids further waits for the device.
  if (layout.passing.bytes() < bytes) PLUMBLINE_TRY(layout.passing.allocate(bytes + bytes / 2));
  auto* counts = layout.passing.as<std::int32_t>();
  list.first = counts + places;
  list.tokens = list.first + places + 1;
  list.slots = list.tokens + entries;
  PLUMBLINE_TRY(outcome(count_sends(task, counts, stream), "counting tokens"));
  return outcome(list_sends(task, counts, list, stream), "listing tokens");
}

Status wait_for(cudaEvent_t event, const Watch& watch) {
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    if (state != cudaErrorNotReady) return outcome(state, "waiting for the counts of a dispatch");
    if (watch) PLUMBLINE_TRY(watch());
    std::this_thread::yield();
  }
}

DispatchLayoutBuilder::~DispatchLayoutBuilder() {
  if (counted_ != nullptr) cudaEventDestroy(counted_);
}

std::shared_ptr<DispatchLayout> DispatchLayoutBuilder::take() {
  auto layout = std::make_unique<DispatchLayout>();
  if (!idle_->layouts.empty()) {
    layout = std::move(idle_->layouts.back());
    idle_->layouts.pop_back();
  }
  // Buffers hold layouts, and may outlive their builder.
  return {layout.release(), [idle = idle_](DispatchLayout* done) { idle->layouts.emplace_back(done); }};
}

Status DispatchLayoutBuilder::route(const Request& request, cudaStream_t stream,
                                    std::shared_ptr<DispatchLayout>& layout, SharedCounts* counts) {
  const CudaBuffer& indices = request.indices;
  PLUMBLINE_TRY(check_fit(request.homes));
  layout = take();
  layout->tokens = indices.rows();
  layout->choices = static_cast<std::int32_t>(indices.columns());
  layout->homes = request.homes;
  layout->legs.clear();
  layout->members.buckets = {request.homes, Leg::to_members, request.node_members};
  layout->nodes.buckets = {request.homes, Leg::to_nodes, request.node_members};
  const Sizes sizes = sizes_of(*layout, request.share != nullptr);
  PLUMBLINE_TRY(fit(*layout, sizes));
  place(*layout, sizes);
  if (counted_ == nullptr)
    PLUMBLINE_TRY(outcome(cudaEventCreateWithFlags(&counted_, cudaEventDisableTiming), "making an event"));

  const RouteTask task{indices.data<const std::int32_t>(), layout->tokens, layout->choices, layout->members.buckets};
  PLUMBLINE_TRY(count(*layout, task, sizes, stream));
  PLUMBLINE_TRY(fetch_counts(*layout, sizes, request.share, stream));
  PLUMBLINE_TRY(outcome(cudaEventRecord(counted_, stream), "recording an event"));
  PLUMBLINE_TRY(list(*layout, task, sizes, stream));  // concurrent with the host's wait for the counts
  PLUMBLINE_TRY(wait_for(counted_, request.watch));
  if (counts != nullptr)
    *counts = {layout->counts.as<std::int32_t>(), sizes.counts(), layout->homes, request.node_members};
  return read_counts(*layout, sizes);
}

}  // namespace plumbline::real::cuda
