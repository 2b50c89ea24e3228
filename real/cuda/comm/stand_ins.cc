#include "real/cuda/comm/stand_ins.h"

#include "real/cuda/comm/calls.h"
#include "real/cuda/kernels/fill.h"

namespace plumbline::real::cuda {
namespace {

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

}  // namespace

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

Status ReceiveBuffers::receive(CudaBuffer& buffer, cudaStream_t stream) {
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

}  // namespace plumbline::real::cuda
