// Tests the stand-in for a GPU, on which tests of the all-to-all between ranks run: order of streams, events, memory,
// and threads of kernels that wait for each other.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/support/host_gpu/device_language.h"
#include "tests/support/host_gpu/include/real/cuda/kernels/clock.cuh"
#include "tests/support/host_gpu/include/real/cuda/kernels/launch.cuh"

namespace plumbline::tests {
namespace {

using real::cuda::launch;

class HostGpu : public testing::Test {
 protected:
  HostGpu() {
    for (cudaStream_t* stream : {&first_, &second_})
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
  }
  ~HostGpu() override {
    open();
    for (cudaStream_t stream : {first_, second_}) cudaStreamDestroy(stream);
    cudaEventDestroy(event_);
  }
  // Makes all later work on the stream wait for open().
  void close(cudaStream_t stream) {
    const auto wait = [](void* is_open) { static_cast<std::atomic<bool>*>(is_open)->wait(false); };
    ASSERT_EQ(cudaLaunchHostFunc(stream, wait, &is_open_), cudaSuccess);
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }
  // Each call, on any stream, writes the next number.
  void write_number(cudaStream_t stream, int& to) {
    written_.push_back({&to, &numbers_});
    const auto write = [](void* data) {
      const auto* place = static_cast<Place*>(data);
      *place->to = ++*place->numbers;
    };
    ASSERT_EQ(cudaLaunchHostFunc(stream, write, &written_.back()), cudaSuccess);
  }

  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t event_ = nullptr;

 private:
  struct Place {
    int* to;
    std::atomic<int>* numbers;
  };
  std::atomic<bool> is_open_ = false;
  std::atomic<int> numbers_ = 0;
  std::deque<Place> written_;
};

TEST_F(HostGpu, StreamsAreOrderedAndApart) {
  int a = 0, b = 0, c = 0;
  close(first_);
  write_number(first_, a);
  write_number(first_, b);
  write_number(second_, c);
  EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
  EXPECT_EQ(c, 1);
  EXPECT_EQ(cudaStreamQuery(first_), cudaErrorNotReady);
  open();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(a, 2);
  EXPECT_EQ(b, 3);
  EXPECT_EQ(cudaStreamQuery(first_), cudaSuccess);
}

TEST_F(HostGpu, WaitIsForTheEventAsItWasLastRecorded) {
  int before = 0, after = 0;
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  close(first_);
  write_number(first_, before);
  ASSERT_EQ(cudaEventRecord(event_, first_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second_, event_, 0), cudaSuccess);
  write_number(second_, after);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(second_), cudaErrorNotReady);
  // The event is recorded again on an idle stream; those that already wait for it are not affected.
  ASSERT_EQ(cudaEventRecord(event_, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  open();
  EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 2);
}

TEST_F(HostGpu, NewMemoryMakesNoSenseAndCopiesAreLate) {
  void *from = nullptr, *to = nullptr;
  ASSERT_EQ(cudaMalloc(&from, 4), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&to, 4), cudaSuccess);
  EXPECT_EQ(*static_cast<std::int32_t*>(from), -1);
  close(first_);
  ASSERT_EQ(cudaMemsetAsync(from, 0, 4, second_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(to, from, 4, cudaMemcpyDeviceToDevice, first_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
  EXPECT_EQ(*static_cast<std::int32_t*>(to), -1);
  open();
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  EXPECT_EQ(*static_cast<std::int32_t*>(to), 0);
  EXPECT_EQ(cudaFree(from), cudaSuccess);
  EXPECT_EQ(cudaFree(to), cudaSuccess);
}

TEST_F(HostGpu, MemoryOfAnotherDeviceIsReachedByItsHandle) {
  void *own = nullptr, *seen = nullptr;
  cudaIpcMemHandle_t handle;
  ASSERT_EQ(cudaMalloc(&own, 64), cudaSuccess);
  ASSERT_EQ(cudaIpcGetMemHandle(&handle, own), cudaSuccess);
  ASSERT_EQ(cudaIpcOpenMemHandle(&seen, handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
  EXPECT_EQ(seen, own);
  EXPECT_EQ(cudaIpcCloseMemHandle(seen), cudaSuccess);
  // Handles refer to whole allocations.
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, static_cast<char*>(own) + 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaFree(own), cudaSuccess);
}

__global__ void turn_kernel(int* data) {
  __shared__ int held[96];
  const unsigned at = threadIdx.x, last = blockDim.x - 1;
  int* own = data + blockIdx.x * blockDim.x;
  held[at] = own[at];
  __syncthreads();
  own[at] = held[last - at];
}

TEST_F(HostGpu, BlockMeetsAtBarriers) {
  std::vector<int> data;
  for (int i = 0; i < 3 * 96; ++i) data.push_back(i);
  ASSERT_EQ(launch(turn_kernel, {3, 96}, first_, data.data()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  for (int i = 0; i < 3 * 96; ++i)
    ASSERT_EQ(data[static_cast<std::size_t>(i)], i / 96 * 96 + 95 - i % 96) << "place " << i;
}

__global__ void transpose_kernel(int* data) {
  int* held = real::cuda::dynamic_shared<int>();
  int* own = data + (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y;
  held[threadIdx.x * blockDim.y + threadIdx.y] = own[threadIdx.y * blockDim.x + threadIdx.x];
  __syncthreads();
  own[threadIdx.y * blockDim.x + threadIdx.x] = held[threadIdx.y * blockDim.x + threadIdx.x];
}

TEST_F(HostGpu, GridsAndBlocksHaveSeveralDimensionsAndDynamicMemory) {
  constexpr int width = 6, height = 4, matrices = 2 * 3;
  std::vector<int> data;
  for (int i = 0; i < matrices * width * height; ++i) data.push_back(i);
  ASSERT_EQ(
      launch(transpose_kernel, {dim3(2, 3), dim3(width, height), width * height * sizeof(int)}, first_, data.data()),
      cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  for (int i = 0; i < matrices * width * height; ++i) {
    const int within = i % (width * height), column = within / height, row = within % height;
    ASSERT_EQ(data[static_cast<std::size_t>(i)], i - within + row * width + column) << "place " << i;
  }
}

struct Votes {
  int count[96];
  unsigned ballot[96];
  int co_runner[96], sum[96];
};

__global__ void vote_kernel(Votes* votes) {
  const int own = static_cast<int>(threadIdx.x);
  if (own % 7 == 6) return;  // barriers do not wait for threads that have ended
  votes->count[own] = __syncthreads_count(own % 3 == 0);
}

__global__ void warp_kernel(Votes* votes) {
  const int own = static_cast<int>(threadIdx.x);
  votes->ballot[own] = __ballot_sync(0xffffffffu, own % 32 < own / 32 + 1);
  votes->co_runner[own] = __shfl_xor_sync(0xffffffffu, own, 1);
  int sum = own;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  votes->sum[own] = sum;
}

TEST_F(HostGpu, BlockAndWarpsVote) {
  Votes votes{};
  ASSERT_EQ(launch(vote_kernel, {1, 96}, first_, &votes), cudaSuccess);
  ASSERT_EQ(launch(warp_kernel, {1, 96}, first_, &votes), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  int yes = 0;
  for (int i = 0; i < 96; ++i) yes += i % 7 != 6 && i % 3 == 0 ? 1 : 0;
  for (int i = 0; i < 96; ++i) {
    ASSERT_EQ(votes.count[i], i % 7 == 6 ? 0 : yes) << "thread " << i;
    ASSERT_EQ(votes.ballot[i], (2U << (i / 32)) - 1) << "thread " << i;
    ASSERT_EQ(votes.co_runner[i], i ^ 1) << "thread " << i;
    ASSERT_EQ(votes.sum[i], 32 * (i / 32 * 32) + 31 * 16) << "thread " << i;
  }
}

// The first thread waits for the last, and both for another stream.
__global__ void wait_kernel(int* flags) {
  if (threadIdx.x == blockDim.x - 1) atomicAdd(flags, 1);
  while (__atomic_load_n(flags + (threadIdx.x == 0 ? 0 : 1), __ATOMIC_ACQUIRE) == 0) real::cuda::rest(100);
}
__global__ void raise_kernel(int* flag) { atomicAdd(flag, 1); }

TEST_F(HostGpu, WhoRestsLetsOthersGoOn) {
  int flags[2] = {0, 0};
  ASSERT_EQ(launch(wait_kernel, {1, 40}, first_, &flags[0]), cudaSuccess);
  ASSERT_EQ(launch(raise_kernel, {1, 1}, second_, &flags[1]), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(flags[0], 1);
  EXPECT_EQ(flags[1], 1);
}

}  // namespace
}  // namespace plumbline::tests
