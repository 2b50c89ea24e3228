// Rates of the host's operators: FLOP/s of GEMMs and attention (causal FLOPs), bytes/s of operators that are bound by
// memory.
#include <benchmark/benchmark.h>

#include "tests/support/real/host_operator.h"

namespace plumbline::tests {
namespace {

using model::OperatorKind;

// Runs the operator repeatedly on the same memory, on one core.
void run(benchmark::State& state, const HostOperator& host) {
  HostOperatorMemory memory(host);
  real::host::Cores cores;
  for (auto _ : state) {
    real::host::run({memory.kernel(), cores});
    benchmark::ClobberMemory();
  }
}

void rate(benchmark::State& state, const char* unit, double work) {
  state.counters[unit] = benchmark::Counter(work * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate,
                                            benchmark::Counter::kIs1000);
}

void gemm(benchmark::State& state) {
  model::Random random(1);
  const real::host::Index n = state.range(0);
  run(state, {OperatorKind::matmul,
              model::MatmulAttributes{.transpose_b = true},
              {random_floats(n, n, random), random_floats(n, n, random)},
              {no_floats(n, n)}});
  rate(state, "FLOP/s", 2 * static_cast<double>(n * n * n));
}
BENCHMARK(gemm)->Arg(256)->Arg(512);

model::AttentionAttributes heads(real::host::Index length) {
  return {.query_heads = 4, .key_value_heads = 4, .query_key_dim = 64, .value_dim = 64, .sequence_length = length};
}

// Attention has two GEMMs over half of the square, as it is causal.
double flops(const model::AttentionAttributes& a) {
  const auto square = static_cast<double>(a.sequence_length * a.sequence_length);
  return square * static_cast<double>(a.query_heads * (a.query_key_dim + a.value_dim));
}

void attention_forward(benchmark::State& state) {
  model::Random random(2);
  const auto a = heads(state.range(0));
  const FloatMatrix x = random_floats(a.sequence_length, a.query_heads * a.value_dim, random);
  run(state, {OperatorKind::attention, a, {x, x, x}, {x, no_floats(a.sequence_length, a.query_heads)}});
  rate(state, "FLOP/s", flops(a));
}
BENCHMARK(attention_forward)->Arg(256)->Arg(1024);

// The backward pass has five GEMMs where the forward pass has two.
void attention_backward(benchmark::State& state) {
  model::Random random(3);
  const auto a = heads(state.range(0));
  const FloatMatrix x = random_floats(a.sequence_length, a.query_heads * a.value_dim, random);
  const FloatMatrix log_sum_exp = FloatMatrix::Constant(a.sequence_length, a.query_heads, 30);
  run(state, {OperatorKind::attention_grad, a, {x, x, x, x, x, log_sum_exp}, {x, x, x}});
  rate(state, "FLOP/s", 2.5 * flops(a));
}
BENCHMARK(attention_backward)->Arg(256)->Arg(1024);

constexpr real::host::Index tokens = 4096, width = 1024;

void norm(benchmark::State& state) {
  model::Random random(4);
  run(state, {OperatorKind::rmsnorm,
              model::NormAttributes{},
              {random_floats(tokens, width, random), random_floats(width, 1, random)},
              {no_floats(tokens, width)}});
  rate(state, "B/s", 2.0 * sizeof(float) * tokens * width);
}
BENCHMARK(norm);

void gated_activation(benchmark::State& state) {
  model::Random random(5);
  run(state, {OperatorKind::swiglu, {}, {random_floats(tokens, 2 * width, random)}, {no_floats(tokens, width)}});
  rate(state, "B/s", 3.0 * sizeof(float) * tokens * width);
}
BENCHMARK(gated_activation);

void rounding(benchmark::State& state) {
  model::Random random(6);
  run(state, {OperatorKind::cast,
              {},
              {random_floats(tokens, width, random)},
              {no_floats(tokens, width)},
              state.range(0) == 0 ? model::DataType::bf16 : model::DataType::fp16});
  rate(state, "B/s", 2.0 * sizeof(float) * tokens * width);
}
BENCHMARK(rounding)->Arg(0)->Arg(1);

}  // namespace
}  // namespace plumbline::tests
