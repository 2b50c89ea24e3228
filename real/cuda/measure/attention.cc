// Causal attention through cuDNN in BF16, forward or backward. The forward pass runs once before a backward pass is
// timed.
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/fill.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/detail/attention_reference.h"
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
    for (const DeviceMemory* written : outputs())
      PLUMBLINE_TRY(written->set(0xff, tools.stream, "poisoning the outputs"));
    PLUMBLINE_TRY(run(tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running attention"));
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

  static Status filled(DeviceMemory& memory, std::int64_t elements, std::uint64_t seed, cudaStream_t stream) {
    PLUMBLINE_TRY(memory.allocate(elements * 2));
    return outcome(fill_bf16(memory.as<Bf16>(), elements, seed, 1.0f, stream), "filling attention's inputs");
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

}  // namespace

std::unique_ptr<Operation> make_attention(const KernelCase& what) { return std::make_unique<AttentionOperation>(what); }

}  // namespace plumbline::real::cuda
