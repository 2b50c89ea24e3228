// Causal attention through cuDNN in BF16, forward or backward. The forward pass runs once before a backward pass is
// timed.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/inference/inference.h"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/detail/expected.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/transfer.h"
#include "real/cuda/operators/cudnn/attention_library.h"

namespace plumbline::real::cuda {
namespace {

constexpr int sampled_queries = 8, sampled_keys = 4;
constexpr std::uint64_t seed_queries = 83, seed_keys = 84;

// The columns of one head in the last sequence of a tensor [sequences * length, heads * dim].
class HeadView {
 public:
  HeadView(const AttentionShape& shape, std::int64_t heads, std::int64_t dim)
      : first_row_((shape.sequences - 1) * shape.length), length_(shape.length), row_(heads * dim), dim_(dim) {}

  template <typename Element>
  Status fetch(const void* tensor, std::int64_t head, std::vector<Element>& raw) const {
    const std::size_t width = static_cast<std::size_t>(dim_) * sizeof(Element);
    raw.resize(static_cast<std::size_t>(length_ * dim_));
    return outcome(
        cudaMemcpy2D(raw.data(), width, static_cast<const Element*>(tensor) + first_row_ * row_ + head * dim_,
                     static_cast<std::size_t>(row_) * sizeof(Element), width, static_cast<std::size_t>(length_),
                     cudaMemcpyDeviceToHost),
        "copying a head to the host");
  }
  Status rows(const void* tensor, std::int64_t head, Rows& values) const {
    std::vector<Bf16> raw;
    PLUMBLINE_TRY(fetch(tensor, head, raw));
    values.assign(static_cast<std::size_t>(length_), std::vector<double>(static_cast<std::size_t>(dim_)));
    auto next = raw.begin();
    for (std::vector<double>& row : values)
      for (double& value : row) value = bf16_to_float(*next++);
    return {};
  }

 private:
  std::int64_t first_row_, length_, row_, dim_;
};

class Check {
 public:
  Check(const AttentionShape& shape, const AttentionOperands& operands, Comparison& comparison)
      : shape_(shape),
        at_(operands),
        comparison_(comparison),
        queries_(shape, shape.query_heads, shape.query_key_dim),
        keys_(shape, shape.key_value_heads, shape.query_key_dim),
        values_(shape, shape.key_value_heads, shape.value_dim),
        outputs_(shape, shape.query_heads, shape.value_dim),
        sums_(shape, shape.query_heads, 1) {}

  Status forward(std::int64_t head) {
    AttentionHead held;
    Rows got;
    std::vector<float> sums;
    PLUMBLINE_TRY(fetch(head, held));
    PLUMBLINE_TRY(outputs_.rows(at_.o, head, got));
    PLUMBLINE_TRY(sums_.fetch(at_.log_sum_exp, head, sums));
    for (const std::int64_t position : sampled_indices(shape_.length, sampled_queries, seed_queries)) {
      const auto i = static_cast<std::size_t>(position);
      const AttentionRow row = attention_row(held, i);
      compare(got[i], row.output);
      comparison_.add(sums[i], row.log_sum_exp);
    }
    return {};
  }

  Status backward_of_queries(std::int64_t head) {
    AttentionHead held;
    Rows got;
    PLUMBLINE_TRY(fetch(head, held));
    PLUMBLINE_TRY(queries_.rows(at_.dq, head, got));
    for (const std::int64_t position : sampled_indices(shape_.length, sampled_queries, seed_queries)) {
      const auto i = static_cast<std::size_t>(position);
      compare(got[i], query_gradient(held, i));
    }
    return {};
  }

  // Sums over the query heads that read one key-value head.
  Status backward_of_keys(std::int64_t key_head) {
    const std::vector<std::int64_t> positions = sampled_indices(shape_.length, sampled_keys, seed_keys);
    Rows dk(positions.size()), dv(positions.size()), got_dk, got_dv;
    const std::int64_t group = shape_.query_heads / shape_.key_value_heads;
    for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
      AttentionHead held;
      PLUMBLINE_TRY(fetch(head, held));
      PLUMBLINE_TRY(fetch_sums(head, held));
      for (std::size_t i = 0; i < positions.size(); ++i)
        add_key_gradients(held, static_cast<std::size_t>(positions[i]), dk[i], dv[i]);
    }
    PLUMBLINE_TRY(keys_.rows(at_.dk, key_head, got_dk));
    PLUMBLINE_TRY(values_.rows(at_.dv, key_head, got_dv));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      compare(got_dk[static_cast<std::size_t>(positions[i])], dk[i]);
      compare(got_dv[static_cast<std::size_t>(positions[i])], dv[i]);
    }
    return {};
  }

 private:
  Status fetch(std::int64_t head, AttentionHead& held) const {
    const std::int64_t key_head = head / (shape_.query_heads / shape_.key_value_heads);
    PLUMBLINE_TRY(queries_.rows(at_.q, head, held.q));
    PLUMBLINE_TRY(keys_.rows(at_.k, key_head, held.k));
    PLUMBLINE_TRY(values_.rows(at_.v, key_head, held.v));
    return shape_.backward ? outputs_.rows(at_.d_o, head, held.d_o) : Status{};
  }

  // Reads the forward pass's log-sum-exps, which were checked before: recomputing them would take the square of the
  // length.
  Status fetch_sums(std::int64_t head, AttentionHead& held) const {
    std::vector<float> sums;
    Rows outputs;
    PLUMBLINE_TRY(sums_.fetch(at_.log_sum_exp, head, sums));
    PLUMBLINE_TRY(outputs_.rows(at_.o, head, outputs));
    held.log_sum_exp.assign(sums.begin(), sums.end());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      held.deltas.push_back(std::inner_product(outputs[i].begin(), outputs[i].end(), held.d_o[i].begin(), 0.0));
    return {};
  }

  void compare(const std::vector<double>& got, const std::vector<double>& expected) {
    for (std::size_t i = 0; i < got.size(); ++i) comparison_.add(got[i], expected[i]);
  }

  const AttentionShape& shape_;
  const AttentionOperands& at_;
  Comparison& comparison_;
  HeadView queries_, keys_, values_, outputs_, sums_;
};

// Compares rows of the first and the last head of the last sequence: outputs and log-sum-exps, or the gradients of
// queries, keys and values. The stream that wrote them must be idle.
Status compare_attention(const AttentionShape& shape, const AttentionOperands& operands, Comparison& comparison) {
  Check check(shape, operands, comparison);
  for (const std::int64_t head : {std::int64_t{0}, shape.query_heads - 1})
    PLUMBLINE_TRY(shape.backward ? check.backward_of_queries(head) : check.forward(head));
  if (!shape.backward) return {};
  for (const std::int64_t head : {std::int64_t{0}, shape.key_value_heads - 1})
    PLUMBLINE_TRY(check.backward_of_keys(head));
  return {};
}

constexpr std::uint64_t seed_q = 81, seed_k = 82, seed_v = 85, seed_d_o = 86;
// Gradients are rounded twice: they are sums of rounded probabilities times rounded numbers.
constexpr double gradient_tolerance = 2e-2;

Status filled(DeviceMemory& memory, std::int64_t elements, std::uint64_t seed, cudaStream_t stream) {
  PLUMBLINE_TRY(memory.allocate(elements * 2));
  return outcome(fill_bf16(memory.as<Bf16>(), elements, seed, 1.0f, stream), "filling attention's inputs");
}

AttentionShape shape_of(const KernelCase& what, bool backward) {
  AttentionShape shape;
  shape.backward = backward;
  shape.sequences = what.sequences;
  shape.length = what.length;
  shape.query_heads = what.heads;
  shape.key_value_heads = what.kv_heads > 0 ? what.kv_heads : what.heads;
  shape.query_key_dim = what.qk_dim;
  shape.value_dim = what.v_dim;
  return shape;
}

class AttentionOperation : public Operation {
 public:
  explicit AttentionOperation(const KernelCase& what) : shape_(shape_of(what, what.phase == "B")) {}

  Status prepare(Toolbox& tools) override {
    PLUMBLINE_TRY(tools.open_attention());
    library_ = tools.attention.get();
    PLUMBLINE_TRY(allocate_and_fill(tools.stream));
    AttentionShape forward = shape_;
    forward.backward = false;
    PLUMBLINE_TRY(make_plan(forward));
    if (!shape_.backward) return outcome(cudaStreamSynchronize(tools.stream), "preparing attention");
    PLUMBLINE_TRY(run(tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running the forward"));
    return make_plan(shape_);
  }

  Status run(cudaStream_t stream) override { return library_->run(*plan_, operands(), workspace_->as<void>(), stream); }

  Status check(Toolbox& tools, CheckOutcome& result) override {
    Comparison comparison;
    if (shape_.backward) {
      // The gradients depend on the forward pass.
      AttentionShape forward = shape_;
      forward.backward = false;
      PLUMBLINE_TRY(compare_attention(forward, operands(), comparison));
      result = comparison.outcome(bf16_tolerance);
      if (!result.ok) return {};
      comparison = {};
    }
    PLUMBLINE_TRY(run_poisoned(outputs(), tools.stream));
    PLUMBLINE_TRY(compare_attention(shape_, operands(), comparison));
    result = comparison.outcome(shape_.backward ? gradient_tolerance : bf16_tolerance);
    return {};
  }

  std::string algorithm() const override {
    return nlohmann::ordered_json{{"library", library_->version()}, {"workspace_bytes", workspace_->bytes()}}.dump();
  }

 private:
  Status make_plan(const AttentionShape& shape) {
    plan_ = library_->plan(shape);
    if (plan_ == nullptr) return {library_->version() + " has no plan: " + library_->why()};
    workspace_ = std::make_unique<DeviceMemory>();
    return workspace_->allocate(library_->workspace_bytes(*plan_));
  }

  Status allocate_and_fill(cudaStream_t stream) {
    const std::int64_t tokens = shape_.sequences * shape_.length;
    const std::int64_t queries = tokens * shape_.query_heads * shape_.query_key_dim;
    const std::int64_t keys = tokens * shape_.key_value_heads * shape_.query_key_dim;
    const std::int64_t values = tokens * shape_.key_value_heads * shape_.value_dim;
    const std::int64_t outputs = tokens * shape_.query_heads * shape_.value_dim;
    PLUMBLINE_TRY(filled(q_, queries, seed_q, stream));
    PLUMBLINE_TRY(filled(k_, keys, seed_k, stream));
    PLUMBLINE_TRY(filled(v_, values, seed_v, stream));
    PLUMBLINE_TRY(o_.allocate(outputs * 2));
    PLUMBLINE_TRY(log_sum_exp_.allocate(tokens * shape_.query_heads * 4));
    if (!shape_.backward) return {};
    PLUMBLINE_TRY(filled(d_o_, outputs, seed_d_o, stream));
    PLUMBLINE_TRY(dq_.allocate(queries * 2));
    PLUMBLINE_TRY(dk_.allocate(keys * 2));
    return dv_.allocate(values * 2);
  }

  AttentionOperands operands() const {
    return {q_.as<void>(),   k_.as<void>(),  v_.as<void>(),  o_.as<void>(), log_sum_exp_.as<void>(),
            d_o_.as<void>(), dq_.as<void>(), dk_.as<void>(), dv_.as<void>()};
  }

  std::vector<const DeviceMemory*> outputs() const {
    if (shape_.backward) return {&dq_, &dk_, &dv_};
    return {&o_, &log_sum_exp_};
  }

  AttentionShape shape_;
  Attention* library_ = nullptr;
  AttentionPlan* plan_ = nullptr;
  std::unique_ptr<DeviceMemory> workspace_;
  DeviceMemory q_, k_, v_, o_, log_sum_exp_, d_o_, dq_, dk_, dv_;
};

constexpr std::uint64_t seed_new_queries = 91, seed_cached_keys = 92, seed_cached_values = 93;

// Attention of one new token of each request over its keys and values in a cache, by plumbline's own kernel in BF16.
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
    PLUMBLINE_TRY(run_poisoned({&o_}, tools.stream));
    Comparison comparison;
    PLUMBLINE_TRY(check_head(0, 0, comparison));
    PLUMBLINE_TRY(check_head(what_.sequences - 1, what_.heads - 1, comparison));
    result = comparison.outcome(bf16_tolerance);
    return {};
  }

 private:
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
    return fetch_bf16(x.data, row * x.columns + column, width, values);
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

std::unique_ptr<Operation> make_attention(const KernelCase& what) { return std::make_unique<AttentionOperation>(what); }

std::unique_ptr<Operation> make_cached_attention(const KernelCase& what) {
  return std::make_unique<CachedAttention>(what);
}

}  // namespace plumbline::real::cuda
