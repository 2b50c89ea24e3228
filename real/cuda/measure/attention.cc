// Causal attention through cuDNN in BF16, forward or backward; the forward runs once before a backward is timed.
#include <memory>
#include <nlohmann/json.hpp>

#include "real/cuda/kernels/fill.h"
#include "real/cuda/measure/attention_check.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/operators/cudnn_attention.h"

namespace plumbline::real::cuda {

namespace {

constexpr std::uint64_t seed_q = 81, seed_k = 82, seed_v = 85, seed_d_o = 86;
// Gradients are rounded twice, as products of weights that were rounded.
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
      // The gradients rest on these.
      AttentionShape forward = shape_;
      forward.backward = false;
      PLUMBLINE_TRY(compare_attention(forward, operands(), comparison));
      result = comparison.outcome(bf16_tolerance);
      if (!result.ok) return {};
      comparison = {};
    }
    for (const DeviceMemory* written : outputs()) {
      PLUMBLINE_TRY(
          outcome(cudaMemsetAsync(written->as<void>(), 0xff, static_cast<std::size_t>(written->bytes()), tools.stream),
                  "poisoning the outputs"));
    }
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
