#include "real/cuda/comm/nccl/detail/row_transport.h"

#include <string>
#include <thread>

#include "real/cuda/comm/nccl/peer_memory.h"
#include "real/cuda/memory.h"

namespace plumbline::real::cuda {
namespace {

// The rows of a payload tensor for one peer, or from one.
struct Part {
  char* begin;
  std::size_t bytes;
};

Part part_of(const void* rows, std::int64_t row_bytes, const std::vector<std::int64_t>& first, std::size_t peer) {
  return {const_cast<char*>(static_cast<const char*>(rows)) + first[peer] * row_bytes,
          static_cast<std::size_t>((first[peer + 1] - first[peer]) * row_bytes)};
}

// Moves rows over NCCL: the network between nodes, and NCCL's own transport within one.
class NcclTransport final : public RowTransport {
 public:
  // Connects these ranks, with at most `ctas` CTAs of NCCL.
  NcclTransport(NcclGroups& groups, std::vector<std::int32_t> ranks, int ctas)
      : groups_(groups), ranks_(std::move(ranks)), ctas_(ctas) {}

  Status outbox(const Traffic& traffic, std::span<const std::int64_t> row_bytes, cudaStream_t /*stream*/,
                std::vector<void*>& places) override {
    const std::vector<std::int64_t> offsets = payload_offsets(row_bytes, traffic.sent_by(traffic.own()).back());
    // Rows differ from layer to layer: half as much again avoids further waits for the device.
    if (outbox_.bytes() < offsets.back()) PLUMBLINE_TRY(outbox_.allocate(offsets.back() + offsets.back() / 2));
    places.clear();
    for (std::size_t i = 0; i < row_bytes.size(); ++i) places.push_back(outbox_.as<char>() + offsets[i]);
    return {};
  }

  Status swap(const Traffic& traffic, std::span<const PayloadTensor> payload, cudaStream_t stream) override {
    const auto own = static_cast<std::size_t>(traffic.own()), peers = ranks_.size();
    const std::vector<std::int64_t> sent = traffic.sent_by(traffic.own()),
                                    received = traffic.received_by(traffic.own());
    for (const PayloadTensor& tensor : payload) {
      const Part kept = part_of(tensor.from, tensor.row_bytes, sent, own);
      PLUMBLINE_TRY(outcome(cudaMemcpyAsync(part_of(tensor.to, tensor.row_bytes, received, own).begin, kept.begin,
                                            kept.bytes, cudaMemcpyDeviceToDevice, stream),
                            "keeping tokens"));
    }
    ncclComm_t communicator = nullptr;
    PLUMBLINE_TRY(groups_.find(ranks_, stream, ctas_, communicator));
    return groups_.together(communicator, "an all-to-all", [&](const Nccl& nccl) {
      for (std::size_t distance = 1; distance < peers; ++distance) {
        const std::size_t target = (own + distance) % peers, source = (own + peers - distance) % peers;
        for (const PayloadTensor& tensor : payload) {
          ncclResult_t result = ncclSuccess;
          if (const Part part = part_of(tensor.from, tensor.row_bytes, sent, target); part.bytes > 0)
            result = nccl.send(part.begin, part.bytes, ncclUint8, static_cast<int>(target), communicator, stream);
          if (result != ncclSuccess && result != ncclInProgress) return result;
          if (const Part part = part_of(tensor.to, tensor.row_bytes, received, source); part.bytes > 0)
            result = nccl.receive(part.begin, part.bytes, ncclUint8, static_cast<int>(source), communicator, stream);
          if (result != ncclSuccess && result != ncclInProgress) return result;
        }
      }
      return ncclSuccess;
    });
  }

 private:
  NcclGroups& groups_;
  std::vector<std::int32_t> ranks_;
  int ctas_;
  DeviceMemory outbox_;
};

constexpr std::int64_t turns_bytes = 4096;
static_assert(largest_node * sizeof(std::uint32_t) <= turns_bytes);

std::vector<std::int64_t> row_bytes_of(std::span<const PayloadTensor> payload) {
  std::vector<std::int64_t> bytes;
  for (const PayloadTensor& tensor : payload) bytes.push_back(tensor.row_bytes);
  return bytes;
}

// Moves rows within a node over NVLink: plumbline's own kernels read each rank's rows from the mapped outboxes of the
// others.
class NodeTransport final : public RowTransport {
 public:
  // Connects these ranks of one node; this rank is at `own`.
  NodeTransport(NcclGroups& groups, std::vector<std::int32_t> ranks, std::int32_t own, const Blocks& blocks)
      : groups_(groups), ranks_(std::move(ranks)), own_(own), blocks_(blocks), theirs_(ranks_.size()) {}

  Status outbox(const Traffic& traffic, std::span<const std::int64_t> row_bytes, cudaStream_t stream,
                std::vector<void*>& places) override {
    PLUMBLINE_TRY(fit(payload_offsets(row_bytes, traffic.most_sent()).back(), stream));
    const std::vector<std::int64_t> offsets = payload_offsets(row_bytes, traffic.sent_by(own_).back());
    places.clear();
    for (std::size_t i = 0; i < row_bytes.size(); ++i) places.push_back(outbox_of(own_) + offsets[i]);
    return {};
  }

  Status swap(const Traffic& traffic, std::span<const PayloadTensor> payload, cudaStream_t stream) override {
    const std::vector<std::int64_t> row_bytes = row_bytes_of(payload);
    PLUMBLINE_TRY(fill(traffic, payload, row_bytes, stream));
    PLUMBLINE_TRY(wait_for_peers(stream));
    PLUMBLINE_TRY(collect(traffic, payload, row_bytes, stream));
    return wait_for_peers(stream);  // after it outboxes may be filled again
  }

 private:
  // Each rank's memory has the same size: the barrier's turns, then the outbox.
  // All peers decide the same, because they have the same traffic.
  Status fit(std::int64_t bytes, cudaStream_t stream) {
    if (bytes <= capacity_) return {};
    if (ranks_.size() > largest_node) return {"a node of more than " + std::to_string(largest_node) + " GPUs"};
    // After this rank's last barrier no peer reads its outbox any more.
    for (cudaError_t state = cudaErrorNotReady; state == cudaErrorNotReady;) {
      state = cudaStreamQuery(stream);
      if (state != cudaErrorNotReady) PLUMBLINE_TRY(outcome(state, "waiting for an all-to-all"));
      PLUMBLINE_TRY(groups_.alive());
      std::this_thread::yield();
    }
    // Rows differ from layer to layer: half as much again avoids further renewals.
    return renew(bytes + bytes / 2);
  }

  Status renew(std::int64_t bytes) {
    capacity_ = 0;
    for (auto& memory : theirs_) memory = nullptr;
    std::vector<std::uint8_t> closed(ranks_.size());
    const std::uint8_t done = 1;
    PLUMBLINE_TRY(groups_.all_gather_on_host(ranks_, &done, sizeof done, closed.data()));
    PLUMBLINE_TRY(memory_.allocate(turns_bytes + bytes));
    PLUMBLINE_TRY(outcome(cudaMemset(memory_.as<void>(), 0, turns_bytes), "clearing turns"));
    turn_ = 0;
    MemoryKey own;
    PLUMBLINE_TRY(key_of(memory_, own));
    std::vector<MemoryKey> keys(ranks_.size());
    PLUMBLINE_TRY(groups_.all_gather_on_host(ranks_, &own, sizeof own, keys.data()));
    for (std::size_t peer = 0; peer < keys.size(); ++peer) {
      if (peer == static_cast<std::size_t>(own_)) continue;
      theirs_[peer] = std::make_unique<PeerMemory>();
      PLUMBLINE_TRY(theirs_[peer]->open(keys[peer]));
    }
    capacity_ = bytes;
    return {};
  }

  char* outbox_of(std::int32_t peer) const {
    return (peer == own_ ? memory_.as<char>() : theirs_[static_cast<std::size_t>(peer)]->data()) + turns_bytes;
  }

  Status fill(const Traffic& traffic, std::span<const PayloadTensor> payload,
              const std::vector<std::int64_t>& row_bytes, cudaStream_t stream) {
    std::vector<void*> places;
    PLUMBLINE_TRY(outbox(traffic, row_bytes, stream, places));
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < payload.size(); ++i)
      if (payload[i].from != places[i])
        pieces.push_back({payload[i].from, places[i], traffic.sent_by(own_).back() * payload[i].row_bytes});
    return outcome(copy_pieces(pieces.data(), static_cast<std::int64_t>(pieces.size()), blocks_, stream),
                   "filling an outbox");
  }

  // Each rank starts with its own rows, then its next peer's, so that the ranks read from different outboxes.
  Status collect(const Traffic& traffic, std::span<const PayloadTensor> payload,
                 const std::vector<std::int64_t>& row_bytes, cudaStream_t stream) {
    const std::vector<std::int64_t> received = traffic.received_by(own_);
    std::vector<Piece> pieces;
    for (std::int32_t distance = 0; distance < traffic.peers(); ++distance) {
      const std::int32_t peer = (own_ + distance) % traffic.peers();
      const std::vector<std::int64_t> sent = traffic.sent_by(peer);
      const std::vector<std::int64_t> offsets = payload_offsets(row_bytes, sent.back());
      const std::int64_t rows = traffic.rows(peer, own_), first = sent[static_cast<std::size_t>(own_)];
      for (std::size_t i = 0; i < payload.size(); ++i)
        pieces.push_back({outbox_of(peer) + offsets[i] + first * row_bytes[i],
                          static_cast<char*>(payload[i].to) + received[static_cast<std::size_t>(peer)] * row_bytes[i],
                          rows * row_bytes[i]});
    }
    return outcome(copy_pieces(pieces.data(), static_cast<std::int64_t>(pieces.size()), blocks_, stream),
                   "reading from the ranks of the node");
  }

  Status wait_for_peers(cudaStream_t stream) {
    PLUMBLINE_TRY(groups_.alive());
    PeerBarrier barrier;
    barrier.peers = static_cast<std::int32_t>(ranks_.size());
    barrier.own = own_;
    barrier.turn = ++turn_;
    for (std::int32_t peer = 0; peer < barrier.peers; ++peer)
      barrier.turns[peer] = reinterpret_cast<std::uint32_t*>(outbox_of(peer) - turns_bytes);
    barrier.ended = groups_.ended_flag();
    return outcome(peer_barrier(barrier, stream), "waiting for the ranks of the node");
  }

  NcclGroups& groups_;
  std::vector<std::int32_t> ranks_;
  std::int32_t own_;
  Blocks blocks_;
  DeviceMemory memory_;
  std::vector<std::unique_ptr<PeerMemory>> theirs_;  // [peer]; nullptr: this rank's own
  std::int64_t capacity_ = 0;                        // bytes of the outbox
  std::uint32_t turn_ = 0;
};

}  // namespace

std::vector<std::int64_t> payload_offsets(std::span<const std::int64_t> row_bytes, std::int64_t rows) {
  constexpr std::int64_t alignment = 256;
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t row : row_bytes)
    offsets.push_back(offsets.back() + (row * rows + alignment - 1) / alignment * alignment);
  return offsets;
}

std::unique_ptr<RowTransport> make_nccl_transport(NcclGroups& groups, std::vector<std::int32_t> ranks, int ctas) {
  return std::make_unique<NcclTransport>(groups, std::move(ranks), ctas);
}

std::unique_ptr<RowTransport> make_node_transport(NcclGroups& groups, std::vector<std::int32_t> ranks, std::int32_t own,
                                                  const Blocks& blocks) {
  return std::make_unique<NodeTransport>(groups, std::move(ranks), own, blocks);
}

}  // namespace plumbline::real::cuda
