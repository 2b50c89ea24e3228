// The subjects of a case's records: all that they hold next to its times.
#include <utility>

#include "model/cost/work.h"
#include "model/graph/builder.h"
#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real {
namespace {

using model::DataType;
using model::OneOperator;
using model::OperatorKind;
using model::Role;

struct Work {
  double flops = 0, bytes = 0;
};

// Tensors are activations; one that is written in place is a gradient.
Work work(const model::OneOperator& one) {
  return {model::flops(one.graph(), one.op(), 1, true).value(), model::bytes_moved(one.graph(), one.op(), 1).value()};
}

// A weight gradient is read and written in FP32; with scales per block both operands of its GEMM are activations.
Work gemm_work(const KernelCase& c) {
  const bool gradient = c.phase == "W";
  const DataType x = c.format == "bf16"         ? DataType::bf16
                     : c.format == "fp8_tensor" ? DataType::fp8
                                                : DataType::fp8_tile;
  const DataType w = x == DataType::fp8_tile && !gradient ? DataType::fp8_block : x;
  const model::MatmulAttributes attributes{.accumulate = gradient};
  if (c.groups == 1) {
    OneOperator gemm(OperatorKind::matmul, attributes);
    gemm.read({c.m, c.k}, x).read({c.n, c.k}, w);
    if (gradient) return work(gemm.write({c.m, c.n}, DataType::fp32, Role::gradient));
    return work(gemm.write({c.m, c.n}, DataType::bf16));
  }
  OneOperator gemm(OperatorKind::grouped_matmul, attributes);
  if (gradient)
    return work(gemm.read({c.m, c.groups * c.k}, x)
                    .read({c.n, c.groups * c.k}, w)
                    .write({c.groups, c.m, c.n}, DataType::fp32, Role::gradient));
  return work(
      gemm.read({c.groups * c.m, c.k}, x).read({c.groups, c.n, c.k}, w).write({c.groups * c.m, c.n}, DataType::bf16));
}

Work attention_work(const KernelCase& c) {
  const std::int64_t tokens = c.sequences * c.length, kv_heads = c.kv_heads > 0 ? c.kv_heads : c.heads;
  const model::AttentionAttributes attributes{c.heads, kv_heads, c.qk_dim, c.v_dim, c.length};
  const std::vector<std::int64_t> q = {tokens, c.heads * c.qk_dim}, k = {tokens, kv_heads * c.qk_dim};
  const std::vector<std::int64_t> v = {tokens, kv_heads * c.v_dim}, o = {tokens, c.heads * c.v_dim};
  const std::vector<std::int64_t> sums = {tokens, c.heads};
  constexpr DataType type = DataType::bf16;
  if (c.phase == "F") {
    OneOperator forward(OperatorKind::attention, attributes);
    return work(forward.read(q, type).read(k, type).read(v, type).write(o, type).write(sums, DataType::fp32));
  }
  OneOperator backward(OperatorKind::attention_grad, attributes);
  backward.read(o, type).read(q, type).read(k, type).read(v, type).read(o, type).read(sums, DataType::fp32);
  return work(backward.write(q, type).write(k, type).write(v, type));
}

Work cached_attention_work(const KernelCase& c) {
  const std::int64_t kv_heads = c.kv_heads > 0 ? c.kv_heads : c.heads, rows = c.sequences * c.length;
  const model::CachedAttentionAttributes attributes{.query_heads = c.heads,
                                                    .key_value_heads = kv_heads,
                                                    .query_key_dim = c.qk_dim,
                                                    .value_dim = c.v_dim,
                                                    .requests = c.sequences,
                                                    .context_tokens = static_cast<double>(c.length),
                                                    .latent = c.latent != 0};
  constexpr DataType type = DataType::bf16;
  OneOperator attention(OperatorKind::cached_attention, attributes);
  attention.read({c.sequences, c.heads * c.qk_dim}, type).read({c.sequences}, DataType::int32);
  attention.read({rows, kv_heads * c.qk_dim}, type, Role::cache);
  if (c.latent == 0) attention.read({rows, kv_heads * c.v_dim}, type, Role::cache);
  return work(attention.write({c.sequences, c.heads * c.v_dim}, type));
}

Work moved_rows_work(const KernelCase& c, const std::string& op) {
  const std::vector<std::int64_t> shape = {c.rows, c.columns};
  constexpr DataType type = DataType::bf16;
  if (op == "rmsnorm")
    return work(OneOperator(OperatorKind::rmsnorm).read(shape, type).read({c.columns}, type).write(shape, type));
  if (op == "swiglu")
    return work(OneOperator(OperatorKind::swiglu).read({c.rows, 2 * c.columns}, type).write(shape, type));
  if (op == "quantise") return work(OneOperator(OperatorKind::cast).read(shape, type).write(shape, DataType::fp8_tile));
  const std::int64_t out = c.rows * c.top_k;  // permute
  return work(
      OneOperator(OperatorKind::permute).read(shape, type).read({out}, DataType::int32).write({out, c.columns}, type));
}

// AdamW with FP32 gradients and master weights, BF16 moments and weights.
Work optimizer_work(const KernelCase& c) {
  return work(OneOperator(OperatorKind::adamw)
                  .read({c.elements}, DataType::fp32)
                  .write({c.elements}, DataType::bf16)
                  .write({c.elements}, DataType::fp32, Role::gradient)
                  .write({c.elements}, DataType::bf16, Role::gradient)
                  .write({c.elements}, DataType::bf16, Role::gradient));
}

Work work_of(const KernelCase& c) {
  const std::string& op = c.operation();
  if (op == "gemm") return gemm_work(c);
  if (op == "attention") return attention_work(c);
  if (op == "cached_attention") return cached_attention_work(c);
  if (op == "adamw") return optimizer_work(c);
  if (c.rows > 0) return moved_rows_work(c, op);
  const auto bytes = static_cast<double>(c.bytes);
  if (op == "copy") return {0, 2 * bytes};
  if (op == "host_to_device") return {0, bytes};
  if (!is_collective(c)) return {};
  const double others = static_cast<double>(c.ranks - 1) / static_cast<double>(c.ranks);
  return {0, (op == "all_reduce" ? 2 : 1) * bytes * others};
}

std::vector<std::pair<std::string, std::int64_t>> shape_of(const KernelCase& c) {
  std::vector<std::pair<std::string, std::int64_t>> shape;
  if (c.operation() == "gemm") shape = {{"m", c.m}, {"n", c.n}, {"k", c.k}, {"groups", c.groups}};
  if (c.operation().ends_with("attention"))
    shape = {{"sequences", c.sequences}, {"length", c.length},
             {"heads", c.heads},         {"kv_heads", c.kv_heads > 0 ? c.kv_heads : c.heads},
             {"qk_dim", c.qk_dim},       {"v_dim", c.v_dim}};
  const auto add = [&](const char* name, std::int64_t value) {
    if (value > 0) shape.emplace_back(name, value);
  };
  add("latent", c.latent);
  add("rows", c.rows);
  add("columns", c.columns);
  add("top_k", c.top_k);
  add("elements", c.elements);
  if (is_collective(c)) add("ranks", c.ranks);
  add("bytes", c.bytes);
  add("nodes", c.nodes);
  return shape;
}

// Returns the cache and the variant of each record.
std::vector<std::pair<std::string, std::string>> variants_of(const KernelCase& c) {
  if (c.op == "launch") return {{"", "host_call"}, {"", "stream_gap"}, {"", "graph_node"}, {"", "round_trip"}};
  if (c.op == "graph") return {{"", "host_call"}, {"", "replay"}, {"", "round_trip"}};
  if (is_collective(c)) return {{"hot", "burst"}};
  if (c.op == "host_to_device") return {{"", "pinned_to_device"}, {"", "device_to_pinned"}};
  if (c.op == "copy") return {{"cold", "kernel"}, {"cold", "driver"}};
  if (c.op == "partition" && c.ctas == 0) return {{"hot", "alone"}};
  if (c.op == "partition") return {{"hot", "alone"}, {"hot", "beside"}};
  if (c.soak > 0) return {{"hot", "sustained"}};
  return {{"hot", "burst"}, {"cold", "burst"}};
}

}  // namespace

std::vector<Subject> subjects_of(const KernelCase& value) {
  const Work work = work_of(value);
  std::vector<Subject> subjects;
  for (const auto& [cache, variant] : variants_of(value)) {
    Subject subject{.op = value.operation(),
                    .name = value.name,
                    .phase = value.phase,
                    .format = value.format,
                    .key = to_line(value),
                    .shape = shape_of(value)};
    subject.overlapped = variant == "beside";
    subject.communication_sms = subject.overlapped ? static_cast<int>(value.ctas) : 0;
    subject.flops = work.flops;
    subject.bytes = work.bytes;
    subject.cache = cache;
    subject.variant = variant;
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

}  // namespace plumbline::real
