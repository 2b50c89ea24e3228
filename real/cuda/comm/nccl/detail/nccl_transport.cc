#include "real/cuda/comm/nccl/detail/nccl_transport.h"

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

}  // namespace

Status NcclTransport::outbox(const Traffic& traffic, std::span<const std::int64_t> row_bytes, cudaStream_t /*stream*/,
                             std::vector<void*>& places) {
  const std::vector<std::int64_t> offsets = payload_offsets(row_bytes, traffic.sent_by(traffic.own()).back());
  // Rows differ from layer to layer: half as much again avoids further waits for the device.
  if (outbox_.bytes() < offsets.back()) PLUMBLINE_TRY(outbox_.allocate(offsets.back() + offsets.back() / 2));
  places.clear();
  for (std::size_t i = 0; i < row_bytes.size(); ++i) places.push_back(outbox_.as<char>() + offsets[i]);
  return {};
}

Status NcclTransport::swap(const Traffic& traffic, std::span<const PayloadTensor> payload, cudaStream_t stream) {
  const auto own = static_cast<std::size_t>(traffic.own()), peers = ranks_.size();
  const std::vector<std::int64_t> sent = traffic.sent_by(traffic.own()), received = traffic.received_by(traffic.own());
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

}  // namespace plumbline::real::cuda
