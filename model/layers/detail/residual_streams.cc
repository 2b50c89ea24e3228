#include "model/layers/detail/residual_streams.h"

#include "model/layers/elementary.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

// Mixes the copies by `logits` columns that are projected of them; with more columns than copies the result has
// weights.
StreamReading mixed_streams(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                            std::int64_t logits, std::int64_t scales) {
  const Architecture& a = c.architecture;
  const std::int64_t streams = a.residual_streams;
  const Dimension tokens = b.shape(x)[0];
  const TensorId projected = linear(b, name + "_streams", x, logits, {.operands = {c.unscaled_gemm()}});
  const DataType type = weight_type(c.unscaled_gemm());
  const std::vector<TensorId> parameters = {b.parameter(name + "_stream_scales", {{scales}}, type),
                                            b.parameter(name + "_stream_biases", {{logits}}, type)};
  StreamReading reading{b.activation(name + "_stream_in", {tokens, {a.hidden_size}}, b.tensor(x).type), std::nullopt};
  std::vector<TensorId> writes = {reading.input};
  if (logits > streams)
    writes.push_back(
        *(reading.weights = b.activation(name + "_stream_weights", {tokens, {logits - streams}}, DataType::fp32)));
  const StreamAttributes attributes{streams, a.norm_epsilon};
  const std::vector<TensorId> operands = {x, projected, parameters[0], parameters[1]};
  b.emit(mix_streams, name + "_mix_streams", operands, writes, attributes);
  b.on_backward([&b, name, operands, writes, attributes] {
    std::vector<TensorId> reads, gradients;
    for (const TensorId written : writes) reads.push_back(b.gradient(written));
    reads.insert(reads.end(), operands.begin(), operands.end());
    for (std::size_t i = 0; i < 2; ++i)
      gradients.push_back(b.activation("d_" + name + (i == 0 ? "_streams" : "_stream_logits"), b.shape(operands[i]),
                                       b.activation_gradient_type()));
    std::vector<TensorId> results = gradients;
    for (std::size_t i = 2; i < operands.size(); ++i) results.push_back(b.gradient_of_parameter(operands[i]));
    b.emit(mix_streams_grad, name + "_mix_streams_grad", reads, results, attributes);
    for (std::size_t i = 0; i < gradients.size(); ++i) b.add_gradient(operands[i], gradients[i]);
  });
  return reading;
}

}  // namespace

StreamReading read_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId stream) {
  const std::int64_t n = c.architecture.residual_streams;
  if (n == 1) return {stream, std::nullopt};
  constexpr std::int64_t scales = 3;  // of reading, adding and mixing
  return mixed_streams(b, c, name, stream, (2 + n) * n, scales);
}

TensorId add_to_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId stream,
                       const StreamReading& reading, const std::vector<TensorId>& terms) {
  if (!reading.weights) {
    std::vector<TensorId> all = {stream};
    all.insert(all.end(), terms.begin(), terms.end());
    return residual(b, name, all);
  }
  const TensorId added = terms.size() > 1 ? residual(b, name + "_terms", terms) : terms.front();
  const StreamAttributes attributes{c.architecture.residual_streams, c.architecture.norm_epsilon};
  const TensorId sum = b.activation(name, b.shape(stream), b.tensor(stream).type);
  const std::vector<TensorId> operands = {added, stream, *reading.weights};
  b.emit(add_to_streams, name, operands, {sum}, attributes);
  b.on_backward([&b, name, operands, sum, attributes] {
    std::vector<TensorId> reads = {b.gradient(sum)}, gradients;
    for (const TensorId id : operands) {
      reads.push_back(id);
      const bool weights = b.tensor(id).type == DataType::fp32;
      gradients.push_back(b.activation("d_" + name + "_" + b.tensor(id).name, b.shape(id),
                                       weights ? DataType::fp32 : b.activation_gradient_type()));
    }
    b.emit(add_to_streams_grad, name + "_grad", reads, gradients, attributes);
    for (std::size_t i = 0; i < operands.size(); ++i) b.add_gradient(operands[i], gradients[i]);
  });
  return sum;
}

TensorId begin_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  const std::int64_t n = c.architecture.residual_streams;
  if (n == 1) return x;
  return concatenate_columns(b, name, std::vector<TensorId>(static_cast<std::size_t>(n), x));
}

TensorId end_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId stream) {
  const std::int64_t n = c.architecture.residual_streams;
  return n == 1 ? stream : mixed_streams(b, c, name, stream, n, 1).input;
}

}  // namespace plumbline::model
