// The layout of a dispatch: which tokens go to which ranks. It is built on the GPU from the router's indices; the host
// waits for the counts only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "real/cuda/comm/traffic.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/memory.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// A list of sends by destination, then by token.
struct Route {
  Buckets buckets;
  SendList list;
  std::vector<std::int64_t> first;  // [buckets + 1] host copy of list.first

  std::int64_t rows() const { return first.back(); }
  std::int64_t rows_of(std::size_t bucket) const { return first[bucket + 1] - first[bucket]; }
};

// One leg of an all-to-all: what this rank sends on it, by peer.
struct TransferLeg {
  Traffic traffic;
  SendList list;
  bool inside_node = false;
};

struct DispatchLayout {
  std::int64_t tokens = 0;
  std::int32_t choices = 0;
  ExpertHomes homes;
  Route members, nodes;                  // one send per token and member, and per token and node
  std::vector<std::int64_t> choices_of;  // [expert] tokens of this rank that chose it
  std::vector<TransferLeg> legs;         // empty if this rank is alone or emulated
  std::int64_t received_rows = 0;
  DeviceMemory memory;
  PinnedMemory counts;
  std::int64_t counts_bytes = 0;  // capacity of `counts`
  DeviceMemory passing;           // the list of rows that are forwarded within the node
};

// Returns the members of a group on each node, from the node of each member. All nodes must hold equally many,
// contiguous in the group's order; otherwise the result is 1, and every member counts as a node.
std::int32_t members_per_node(std::span<const std::int32_t> nodes);

// Returns the rows per expert of a rank that receives exactly what it sends, where each expert is replaced by its local
// number.
std::vector<std::int64_t> folded_rows_per_expert(const ExpertHomes& homes, const std::vector<std::int64_t>& choices_of);

// Lists the rows that came from other nodes by the place within this node to which each is forwarded. `indices` ([rows,
// choices], int32) came with them.
Status list_passing(DispatchLayout& layout, const std::int32_t* indices, std::int64_t rows, SendList& list,
                    cudaStream_t stream);

// Called while the host waits for the GPU: a failure ends the wait for an event that may never happen.
using Watch = std::function<Status()>;
// Waits until the event has happened; a failure of `watch` is returned at once.
Status wait_for(cudaEvent_t event, const Watch& watch);

// Builds layouts. The memory of released layouts is reused, which is safe because all all-to-alls run on one stream.
class DispatchLayoutBuilder {
 public:
  DispatchLayoutBuilder() = default;
  ~DispatchLayoutBuilder();
  DispatchLayoutBuilder(const DispatchLayoutBuilder&) = delete;
  DispatchLayoutBuilder& operator=(const DispatchLayoutBuilder&) = delete;

  // Builds the layout of `indices` ([tokens, choices], int32). It fails if a token chooses an expert that does not
  // exist, or if the experts do not fit the group. `share`, if set, gathers the counts of all members into `counts`,
  // which are valid as long as the layout.
  using Share = std::function<Status(const std::int32_t* own, std::int32_t* all, std::int64_t count)>;
  struct Request {
    const CudaBuffer& indices;
    ExpertHomes homes;
    std::int32_t node_members = 1;
    Watch watch;
    Share share;
  };
  Status route(const Request& request, cudaStream_t stream, std::shared_ptr<DispatchLayout>& layout,
               SharedCounts* counts = nullptr);

 private:
  struct Idle {
    std::vector<std::unique_ptr<DispatchLayout>> layouts;
  };
  std::shared_ptr<DispatchLayout> take();

  std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
  cudaEvent_t counted_ = nullptr;
};

}  // namespace plumbline::real::cuda
