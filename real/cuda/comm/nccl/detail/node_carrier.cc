#include "real/cuda/comm/nccl/detail/node_carrier.h"

#include <string>
#include <thread>

namespace plumbline::real::cuda {

namespace {

constexpr std::int64_t turns_bytes = 4096;
static_assert(largest_node * sizeof(std::uint32_t) <= turns_bytes);

std::vector<std::int64_t> row_bytes_of(std::span<const Strip> strips) {
  std::vector<std::int64_t> bytes;
  for (const Strip& strip : strips) bytes.push_back(strip.row_bytes);
  return bytes;
}

}  // namespace

char* NodeCarrier::outbox_of(std::int32_t peer) const {
  return (peer == own_ ? memory_.as<char>() : theirs_[static_cast<std::size_t>(peer)]->data()) + turns_bytes;
}

// All peers come to the same conclusion: they know the same traffic.
Status NodeCarrier::fit(std::int64_t bytes, cudaStream_t stream) {
  if (bytes <= capacity_) return {};
  if (ranks_.size() > largest_node) return {"a node of more than " + std::to_string(largest_node) + " GPUs"};
  // Nobody reads here any more behind this rank's last meeting.
  for (cudaError_t state = cudaErrorNotReady; state == cudaErrorNotReady;) {
    state = cudaStreamQuery(stream);
    if (state != cudaErrorNotReady) PLUMBLINE_TRY(outcome(state, "waiting for an exchange"));
    PLUMBLINE_TRY(groups_.alive());
    std::this_thread::yield();
  }
  // Rows differ from layer to layer: room for half as many again spares renewals.
  return renew(bytes + bytes / 2);
}

Status NodeCarrier::renew(std::int64_t bytes) {
  capacity_ = 0;
  for (auto& memory : theirs_) memory = nullptr;
  std::vector<std::uint8_t> closed(ranks_.size());
  const std::uint8_t done = 1;
  PLUMBLINE_TRY(groups_.tell(ranks_, &done, sizeof done, closed.data()));
  PLUMBLINE_TRY(memory_.allocate(turns_bytes + bytes));
  PLUMBLINE_TRY(outcome(cudaMemset(memory_.as<void>(), 0, turns_bytes), "clearing turns"));
  turn_ = 0;
  MemoryKey own;
  PLUMBLINE_TRY(key_of(memory_, own));
  std::vector<MemoryKey> keys(ranks_.size());
  PLUMBLINE_TRY(groups_.tell(ranks_, &own, sizeof own, keys.data()));
  for (std::size_t peer = 0; peer < keys.size(); ++peer) {
    if (peer == static_cast<std::size_t>(own_)) continue;
    theirs_[peer] = std::make_unique<PeerMemory>();
    PLUMBLINE_TRY(theirs_[peer]->open(keys[peer]));
  }
  capacity_ = bytes;
  return {};
}

Status NodeCarrier::outbox(const Traffic& traffic, std::span<const std::int64_t> row_bytes, cudaStream_t stream,
                           std::vector<void*>& places) {
  PLUMBLINE_TRY(fit(strip_offsets(row_bytes, traffic.most_sent()).back(), stream));
  const std::vector<std::int64_t> offsets = strip_offsets(row_bytes, traffic.sent_by(own_).back());
  places.clear();
  for (std::size_t i = 0; i < row_bytes.size(); ++i) places.push_back(outbox_of(own_) + offsets[i]);
  return {};
}

Status NodeCarrier::meet_peers(cudaStream_t stream) {
  PLUMBLINE_TRY(groups_.alive());
  Meeting meeting;
  meeting.peers = static_cast<std::int32_t>(ranks_.size());
  meeting.own = own_;
  meeting.turn = ++turn_;
  for (std::int32_t peer = 0; peer < meeting.peers; ++peer)
    meeting.told[peer] = reinterpret_cast<std::uint32_t*>(outbox_of(peer) - turns_bytes);
  meeting.ended = groups_.ended_flag();
  return outcome(meet(meeting, stream), "meeting the ranks of the node");
}

Status NodeCarrier::fill(const Traffic& traffic, std::span<const Strip> strips,
                         const std::vector<std::int64_t>& row_bytes, cudaStream_t stream) {
  std::vector<void*> places;
  PLUMBLINE_TRY(outbox(traffic, row_bytes, stream, places));
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < strips.size(); ++i)
    if (strips[i].from != places[i])
      pieces.push_back({strips[i].from, places[i], traffic.sent_by(own_).back() * strips[i].row_bytes});
  return outcome(copy_pieces(pieces.data(), static_cast<std::int64_t>(pieces.size()), blocks_, stream),
                 "filling an outbox");
}

// Each rank begins with the peer behind it, so that no outbox has all readers at once.
Status NodeCarrier::collect(const Traffic& traffic, std::span<const Strip> strips,
                            const std::vector<std::int64_t>& row_bytes, cudaStream_t stream) {
  const std::vector<std::int64_t> received = traffic.received_by(own_);
  std::vector<Piece> pieces;
  for (std::int32_t distance = 0; distance < traffic.peers(); ++distance) {
    const std::int32_t peer = (own_ + distance) % traffic.peers();
    const std::vector<std::int64_t> sent = traffic.sent_by(peer);
    const std::vector<std::int64_t> offsets = strip_offsets(row_bytes, sent.back());
    const std::int64_t rows = traffic.rows(peer, own_), first = sent[static_cast<std::size_t>(own_)];
    for (std::size_t i = 0; i < strips.size(); ++i)
      pieces.push_back({outbox_of(peer) + offsets[i] + first * row_bytes[i],
                        static_cast<char*>(strips[i].to) + received[static_cast<std::size_t>(peer)] * row_bytes[i],
                        rows * row_bytes[i]});
  }
  return outcome(copy_pieces(pieces.data(), static_cast<std::int64_t>(pieces.size()), blocks_, stream),
                 "reading from the ranks of the node");
}

Status NodeCarrier::swap(const Traffic& traffic, std::span<const Strip> strips, cudaStream_t stream) {
  const std::vector<std::int64_t> row_bytes = row_bytes_of(strips);
  PLUMBLINE_TRY(fill(traffic, strips, row_bytes, stream));
  PLUMBLINE_TRY(meet_peers(stream));
  PLUMBLINE_TRY(collect(traffic, strips, row_bytes, stream));
  return meet_peers(stream);  // from here on outboxes may be filled again
}

}  // namespace plumbline::real::cuda
