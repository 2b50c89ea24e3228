#include "real/cuda/measure/attention_check.h"

#include <numeric>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/measure/attention_reference.h"
#include "real/cuda/measure/transfer.h"

namespace plumbline::real::cuda {

namespace {

constexpr int sampled_queries = 8, sampled_keys = 4;
constexpr std::uint64_t seed_queries = 83, seed_keys = 84;

// The columns of one head of the last sequence, of a tensor [sequences * length, heads * dim].
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
    for (std::vector<double>& row : values) {
      for (double& value : row) value = bf16_to_float(*next++);
    }
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

  // Sums over the query heads that read one of keys and values.
  Status backward_of_keys(std::int64_t key_head) {
    const std::vector<std::int64_t> positions = sampled_indices(shape_.length, sampled_keys, seed_keys);
    Rows dk(positions.size()), dv(positions.size()), got_dk, got_dv;
    const std::int64_t group = shape_.query_heads / shape_.key_value_heads;
    for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
      AttentionHead held;
      PLUMBLINE_TRY(fetch(head, held));
      PLUMBLINE_TRY(fetch_sums(head, held));
      for (std::size_t i = 0; i < positions.size(); ++i) {
        add_key_gradients(held, static_cast<std::size_t>(positions[i]), dk[i], dv[i]);
      }
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

  // What the forward left behind, which was compared before: computing it again would take the square of the length.
  Status fetch_sums(std::int64_t head, AttentionHead& held) const {
    std::vector<float> sums;
    Rows outputs;
    PLUMBLINE_TRY(sums_.fetch(at_.log_sum_exp, head, sums));
    PLUMBLINE_TRY(outputs_.rows(at_.o, head, outputs));
    held.log_sum_exp.assign(sums.begin(), sums.end());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      held.deltas.push_back(std::inner_product(outputs[i].begin(), outputs[i].end(), held.d_o[i].begin(), 0.0));
    }
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

}  // namespace

Status compare_attention(const AttentionShape& shape, const AttentionOperands& operands, Comparison& comparison) {
  Check check(shape, operands, comparison);
  for (const std::int64_t head : {std::int64_t{0}, shape.query_heads - 1}) {
    PLUMBLINE_TRY(shape.backward ? check.backward_of_queries(head) : check.forward(head));
  }
  if (!shape.backward) return {};
  for (const std::int64_t head : {std::int64_t{0}, shape.key_value_heads - 1}) {
    PLUMBLINE_TRY(check.backward_of_keys(head));
  }
  return {};
}

}  // namespace plumbline::real::cuda
