#include "real/cuda/comm/communicator.h"

#include <map>
#include <string>
#include <utility>

#include "model/cost/operator_class.h"
#include "real/cuda/comm/calls.h"
#include "real/cuda/comm/dispatch_layout.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/device/machine.h"
#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/memory.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {
namespace {

Plane leaving(const void* from, std::int64_t bytes) { return {from, nullptr, bytes, 0}; }

// Dispatch and combine of a rank without peers: alone in its group, or with emulated peers that do the same as it does,
// so that it receives what it sends. Expert e is then local expert e mod experts_per_rank. All tokens are received
// here; those for other nodes also go to host memory, at the rate of a NIC.
class LocalAllToAll {
 public:
  struct Options {
    int ctas = 1;
    std::int32_t ranks_per_node = 8;
    double nic_gbps = 0;  // GB/s; 0: nothing leaves the node
  };
  LocalAllToAll(const Machine& machine, const Options& options)
      : options_(options), blocks_{options.ctas, static_cast<int>(machine.properties.sharedMemPerBlockOptin)} {}

  // Runs dispatch, combine or one of their gradients, which model/graph/operators.def defines.
  Status run(const Group& group, const Kernel& kernel, cudaStream_t stream) {
    switch (kernel.op->kind) {
      case model::OperatorKind::dispatch:
        return dispatch(group, kernel, stream);
      case model::OperatorKind::dispatch_grad:
        return dispatch_grad(kernel, stream);
      case model::OperatorKind::combine:
        return combine(kernel, stream);
      default:
        return combine_grad(kernel, stream);
    }
  }

 private:
  Status dispatch(const Group& group, const Kernel& kernel, cudaStream_t stream) {
    std::shared_ptr<DispatchLayout> layout;
    const CudaBuffer &indices = in(kernel, 1), &weights = in(kernel, 2);
    std::vector<std::int32_t> nodes;
    for (const std::int32_t rank : group.ranks) nodes.push_back(rank / options_.ranks_per_node);
    const std::int32_t node_members = members_per_node(nodes);
    PLUMBLINE_TRY(layouts_.route({indices, homes_of(group, kernel), node_members, {}, {}}, stream, layout));
    layout->received_rows = layout->members.rows();
    PLUMBLINE_TRY(receive(kernel, layout, folded_rows_per_expert(layout->homes, layout->choices_of)));

    RowCopy copy;
    PLUMBLINE_TRY(add_planes(weights.view(), out(kernel, 2).view(), copy));
    const std::int64_t choice_bytes = std::int64_t{4} * layout->choices;
    PLUMBLINE_TRY(copy_received(kernel, *layout, copy, leaving(indices.view().data, choice_bytes),
                                leaving(weights.view().data, choice_bytes), stream));
    return outcome(number_locally(task_of(*layout, indices), layout->members.list, layout->received_rows,
                                  out(kernel, 1).data<std::int32_t>(), stream),
                   "numbering experts");
  }

  Status dispatch_grad(const Kernel& kernel, cudaStream_t stream) {
    std::shared_ptr<const DispatchLayout> layout;
    RowSum sum;
    PLUMBLINE_TRY(find_layout(kernel, 2, &in(kernel, 0), layout));
    PLUMBLINE_TRY(make_sum(kernel, *layout, in(kernel, 0).view(), in(kernel, 1).data<const float>(), sum));
    return sum_back(kernel, *layout, sum, stream);
  }

  Status combine(const Kernel& kernel, cudaStream_t stream) {
    std::shared_ptr<const DispatchLayout> layout;
    RowSum sum;
    PLUMBLINE_TRY(find_layout(kernel, 1, &in(kernel, 0), layout));
    PLUMBLINE_TRY(make_sum(kernel, *layout, in(kernel, 0).view(), nullptr, sum));
    return sum_back(kernel, *layout, sum, stream);
  }

  Status combine_grad(const Kernel& kernel, cudaStream_t stream) {
    std::shared_ptr<const DispatchLayout> layout;
    PLUMBLINE_TRY(find_layout(kernel, 1, nullptr, layout));
    PLUMBLINE_TRY(out(kernel, 0).resize(layout->received_rows));
    out(kernel, 0).mark_changed();
    return copy_received(kernel, *layout, {}, {}, {}, stream);
  }

  Wire wire_of(const Kernel& kernel) const { return {options_.nic_gbps, token_bytes_of(kernel)}; }
  // Copies the rows of the first input that are received to the first output, and those for other nodes with their
  // indices and weights, if there are, to host memory. `copy` has the planes that are copied as well.
  Status copy_received(const Kernel& kernel, const DispatchLayout& layout, RowCopy copy, const Plane& indices,
                       const Plane& weights, cudaStream_t stream) {
    const TensorView x = in(kernel, 0).view();
    copy.source = layout.members.list.tokens;
    copy.rows = layout.received_rows;
    RowBytes bytes;
    PLUMBLINE_TRY(row_bytes(x, bytes));
    PLUMBLINE_TRY(add_planes(x, out(kernel, 0).view(), copy));
    PLUMBLINE_TRY(set_send_buffer(layout, wire_of(kernel),
                                  {leaving(x.data, bytes.values), leaving(x.scales, bytes.scales), indices, weights},
                                  sink_, copy.send_buffer));
    return outcome(copy_rows(copy, blocks_, stream), "sending tokens");
  }
  Status sum_back(const Kernel& kernel, const DispatchLayout& layout, RowSum& sum, cudaStream_t stream) {
    RowBytes bytes;
    PLUMBLINE_TRY(row_bytes(sum.rows, bytes));
    const std::int64_t small = sum.small_rows == nullptr ? 0 : std::int64_t{4} * layout.choices;
    PLUMBLINE_TRY(set_send_buffer(layout, wire_of(kernel),
                                  {leaving(sum.rows.data, bytes.values), leaving(nullptr, small)}, sink_,
                                  sum.send_buffer));
    return outcome(sum_rows(sum, blocks_, stream), "adding what the ranks sent");
  }

  Options options_;
  Blocks blocks_;
  DispatchLayoutBuilder layouts_;
  HostSink sink_;
};

// Emulated peers copy as many bytes as a collective moves, by as many CTAs. The values are similar to those of a
// training.
constexpr float activation_scale = 0.03125f;  // small enough for gradients to stay finite in any format
constexpr std::uint64_t received_seed = 20241227;

std::int64_t bytes_of(const CudaBuffer& buffer) { return data_bytes(buffer.format(), buffer.elements()); }

Status check_forms(const CudaBuffer& in, const CudaBuffer& out) {
  if (in.format() != out.format() || in.view().scales != nullptr)
    return {"a collective between tensors of two formats, or with scales"};
  if (bytes_of(in) % 4 != 0 || bytes_of(out) % 4 != 0) return {"a collective of a fraction of a word"};
  return {};
}

Status copy_blocks(const void* from, std::int64_t from_bytes, void* to, std::int64_t to_bytes, const Blocks& blocks,
                   cudaStream_t stream) {
  return outcome(copy_repeated(from, from_bytes, to, to_bytes, blocks, stream), "emulating a collective");
}

// Moves as many bytes as a ring collective in a larger group: the whole tensor twice (all_reduce), the whole once and
// then a piece (reduce_scatter), or a piece into each place (all_gather). Tensors have one format without scales.
Status stand_in(const Group& group, const Kernel& kernel, const Blocks& blocks, cudaStream_t stream) {
  const CudaBuffer& in = cuda::in(kernel, 0);
  CudaBuffer& out = cuda::out(kernel, 0);
  PLUMBLINE_TRY(check_forms(in, out));
  auto* from = in.data<char>();
  if (kernel.op->kind == model::OperatorKind::all_reduce) {
    if (in.elements() != out.elements()) return {"an all-reduce between tensors of two sizes"};
    PLUMBLINE_TRY(copy_blocks(from, bytes_of(in), out.view().data, bytes_of(out), blocks, stream));
    from = out.data<char>();
  } else if (kernel.op->kind == model::OperatorKind::reduce_scatter) {
    if ((group.position + 1) * out.elements() > in.elements()) return {"a reduce-scatter into more than its part"};
    PLUMBLINE_TRY(copy_blocks(from, bytes_of(in), from, bytes_of(in), blocks, stream));
    from += group.position * bytes_of(out);
  } else if (const std::int64_t wanted = in.elements() * group.size(); out.elements() != wanted) {
    PLUMBLINE_TRY(out.resize(wanted / out.columns()));
  }
  out.mark_changed();
  const bool gathers = kernel.op->kind == model::OperatorKind::all_gather;
  return copy_blocks(from, gathers ? bytes_of(in) : bytes_of(out), out.view().data, bytes_of(out), blocks, stream);
}

// Runs a collective in a group of one rank: out = in.
Status copy_whole(const Kernel& kernel, cudaStream_t stream) {
  const CudaBuffer& in = cuda::in(kernel, 0);
  CudaBuffer& out = cuda::out(kernel, 0);
  PLUMBLINE_TRY(check_forms(in, out));
  if (in.elements() != out.elements()) PLUMBLINE_TRY(out.resize(in.elements() / out.columns()));
  out.mark_changed();
  if (in.view().data == out.view().data) return {};
  return outcome(cudaMemcpyAsync(out.view().data, in.view().data, static_cast<std::size_t>(bytes_of(in)),
                                 cudaMemcpyDeviceToDevice, stream),
                 "copying a tensor");
}

// Messages from emulated ranks: random numbers of the magnitude of activations, made once for every shape. With zeros,
// GEMMs would run faster than in training.
class ReceiveBuffers {
 public:
  Status receive(CudaBuffer& buffer, cudaStream_t stream) {
    const std::int64_t bytes = bytes_of(buffer);
    const bool known = buffer.format() == Format::bf16 || buffer.format() == Format::fp32;
    if (!known) return {"messages between stages are received in FP32 and BF16"};
    std::unique_ptr<DeviceMemory>& made = made_[{buffer.format(), bytes}];
    if (made == nullptr) {
      made = std::make_unique<DeviceMemory>();
      PLUMBLINE_TRY(made->allocate(bytes));
      const cudaError_t filled =
          buffer.format() == Format::bf16
              ? fill_bf16(made->as<Bf16>(), buffer.elements(), received_seed, activation_scale, stream)
              : fill_float(made->as<float>(), buffer.elements(), received_seed, activation_scale, stream);
      PLUMBLINE_TRY(outcome(filled, "generating a message"));
    }
    buffer.mark_changed();
    return outcome(cudaMemcpyAsync(buffer.view().data, made->as<char>(), static_cast<std::size_t>(bytes),
                                   cudaMemcpyDeviceToDevice, stream),
                   "receiving a generated message");
  }

 private:
  std::map<std::pair<Format, std::int64_t>, std::unique_ptr<DeviceMemory>> made_;  // by format and bytes
};

// Groups of one rank communicate with themselves only: copies and local all-to-alls.
class CudaCommunicator final : public Communicator {
 public:
  CudaCommunicator(CudaDevice& device, ControlChannel& channel, const CommunicatorOptions& options,
                   std::unique_ptr<OtherRanks> others)
      : device_(device),
        channel_(channel),
        others_(std::move(others)),
        alone_(device.machine(), {options.communication_sms, 1, 0}) {}

  std::int32_t rank() const override { return channel_.rank(); }
  std::int32_t ranks() const override { return channel_.ranks(); }
  std::string transports() const override { return others_ == nullptr ? "" : others_->transports(); }

  void send_receive(model::Stream stream, std::span<const Message> messages, bool rendezvous,
                    std::uint32_t label) override {
    run(stream, "messages", label, [&](cudaStream_t on) -> Status {
      if (others_ == nullptr) return {"there is no other rank to send to"};
      return others_->send_receive(messages, rendezvous, on);
    });
  }
  void launch(model::Stream stream, const Group& group, const Kernel& kernel) override {
    run(stream, kernel.op->name, kernel.label, [&](cudaStream_t on) -> Status {
      if (group.size() > 1) return others_->launch(group, kernel, on);
      return is_all_to_all(kernel.op->kind) ? alone_.run(group, kernel, on) : copy_whole(kernel, on);
    });
  }

  model::Result<std::vector<double>> sum(std::vector<double> values) override { return channel_.sum(values); }
  model::Result<std::vector<std::string>> gather(const std::string& text) override { return channel_.gather(text); }
  void abort(const std::string& reason) override { channel_.abort(reason); }

 private:
  // A failure is sent to the other ranks, which would otherwise wait.
  template <class Launch>
  void run(model::Stream stream, const std::string& name, std::uint32_t label, Launch launch) {
    device_.enqueue(stream, label, [&](cudaStream_t on) -> Status {
      Status status = launch(on);
      if (status.ok()) return status;
      status.failure = name + ": " + status.failure;
      channel_.abort(status.failure);
      return status;
    });
  }
  CudaDevice& device_;
  ControlChannel& channel_;
  std::unique_ptr<OtherRanks> others_;  // nullptr: one rank
  LocalAllToAll alone_;
};

constexpr int usual_collective_ctas = 16;  // NCCL's for a ring between nodes of eight GPUs

// One rank of a plan for many, on one GPU: the work of its peers is emulated, and there are no waits for them.
class EmulatedCommunicator final : public Communicator {
 public:
  EmulatedCommunicator(CudaDevice& device, const EmulationOptions& options)
      : device_(device),
        options_(options),
        all_to_all_(device.machine(), {options.communication_sms, options.ranks_per_node, options.nic_gbps}),
        blocks_{options.collective_ctas > 0 ? options.collective_ctas : usual_collective_ctas,
                static_cast<int>(device.machine().properties.sharedMemPerBlockOptin)} {}

  std::int32_t rank() const override { return options_.rank; }
  std::int32_t ranks() const override { return options_.ranks; }

  void send_receive(model::Stream stream, std::span<const Message> messages, bool /*rendezvous*/,
                    std::uint32_t label) override {
    device_.enqueue(stream, label, [&](cudaStream_t on) -> Status {
      for (const Message& message : messages)
        if (!message.send) PLUMBLINE_TRY(receive_buffers_.receive(static_cast<CudaBuffer&>(*message.buffer), on));
      return {};
    });
  }

  void launch(model::Stream stream, const Group& group, const Kernel& kernel) override {
    device_.enqueue(stream, kernel.label, [&](cudaStream_t on) -> Status {
      Status status = is_all_to_all(kernel.op->kind) ? all_to_all_.run(group, kernel, on)
                      : group.size() == 1            ? copy_whole(kernel, on)
                                                     : stand_in(group, kernel, blocks_, on);
      if (!status.ok()) status.failure = kernel.op->name + ": " + status.failure;
      return status;
    });
  }

  // Emulated ranks contribute nothing.
  model::Result<std::vector<double>> sum(std::vector<double> values) override { return values; }
  model::Result<std::vector<std::string>> gather(const std::string& text) override {
    std::vector<std::string> texts(static_cast<std::size_t>(options_.ranks));
    texts[static_cast<std::size_t>(options_.rank)] = text;
    return texts;
  }
  void abort(const std::string& /*reason*/) override {}

 private:
  CudaDevice& device_;
  EmulationOptions options_;
  LocalAllToAll all_to_all_;
  Blocks blocks_;
  ReceiveBuffers receive_buffers_;
};

}  // namespace

model::Result<std::unique_ptr<Communicator>> make_communicator(CudaDevice& device, ControlChannel& channel,
                                                               const CommunicatorOptions& options) {
  std::unique_ptr<OtherRanks> others;
  if (channel.ranks() > 1) {
    Machine& machine = device.machine();
    const OwnDevice own{machine.scratch, static_cast<int>(machine.properties.sharedMemPerBlockOptin), machine.folders};
    others = TRY(connect_ranks(own, channel, options));
  }
  return std::make_unique<CudaCommunicator>(device, channel, options, std::move(others));
}

std::unique_ptr<Communicator> make_emulated_communicator(CudaDevice& device, const EmulationOptions& options) {
  return std::make_unique<EmulatedCommunicator>(device, options);
}

}  // namespace plumbline::real::cuda
