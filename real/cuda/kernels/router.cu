#include "real/cuda/kernels/element.h"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int block_warps = block_threads / warp_size;
constexpr std::int64_t most_blocks = 1024;  // each block adds its counts of all experts to the loads once
constexpr unsigned all_lanes = 0xffffffffu;

class Warp {
 public:
  __device__ Warp() : lane_(static_cast<int>(threadIdx.x) % warp_size) {}
  __device__ int index() const { return lane_; }
  __device__ static constexpr int count() { return warp_size; }
  template <class Value>
  __device__ Value largest(Value value) const {
#pragma unroll
    for (int offset = warp_size / 2; offset > 0; offset /= 2) {
      const Value other = __shfl_xor_sync(all_lanes, value, offset);
      value = other > value ? other : value;
    }
    return value;
  }
  __device__ float sum(float value) const { return warp_sum(value); }
  template <class Value>
  __device__ Value from(Value value, int lane) const {
    return __shfl_sync(all_lanes, value, lane);
  }

 private:
  int lane_;
};

template <int kHeld>
__device__ void load_scores(const RouterRule& rule, const Warp& warp, const TensorView& logits, std::int64_t token,
                            float (&scores)[kHeld]) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int expert = warp.index() + i * warp_size;
    scores[i] = expert < rule.experts ? load_one(logits, token, expert) : 0.0f;
  }
  router_scores(rule, warp, scores);
}

__device__ std::int64_t first_token() {
  return static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / warp_size;
}
__device__ std::int64_t token_stride() { return static_cast<std::int64_t>(gridDim.x) * block_warps; }

template <int kHeld>
__global__ void route_kernel(RouterRule rule, TensorView logits, const float* bias, std::int32_t* indices,
                             float* weights, float* loads) {
  __shared__ int counts[kHeld * warp_size];
  for (int expert = static_cast<int>(threadIdx.x); expert < rule.experts; expert += block_threads) counts[expert] = 0;
  __syncthreads();
  const Warp warp;
  for (std::int64_t token = first_token(); token < logits.rows; token += token_stride()) {
    float scores[kHeld];
    load_scores(rule, warp, logits, token, scores);
    int chosen = 0;
    float weight = 0.0f;
    const float total = choose_experts(rule, warp, scores, bias, [&](int slot, int expert, float score) {
      if (slot != warp.index()) return;
      chosen = expert;
      weight = score;
    });
    if (warp.index() >= rule.experts_per_token) continue;
    indices[token * rule.experts_per_token + warp.index()] = chosen;
    weights[token * rule.experts_per_token + warp.index()] = weight * router_factor(rule, total);
    atomicAdd(&counts[chosen], 1);
  }
  if (loads == nullptr) return;
  __syncthreads();
  for (int expert = static_cast<int>(threadIdx.x); expert < rule.experts; expert += block_threads)
    if (counts[expert] > 0) atomicAdd(&loads[expert], static_cast<float>(counts[expert]));
}

template <int kHeld>
__global__ void route_gradient_kernel(RouterRule rule, const float* d_weights, TensorView logits,
                                      const std::int32_t* indices, TensorView d_logits) {
  const Warp warp;
  const int slots = rule.experts_per_token;
  for (std::int64_t token = first_token(); token < logits.rows; token += token_stride()) {
    float scores[kHeld], gradient[kHeld];
    load_scores(rule, warp, logits, token, scores);
    const bool has_slot = warp.index() < slots;
    const int chosen = has_slot ? indices[token * slots + warp.index()] : 0;
    const float d_weight = has_slot ? d_weights[token * slots + warp.index()] : 0.0f;
    router_gradient(
        rule, warp, scores, [&](int slot) { return warp.from(chosen, slot); },
        [&](int slot) { return warp.from(d_weight, slot); }, gradient);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int expert = warp.index() + i * warp_size;
      if (expert < rule.experts) store_one(d_logits, token, expert, gradient[i]);
    }
  }
}

// Calls launch with the required experts per lane as an integral constant.
template <int kHeld>
struct Held {
  static constexpr int value = kHeld;
};
template <class Launch>
cudaError_t with_held(const RouterRule& rule, const Launch& launch) {
  if (rule.experts > most_routed_experts || rule.experts_per_token > most_experts_per_token)
    return cudaErrorInvalidValue;
  if (rule.experts <= 1 * warp_size) return launch(Held<1>());
  if (rule.experts <= 2 * warp_size) return launch(Held<2>());
  if (rule.experts <= 4 * warp_size) return launch(Held<4>());
  if (rule.experts <= 8 * warp_size) return launch(Held<8>());
  return launch(Held<16>());
}

}  // namespace

cudaError_t route(const RouterRule& rule, const TensorView& logits, const float* bias, std::int32_t* indices,
                  float* weights, float* loads, cudaStream_t stream) {
  return with_held(rule, [&](auto held) {
    const unsigned blocks = grid_for(logits.rows, block_warps, most_blocks);
    return launch(route_kernel<decltype(held)::value>, {blocks, block_threads}, stream, rule, logits, bias, indices,
                  weights, loads);
  });
}

cudaError_t route_gradient(const RouterRule& rule, const float* d_weights, const TensorView& logits,
                           const std::int32_t* indices, const TensorView& d_logits, cudaStream_t stream) {
  return with_held(rule, [&](auto held) {
    const unsigned blocks = grid_for(logits.rows, block_warps, most_blocks);
    return launch(route_gradient_kernel<decltype(held)::value>, {blocks, block_threads}, stream, rule, d_weights,
                  logits, indices, d_logits);
  });
}

}  // namespace plumbline::real::cuda
