#include <utility>

#include "real/cuda/comm/calls.h"
#include "real/cuda/comm/nccl/detail/nccl_messages.h"
#include "real/cuda/comm/nccl/detail/rank_all_to_all.h"
#include "real/cuda/comm/nccl/nccl_groups.h"
#include "real/cuda/comm/nccl/other_ranks.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {
namespace {

struct Elements {
  ncclDataType_t type = ncclUint8;
  std::size_t count = 0;
};

Status elements_of(const CudaBuffer& in, const CudaBuffer& out, Elements& elements) {
  if (in.format() != out.format()) return {"a collective between tensors of two formats"};
  elements.count = static_cast<std::size_t>(in.elements());
  switch (in.format()) {
    case Format::fp32:
      elements.type = ncclFloat32;
      return {};
    case Format::bf16:
      elements.type = ncclBfloat16;
      return {};
    case Format::fp16:
      elements.type = ncclFloat16;
      return {};
    case Format::int32:
      elements.type = ncclInt32;
      return {};
    default:
      return {"a collective of a tensor that NCCL cannot add"};
  }
}

class NcclRanks final : public OtherRanks {
 public:
  NcclRanks(const OwnDevice& device, std::unique_ptr<NcclGroups> groups, NodePeers node_peers,
            const CommunicatorOptions& options)
      : groups_(std::move(groups)),
        transports_(transports_of(node_peers)),
        ctas_(options.collective_ctas),
        all_to_all_(device.scratch, *groups_, std::move(node_peers), {options.communication_sms, device.shared_bytes}),
        messages_(*groups_) {}

  std::string transports() const override { return transports_; }

  Status launch(const Group& group, const Kernel& kernel, cudaStream_t stream) override {
    const CudaBuffer& in = cuda::in(kernel, 0);
    CudaBuffer& out = cuda::out(kernel, 0);
    switch (kernel.op->kind) {
      case model::OperatorKind::all_reduce:
        return all_reduce(group, in, out, stream);
      case model::OperatorKind::reduce_scatter:
        return reduce_scatter(group, in, out, stream);
      case model::OperatorKind::all_gather:
        return all_gather(group, in, out, stream);
      default:
        return all_to_all_.run(group, kernel, stream);
    }
  }
  Status send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream) override {
    return messages_.send_receive(messages, rendezvous, stream);
  }

 private:
  Status all_reduce(const Group& group, const CudaBuffer& in, CudaBuffer& out, cudaStream_t stream) {
    if (in.elements() != out.elements()) return {"an all-reduce between tensors of two sizes"};
    return collective(group, in, out, "an all-reduce", stream, [&](const Nccl& nccl, const Elements& e, ncclComm_t c) {
      return nccl.all_reduce(in.view().data, out.view().data, e.count, e.type, ncclSum, c, stream);
    });
  }
  Status reduce_scatter(const Group& group, const CudaBuffer& in, CudaBuffer& out, cudaStream_t stream) {
    if (in.elements() % group.size() != 0) return {"a reduce-scatter into uneven parts"};
    const std::int64_t part = in.elements() / group.size();
    if (out.elements() != part) PLUMBLINE_TRY(out.resize(part / out.columns()));
    const auto count = static_cast<std::size_t>(part);
    return collective(group, in, out, "a reduce-scatter", stream,
                      [&](const Nccl& nccl, const Elements& e, ncclComm_t c) {
                        return nccl.reduce_scatter(in.view().data, out.view().data, count, e.type, ncclSum, c, stream);
                      });
  }
  Status all_gather(const Group& group, const CudaBuffer& in, CudaBuffer& out, cudaStream_t stream) {
    const std::int64_t whole = in.elements() * group.size();
    if (out.elements() != whole) PLUMBLINE_TRY(out.resize(whole / out.columns()));
    return collective(group, in, out, "an all-gather", stream, [&](const Nccl& nccl, const Elements& e, ncclComm_t c) {
      return nccl.all_gather(in.view().data, out.view().data, e.count, e.type, c, stream);
    });
  }

  template <class Call>
  Status collective(const Group& group, const CudaBuffer& in, CudaBuffer& out, const char* name, cudaStream_t stream,
                    Call call) {
    Elements elements;
    PLUMBLINE_TRY(elements_of(in, out, elements));
    ncclComm_t communicator = nullptr;
    PLUMBLINE_TRY(groups_->find(group.ranks, stream, ctas_, communicator));
    out.mark_changed();
    return groups_->together(communicator, name, [&](const Nccl& nccl) { return call(nccl, elements, communicator); });
  }

  std::unique_ptr<NcclGroups> groups_;
  std::string transports_;
  int ctas_;
  RankAllToAll all_to_all_;
  NcclMessages messages_;
};

}  // namespace

model::Result<std::unique_ptr<OtherRanks>> connect_ranks(const OwnDevice& device, ControlChannel& channel,
                                                         const CommunicatorOptions& options) {
  std::unique_ptr<NcclGroups> groups;
  if (const Status opened = NcclGroups::open(device.folders, channel, NcclMessages::channels, groups); !opened.ok())
    return infeasible(opened.failure);
  NodePeers node_peers;
  if (const Status found = find_node_peers(channel, options.machine, node_peers); !found.ok())
    return infeasible(found.failure);
  return std::make_unique<NcclRanks>(device, std::move(groups), std::move(node_peers), options);
}

}  // namespace plumbline::real::cuda
