// Which tokens an exchange sends where: found on the GPU from the router's indices, of which the host waits for the
// counts alone.
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

// Sends by destination, then by token.
struct Route {
  Buckets buckets;
  SendList list;
  std::vector<std::int64_t> first;  // [buckets + 1] as list.first

  std::int64_t rows() const { return first.back(); }
  std::int64_t rows_of(std::size_t bucket) const { return first[bucket + 1] - first[bucket]; }
};

// One leg of the way to other ranks: what this rank sends on it, by peer.
struct TransferLeg {
  Traffic traffic;
  SendList list;
  bool inside_node = false;
};

struct DispatchLayout {
  std::int64_t tokens = 0;
  std::int32_t choices = 0;
  ExpertHomes homes;
  Route members, nodes;                  // a send per token and member, and per token and node
  std::vector<std::int64_t> choices_of;  // [expert] how many of this rank's tokens chose it
  std::vector<TransferLeg> legs;         // none where no other rank is met
  std::int64_t received_rows = 0;
  DeviceMemory memory;
  PinnedMemory counts;
  std::int64_t counts_bytes = 0;  // that it has room for
  DeviceMemory passing;           // the list of what is passed on within the node
};

// Members of a group on each node, by the node of each member, where all nodes hold equally many, neighbours in the
// group's order; 1 elsewhere: every member then counts as a node.
std::int32_t members_per_node(std::span<const std::int32_t> nodes);

// Who received as this rank sent, each token with its experts' numbers taken within their rank: rows per expert there.
std::vector<std::int64_t> folded_rows_per_expert(const ExpertHomes& homes, const std::vector<std::int64_t>& choices_of);

// Lists tokens that reached this rank from its place on other nodes by the place within the node that each goes to:
// `indices` ([rows, choices], int32) came with them.
Status list_passing(DispatchLayout& map, const std::int32_t* indices, std::int64_t rows, SendList& list,
                    cudaStream_t stream);

// Looked at while the host waits for the GPU: what may have happened that the GPU does not notice.
using Watch = std::function<Status()>;
// Returns when the event has happened, or with what `watch` said.
Status wait_for(cudaEvent_t event, const Watch& watch);

// Makes maps. Memory of maps that nobody holds any more is used again, in the order of the stream on which all
// exchanges run.
class DispatchLayoutBuilder {
 public:
  DispatchLayoutBuilder() = default;
  ~DispatchLayoutBuilder();
  DispatchLayoutBuilder(const DispatchLayoutBuilder&) = delete;
  DispatchLayoutBuilder& operator=(const DispatchLayoutBuilder&) = delete;

  // The map of `indices` ([tokens, choices], int32). Fails by name where a token chooses an expert that does not exist,
  // or experts do not fit the group. With `share`, which gives each member the counts of all, `counts` are these, as
  // long as the map lasts.
  using Share = std::function<Status(const std::int32_t* own, std::int32_t* all, std::int64_t count)>;
  struct Request {
    const CudaBuffer& indices;
    ExpertHomes homes;
    std::int32_t node_members = 1;
    Watch watch;
    Share share;
  };
  Status route(const Request& request, cudaStream_t stream, std::shared_ptr<DispatchLayout>& map,
               SharedCounts* counts = nullptr);

 private:
  struct Idle {
    std::vector<std::unique_ptr<DispatchLayout>> maps;
  };
  std::shared_ptr<DispatchLayout> take();

  std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
  cudaEvent_t counted_ = nullptr;
};

}  // namespace plumbline::real::cuda
