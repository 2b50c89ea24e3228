// Attention and its gradient, by cuDNN and by plumbline's kernels, compared with double precision.
#include <gtest/gtest.h>

#include "real/cuda/operators/cudnn/attention_library.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/operator_run.h"

namespace plumbline::tests {
namespace {

using model::DataType;

// Sums are FP32; results and probabilities have 8 significant bits.
constexpr double fp32_attention = 1e-5, bf16_attention = 6e-3, bf16_attention_gradient = 1.5e-2;

class GpuAttention : public GpuTest {
 protected:
  // Checks two sequences, forward and backward. The gradient reads o and log-sum-exp in double precision.
  void expect_near(const model::AttentionAttributes& a, DataType type) {
    const std::int64_t tokens = 2 * a.sequence_length, queries = a.query_heads * a.query_key_dim;
    const std::int64_t keys = a.key_value_heads * a.query_key_dim, values = a.key_value_heads * a.value_dim;
    const std::int64_t outputs = a.query_heads * a.value_dim;
    const bool wide = type == DataType::fp32;
    OperatorRun forward("attention", model::OperatorKind::attention, a);
    OperatorRun backward("attention gradient", model::OperatorKind::attention_grad, a);
    backward.read(type, {tokens, outputs}, random_matrix(tokens, outputs, 4));
    std::uint64_t seed = 1;
    for (const std::int64_t columns : {queries, keys, values}) {
      const Matrix value = random_matrix(tokens, columns, seed++);
      forward.read(type, {tokens, columns}, value);
      backward.read(type, {tokens, columns}, value);
      backward.write(type, {tokens, columns});
    }
    forward.write(type, {tokens, outputs});
    forward.write(DataType::fp32, {tokens, a.query_heads});
    forward.expect_near(device(), wide ? fp32_attention : bf16_attention);
    if (HasFatalFailure()) return;
    backward.read(type, {tokens, outputs}, forward.expected(0));
    backward.read(DataType::fp32, {tokens, a.query_heads}, forward.expected(1));
    backward.expect_near(device(), wide ? fp32_attention : bf16_attention_gradient);
  }

  static model::AttentionAttributes heads(std::int64_t query_heads, std::int64_t shared_heads,
                                          std::int64_t query_key_dim, std::int64_t value_dim, std::int64_t length) {
    return {.query_heads = query_heads,
            .key_value_heads = shared_heads,
            .query_key_dim = query_key_dim,
            .value_dim = value_dim,
            .sequence_length = length};
  }
};

TEST_F(GpuAttention, OfLatentHeads) { expect_near(heads(4, 4, 192, 128, 1024), DataType::bf16); }

TEST_F(GpuAttention, OfEqualHeads) {
  expect_near(heads(4, 4, 128, 128, 1024), DataType::bf16);
  expect_near(heads(4, 4, 128, 128, 1024), DataType::fp16);
}

TEST_F(GpuAttention, OfHeadsThatShareKeys) { expect_near(heads(8, 2, 128, 128, 512), DataType::bf16); }

TEST_F(GpuAttention, InFp32) {
  expect_near(heads(2, 2, 192, 128, 300), DataType::fp32);
  expect_near(heads(4, 2, 64, 64, 300), DataType::fp32);
}

TEST_F(GpuAttention, WithWindowsAndAlibi) {
  for (const DataType type : {DataType::fp32, DataType::bf16}) {
    model::AttentionAttributes attributes = heads(4, 2, 64, 64, 300);
    attributes.window = 70;
    expect_near(attributes, type);
    attributes.alibi = true;
    expect_near(attributes, type);
  }
}

// Tiles of 32 do not fit in shared memory, those of 16 do.
TEST_F(GpuAttention, OfWideHeads) { expect_near(heads(2, 1, 384, 384, 100), DataType::fp32); }

TEST_F(GpuAttention, TheLibraryHasPlansForWhatIsTrained) {
  real::cuda::Machine& machine = device().machine();
  if (machine.attention == nullptr) GTEST_SKIP() << machine.attention_error;
  RecordProperty("library", machine.attention->version());
  for (const bool backward : {false, true}) {
    const real::cuda::AttentionShape shape{backward, real::cuda::Format::bf16, 1, 4096, 16, 16, 192, 128};
    EXPECT_NE(machine.attention->plan(shape), nullptr) << machine.attention->version() << machine.attention->why();
  }
}

}  // namespace
}  // namespace plumbline::tests
