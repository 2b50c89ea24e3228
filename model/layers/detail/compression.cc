#include <algorithm>
#include <vector>

#include "model/base/integers.h"
#include "model/layers/detail/attention.h"
#include "model/layers/elementary.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

// Tokens whose projections an entry needs, and columns of one of the two projections.
std::int64_t tokens_of_entry(const Compression& by) { return by.overlaps ? 2 * by.tokens : by.tokens; }
std::int64_t projected_columns(const Compression& by) { return by.overlaps ? 2 * by.columns : by.columns; }

// A sequence that is shorter than a block counts as one.
std::int64_t blocks_in(std::int64_t tokens, std::int64_t block) { return std::max<std::int64_t>(1, tokens / block); }

// In decode a block ends with every so many tokens, of whichever request.
std::int64_t new_entries(const LayerContext& c, std::int64_t tokens, std::int64_t block) {
  if (c.inference) return ceil_div(tokens, block);
  return tokens / c.sequence_length * blocks_in(c.sequence_length, block);
}

double state_bytes_of(const Compression& by) {
  return static_cast<double>(tokens_of_entry(by) * 2 * projected_columns(by)) * bytes_per_element(DataType::fp32);
}

}  // namespace

TensorId compressed_entries(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId x,
                            std::optional<TensorId> lengths, const Compression& by) {
  const Architecture& a = c.architecture;
  const std::int64_t width = projected_columns(by);
  const TensorId projected =
      enter_tensor_region(b, c, prefix + "projected_runs",
                          linear(b, prefix + "compress", x, 2 * width,
                                 {.operands = {c.unscaled_gemm()}, .detached = by.detached, .parts = {width, width}}));
  const TensorId bias = b.parameter(prefix + "run_bias", {{by.tokens}, {width}}, weight_type(c.unscaled_gemm()));
  const std::int64_t rows = new_entries(c, b.shape(projected)[0].size, by.tokens);
  const TensorId made = b.activation(prefix + "runs", {{rows, Extent::tokens}, {by.columns}}, b.tensor(x).type);
  std::vector<TensorId> reads = {projected, bias}, writes = {made};
  if (c.inference) {
    writes.push_back(
        b.cache(prefix + "run_state", {{c.inference.requests * tokens_of_entry(by)}, {2 * width}}, DataType::fp32));
    if (c.inference.kind == InferencePass::Kind::decode || c.inference.cached_tokens > 0)
      reads.push_back(writes.back());
  }
  const CompressionAttributes attributes{by.tokens, by.overlaps, c.sequence_tokens()};
  b.emit(compress_tokens, prefix + "compress_tokens", reads, writes, attributes);
  b.on_backward([&b, prefix, projected, bias, made, attributes] {
    const TensorId dx =
        b.activation("d_" + prefix + "projected_runs", b.shape(projected), b.activation_gradient_type());
    b.emit(compress_tokens_grad, prefix + "compress_tokens_grad", {b.gradient(made), projected, bias},
           {dx, b.gradient_of_parameter(bias)}, attributes);
    b.add_gradient(projected, dx);
  });
  const TensorId normal = normalize(b, prefix + "run_norm", made, a.norm_epsilon);
  const std::int64_t of_sequence = blocks_in(c.sequence_tokens(), by.tokens);
  return rotate(b, prefix + "rotary_runs", normal,
                {1, by.columns, a.latent.qk_rope_head_dim, of_sequence, a.rope_theta, a.rope_scaled}, lengths);
}

double compression_state_bytes(const Architecture& a, Mixer mixer) {
  const std::int64_t tokens = a.shared.compression_of(mixer);
  if (tokens == 0) return 0;
  const bool sparse = mixer == Mixer::sparse_compressed_attention;
  const double own = state_bytes_of({.tokens = tokens, .columns = a.head_dim, .overlaps = sparse});
  return sparse ? own + state_bytes_of({.tokens = tokens, .columns = a.sparse.head_dim, .overlaps = true}) : own;
}

}  // namespace plumbline::model
