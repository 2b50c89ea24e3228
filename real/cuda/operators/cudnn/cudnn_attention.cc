#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "real/cuda/operators/cudnn/attention_library.h"
#include "real/cuda/operators/cudnn/cudnn_graph.h"
#include "real/cuda/operators/cudnn/detail/attention_graph.h"

namespace plumbline::real::cuda {

class AttentionPlan {
 public:
  AttentionPlan(const Cudnn& cudnn, const AttentionShape& of) : shape(of), plan(cudnn) {}

  const AttentionShape shape;
  CudnnPlan plan;
  Status why;  // the reason if there is no plan

  // The bytes of the sums from which dq is made; they follow the library's own workspace.
  std::int64_t sum_bytes() const {
    const std::int64_t queries = shape.sequences * shape.length * shape.query_heads;
    return shape.backward ? queries * shape.query_key_dim * static_cast<std::int64_t>(sizeof(float)) : 0;
  }
  std::int64_t library_bytes() const { return (plan.workspace_bytes() + aligned - 1) / aligned * aligned; }

 private:
  static constexpr std::int64_t aligned = 256;
};

namespace {

auto key_of(const AttentionShape& s) {
  return std::make_tuple(s.backward, s.format, s.sequences, s.length, s.query_heads, s.key_value_heads, s.query_key_dim,
                         s.value_dim);
}

class CudnnAttention final : public Attention {
 public:
  explicit CudnnAttention(std::unique_ptr<Cudnn> cudnn) : cudnn_(std::move(cudnn)) {}
  ~CudnnAttention() override {
    plans_.clear();
    if (handle_ != nullptr) cudnn_->destroy(handle_);
  }

  Status create() { return cudnn_->outcome(cudnn_->create(&handle_), "cudnnCreate"); }

  AttentionPlan* plan(const AttentionShape& shape) override {
    auto& entry = plans_[key_of(shape)];
    if (!entry) {
      entry = std::make_unique<AttentionPlan>(*cudnn_, shape);
      shape.backward ? describe_backward(entry->plan.graph(), shape) : describe_forward(entry->plan.graph(), shape);
      entry->why = entry->plan.build({handle_, {}});
    }
    why_ = entry->why.failure;
    return entry->why.ok() ? entry.get() : nullptr;
  }

  const std::string& why() const override { return why_; }

  std::int64_t workspace_bytes(const AttentionPlan& plan) const override {
    return plan.library_bytes() + plan.sum_bytes();
  }

  Status run(const AttentionPlan& plan, const AttentionOperands& o, void* workspace, cudaStream_t stream) override {
    using Id = AttentionTensor;
    const AttentionShape& s = plan.shape;
    float factor = 1.0f / std::sqrt(static_cast<float>(s.query_key_dim));
    float least = std::numeric_limits<float>::lowest(), unit = 1.0f;
    std::vector<std::pair<std::int64_t, void*>> tensors;
    const auto give = [&](Id which, void* at) { tensors.emplace_back(static_cast<std::int64_t>(which), at); };
    give(Id::q, o.q);
    give(Id::k, o.k);
    give(Id::v, o.v);
    give(Id::o, o.o);
    give(Id::log_sum_exp, o.log_sum_exp);
    give(Id::scale, &factor);
    give(Id::lowest, &least);
    if (s.backward) {
      void* const sums = static_cast<char*>(workspace) + plan.library_bytes();
      PLUMBLINE_TRY(outcome(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(plan.sum_bytes()), stream),
                            "clearing the sums of dq"));
      give(Id::d_o, o.d_o);
      give(Id::dq, o.dq);
      give(Id::dk, o.dk);
      give(Id::dv, o.dv);
      give(Id::dq_sum, sums);
      give(Id::one, &unit);
    }
    PLUMBLINE_TRY(cudnn_->outcome(cudnn_->set_stream(handle_, stream), "cudnnSetStream"));
    return plan.plan.run(handle_, tensors, workspace);
  }

  std::string version() const override {
    const std::size_t number = cudnn_->version();  // 91900
    return "cuDNN " + std::to_string(number / 10000) + '.' + std::to_string(number / 100 % 100) + '.' +
           std::to_string(number % 100) + ", " + cudnn_->library->path();
  }

 private:
  std::unique_ptr<Cudnn> cudnn_;
  cudnnHandle_t handle_ = nullptr;
  std::map<decltype(key_of({})), std::unique_ptr<AttentionPlan>> plans_;
  std::string why_;
};

}  // namespace

std::unique_ptr<Attention> open_attention(const std::vector<std::string>& folders, std::string& error) {
  auto cudnn = Cudnn::open(folders, error);
  if (!cudnn) return nullptr;
  auto attention = std::make_unique<CudnnAttention>(std::move(cudnn));
  if (const Status created = attention->create(); !created.ok()) {
    error = created.failure;
    return nullptr;
  }
  return attention;
}

}  // namespace plumbline::real::cuda
