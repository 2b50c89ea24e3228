// Attention of one new token of each request over its keys and values in a cache, by plumbline's own kernel in BF16.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "real/cuda/kernels/fill.h"
#include "real/cuda/kernels/inference/inference.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/detail/attention_reference.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/transfer.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::uint64_t seed_new_queries = 91, seed_cached_keys = 92, seed_cached_values = 93;

class CachedAttention : public Operation {
 public:
  explicit CachedAttention(const KernelCase& what)
      : what_(what), kv_heads_(what.kv_heads > 0 ? what.kv_heads : what.heads) {}

  Status prepare(Toolbox& tools) override {
    const std::int64_t rows = what_.sequences * what_.length;
    PLUMBLINE_TRY(filled(q_, what_.sequences * what_.heads * what_.qk_dim, seed_new_queries, tools.stream));
    PLUMBLINE_TRY(filled(keys_, rows * kv_heads_ * what_.qk_dim, seed_cached_keys, tools.stream));
    if (what_.latent == 0)
      PLUMBLINE_TRY(filled(values_, rows * kv_heads_ * what_.v_dim, seed_cached_values, tools.stream));
    PLUMBLINE_TRY(o_.allocate(what_.sequences * what_.heads * what_.v_dim * 2));
    PLUMBLINE_TRY(lengths_.allocate(what_.sequences * 4));
    const std::vector<std::int32_t> lengths(static_cast<std::size_t>(what_.sequences),
                                            static_cast<std::int32_t>(what_.length - 1));
    PLUMBLINE_TRY(outcome(cudaMemcpy(lengths_.as<void>(), lengths.data(), lengths.size() * 4, cudaMemcpyHostToDevice),
                          "lengths"));
    return outcome(cudaStreamSynchronize(tools.stream), "filling the cache");
  }

  Status run(cudaStream_t stream) override {
    return outcome(cached_attention(task(), stream), "attention over a cache");
  }

  Status check(Toolbox& tools, CheckOutcome& result) override {
    PLUMBLINE_TRY(o_.set(0xff, tools.stream, "poisoning the output"));
    PLUMBLINE_TRY(run(tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running attention"));
    Comparison comparison;
    PLUMBLINE_TRY(check_head(0, 0, comparison));
    PLUMBLINE_TRY(check_head(what_.sequences - 1, what_.heads - 1, comparison));
    result = comparison.outcome(bf16_tolerance);
    return {};
  }

 private:
  static Status filled(DeviceMemory& memory, std::int64_t elements, std::uint64_t seed, cudaStream_t stream) {
    PLUMBLINE_TRY(memory.allocate(elements * 2));
    return outcome(fill_bf16(memory.as<Bf16>(), elements, seed, 1.0f, stream), "filling attention's inputs");
  }

  TensorView view(const DeviceMemory& memory, std::int64_t rows, std::int64_t columns) const {
    return {memory.as<void>(), nullptr, Format::bf16, rows, columns, 0};
  }

  CachedAttentionTask task() const {
    const std::int64_t rows = what_.sequences * what_.length;
    CachedAttentionTask task;
    task.q = view(q_, what_.sequences, what_.heads * what_.qk_dim);
    task.keys = view(keys_, rows, kv_heads_ * what_.qk_dim);
    task.values = what_.latent != 0 ? task.keys : view(values_, rows, kv_heads_ * what_.v_dim);
    task.o = view(o_, what_.sequences, what_.heads * what_.v_dim);
    task.tokens = {lengths_.as<const std::int32_t>(), what_.sequences, 1};
    task.query_heads = what_.heads;
    task.key_value_heads = kv_heads_;
    task.query_key_dim = what_.qk_dim;
    task.value_dim = what_.v_dim;
    task.scale = 1 / std::sqrt(static_cast<float>(what_.qk_dim));
    return task;
  }

  // Returns `width` columns of a row from `column` on.
  static Status columns_of(const TensorView& x, std::int64_t row, std::int64_t column, std::int64_t width,
                           std::vector<double>& values) {
    std::vector<Bf16> raw;
    PLUMBLINE_TRY(fetch(static_cast<const Bf16*>(x.data) + row * x.columns + column, width, raw));
    values.resize(raw.size());
    std::transform(raw.begin(), raw.end(), values.begin(), bf16_to_float);
    return {};
  }

  Status check_head(std::int64_t request, std::int64_t head, Comparison& comparison) const {
    const CachedAttentionTask at = task();
    const std::int64_t shared = head / (what_.heads / kv_heads_);
    const auto length = static_cast<std::size_t>(what_.length);
    AttentionHead held;
    std::vector<double> query, got;
    PLUMBLINE_TRY(columns_of(at.q, request, head * what_.qk_dim, what_.qk_dim, query));
    held.q.assign(length, query);  // only the last one attends
    held.k.resize(length);
    held.v.resize(length);
    for (std::size_t key = 0; key < length; ++key) {
      const std::int64_t row = request * what_.length + static_cast<std::int64_t>(key);
      PLUMBLINE_TRY(columns_of(at.keys, row, shared * what_.qk_dim, what_.qk_dim, held.k[key]));
      PLUMBLINE_TRY(columns_of(at.values, row, shared * what_.v_dim, what_.v_dim, held.v[key]));
    }
    PLUMBLINE_TRY(columns_of(at.o, request, head * what_.v_dim, what_.v_dim, got));
    const AttentionRow expected = attention_row(held, length - 1);
    for (std::size_t i = 0; i < got.size(); ++i) comparison.add(got[i], expected.output[i]);
    return {};
  }

  KernelCase what_;
  std::int64_t kv_heads_;
  DeviceMemory q_, keys_, values_, o_, lengths_;
};

}  // namespace

std::unique_ptr<Operation> make_cached_attention(const KernelCase& what) {
  return std::make_unique<CachedAttention>(what);
}

}  // namespace plumbline::real::cuda
