// Emulated ranks with a GPU each: threads of a test, a control channel between them, and the communication of real/cuda
// over it.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "real/cuda/comm/nccl/other_ranks.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/device/detail/host_copy.h"
#include "real/cuda/device/scratch.h"
#include "tests/support/real/channel_ranks.h"

namespace plumbline::tests::host_gpu {

struct Rank {
  real::ControlChannel& channel;
  real::cuda::OtherRanks& others;
  cudaStream_t stream = nullptr;
  std::barrier<>& bodies;  // waits for the ranks whose body has not ended

  std::int32_t number() const { return channel.rank(); }
  // Expects a call to succeed; else the test has failed, and all ranks end.
  void expect(const real::cuda::Status& status) const {
    if (status.ok()) return;
    ADD_FAILURE() << "rank " << number() << ": " << status.failure;
    channel.abort(status.failure);
  }
  // Returns when all ranks have come. It does not use the channel, which some ranks may lose before others.
  void meet() const { bodies.arrive_and_wait(); }
  void synchronize() const { ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess); }
};

// Calls body(rank) on a thread for every rank, and waits for all. A machine has `on_node` ranks.
inline void on_gpus(std::int32_t ranks, std::int32_t on_node, const std::function<void(const Rank&)>& body) {
  std::barrier bodies(ranks), ended(ranks);
  on_ranks(ranks, real::all_ranks(ranks, 0).ranks, {}, [&](real::ControlChannel& channel) -> std::string {
    cudaSetDevice(channel.rank());
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    {
      real::cuda::Scratch scratch;
      const real::cuda::OwnDevice device{scratch, 0, {PLUMBLINE_HOST_NCCL_DIR}};
      const std::string machine = "machine " + std::to_string(channel.rank() / on_node);
      const auto others = connect_ranks(device, channel, {.communication_sms = 2, .machine = machine});
      if (others)
        body({channel, **others, stream, bodies});
      else
        ADD_FAILURE() << to_string(others.error());
      if (testing::Test::HasFailure()) channel.abort("a check has failed");
      bodies.arrive_and_drop();
      cudaStreamSynchronize(stream);
      // Other ranks may still read this rank's memory, which the driver would keep for them where ranks are processes.
      ended.arrive_and_wait();
    }
    cudaStreamDestroy(stream);
    return "";
  });
}

inline void on_gpus(std::int32_t ranks, const std::function<void(const Rank&)>& body) { on_gpus(ranks, 1, body); }

// Device memory of such a GPU belongs to the test, which reads and writes numbers where no stream uses it.
inline void put(const std::vector<float>& values, real::cuda::CudaBuffer& buffer) {
  ASSERT_EQ(static_cast<std::size_t>(buffer.elements()), values.size());
  real::cuda::encode(values, buffer.view());
}
inline std::vector<float> numbers_of(const real::cuda::CudaBuffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.elements()));
  real::cuda::decode(buffer.view(), values);
  return values;
}

// Returns a tensor of one matrix.
inline std::unique_ptr<real::cuda::CudaBuffer> make_buffer(real::cuda::Format format, std::int64_t rows,
                                                           std::int64_t columns) {
  auto buffer = std::make_unique<real::cuda::CudaBuffer>(format, rows, columns, rows);
  const real::cuda::Status status = buffer->allocate(rows);
  EXPECT_EQ(status.failure, "");
  return buffer;
}
inline std::unique_ptr<real::cuda::CudaBuffer> make_buffer(real::cuda::Format format, std::int64_t columns,
                                                           const std::vector<float>& values) {
  auto buffer = make_buffer(format, static_cast<std::int64_t>(values.size()) / columns, columns);
  put(values, *buffer);
  return buffer;
}

}  // namespace plumbline::tests::host_gpu
