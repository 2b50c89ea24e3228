#include "tests/support/host_gpu/nccl/sums.h"

#include <cstdint>
#include <cstring>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::tests::host_gpu {
namespace {

template <typename Stored, typename Sum, typename Load, typename Store>
void add(const std::vector<Bytes>& parts, void* out, Load load, Store store) {
  for (std::size_t at = 0; at < parts.front().size(); at += sizeof(Stored)) {
    Sum sum{};
    for (const Bytes& part : parts) {
      Stored stored;
      std::memcpy(&stored, part.data() + at, sizeof stored);
      sum += load(stored);
    }
    const Stored result = store(sum);
    std::memcpy(static_cast<char*>(out) + at, &result, sizeof result);
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    default:
      return 0;
  }
}

void add_parts(ncclDataType_t type, const std::vector<Bytes>& parts, void* out) {
  const auto same = [](auto value) { return value; };
  if (type == ncclFloat32) add<float, float>(parts, out, same, same);
  if (type == ncclInt32) add<std::int32_t, std::int32_t>(parts, out, same, same);
  if (type == ncclBfloat16) add<std::uint16_t, float>(parts, out, real::cuda::bf16_to_float, real::cuda::float_to_bf16);
  if (type == ncclFloat16) add<std::uint16_t, float>(parts, out, real::cuda::fp16_to_float, real::cuda::float_to_fp16);
}

}  // namespace plumbline::tests::host_gpu
