// Attention to compressed entries, and several residual streams. Gradients are differences.
#include <algorithm>
#include <cmath>

#include "tests/support/interpreter/operators.h"
#include "tests/support/interpreter/slopes.h"

namespace plumbline::tests {
namespace {

// Operands: projections [T,2n], bias [r,n]. The first block of a sequence has none before it.
Matrix entries_of(const model::CompressionAttributes& a, Index columns, const std::vector<Matrix>& operands) {
  const Matrix &x = operands[0], &bias = operands[1];
  const Index width = x.cols() / 2, in_sequence = std::max<Index>(1, a.sequence_length / a.tokens);
  Matrix out = Matrix::Zero(x.rows() / a.sequence_length * in_sequence, columns);
  for (Index row = 0; row < out.rows(); ++row)
    for (Index column = 0; column < columns; ++column) {
      double sum = 0, weights = 0;
      for (Index back = 0; back < (a.overlaps && row % in_sequence > 0 ? 2 : 1); ++back)
        for (Index place = 0; place < a.tokens; ++place) {
          const Index token = row / in_sequence * a.sequence_length + (row % in_sequence - back) * a.tokens + place;
          const Index from = a.overlaps && back == 0 ? columns + column : column;
          const double weight = std::exp(x(token, width + from) + bias(place, from));
          weights += weight;
          sum += weight * x(token, from);
        }
      out(row, column) = sum / weights;
    }
  return out;
}

// A key that a query sees: an operand after the queries, and a row of it.
struct SeenKey {
  std::size_t operand = 0;  // 0: of tokens; 1: compressed entries
  Index row = 0;
};

// `chosen`: the entries that each query sees, where it does not see all.
std::vector<SeenKey> seen_by(const model::AttentionAttributes& a, Index query, const Matrix* chosen) {
  const Index place = query % a.sequence_length, sequence = query / a.sequence_length;
  const Index entries = a.compression > 0 ? std::max<Index>(1, a.sequence_length / a.compression) : 0;
  std::vector<SeenKey> seen;
  for (Index s = a.window > 0 ? std::max<Index>(0, place - a.window + 1) : 0; s <= place; ++s)
    seen.push_back({0, sequence * a.sequence_length + s});
  for (Index i = 0; i < entries && (i + 1) * a.compression <= place + 1; ++i)
    if (chosen == nullptr || (chosen->row(query).array() == static_cast<double>(i)).any())
      seen.push_back({1, sequence * entries + i});
  return seen;
}

double score_factor(const model::AttentionAttributes& a) { return 1 / std::sqrt(static_cast<double>(a.query_key_dim)); }

std::size_t keys_of(const model::AttentionAttributes& a) { return a.compression > 0 ? 2 : 1; }

// The last operand, if entries are chosen.
const Matrix* chosen_of(const Call& call, const model::AttentionAttributes& a) {
  return a.chosen > 0 ? &call.in(call.ins() - 1) : nullptr;
}

// Returns the sum of a row's streams and, where there are logits for them, the weights. The logits are scaled.
Matrix mixed_row(Index n, const Matrix& logits, const Matrix& x) {
  const Index columns = x.cols() / n, weights = logits.cols() - n;
  Matrix out = Matrix::Zero(1, columns + weights);
  for (Index i = 0; i < n; ++i) out.leftCols(columns) += sigmoid_of(logits(0, i)) * x.middleCols(i * columns, columns);
  if (weights == 0) return out;
  for (Index i = 0; i < n; ++i) out(0, columns + i) = 2 * sigmoid_of(logits(0, n + i));
  Matrix mix(n, n);
  for (Index i = 0; i < n * n; ++i) mix.data()[i] = std::exp(logits(0, 2 * n + i));
  for (int iteration = 0; iteration < 5; ++iteration) {
    for (Index i = 0; i < n; ++i) mix.row(i) /= mix.row(i).sum();
    for (Index i = 0; i < n; ++i) mix.col(i) /= mix.col(i).sum();
  }
  for (Index i = 0; i < n * n; ++i) out(0, columns + n + i) = mix.data()[i];
  return out;
}

double inverse_norm(const model::StreamAttributes& a, const Matrix& x, Index row) {
  return 1 / std::sqrt(x.row(row).squaredNorm() / static_cast<double>(x.cols()) + a.epsilon);
}

// Logits of reading the streams, of adding to them and of mixing them have a scale each.
Index part_of(Index n, Index logit) { return std::min<Index>(2, logit / n); }

// Operands: streams, logits, scales, biases.
Matrix scaled_logits(const model::StreamAttributes& a, const std::vector<Matrix>& operands, Index row) {
  Matrix scaled = operands[1].row(row) * inverse_norm(a, operands[0], row);
  for (Index i = 0; i < scaled.cols(); ++i)
    scaled(0, i) = scaled(0, i) * operands[2](part_of(a.streams, i)) + operands[3](i);
  return scaled;
}

// Operands: what is added, streams, weights.
Matrix added_of(const model::StreamAttributes& a, const std::vector<Matrix>& operands) {
  const Matrix &y = operands[0], &x = operands[1], &weights = operands[2];
  const Index n = a.streams, columns = y.cols();
  Matrix out = Matrix::Zero(x.rows(), x.cols());
  for (Index t = 0; t < x.rows(); ++t)
    for (Index i = 0; i < n; ++i) {
      auto stream = out.row(t).segment(i * columns, columns);
      stream += weights(t, i) * y.row(t);
      for (Index j = 0; j < n; ++j) stream += weights(t, n + i * n + j) * x.row(t).segment(j * columns, columns);
    }
  return out;
}

}  // namespace

void compress_tokens(Call& call) {
  if (call.outs() > 1) refuse();
  call.out(0) = entries_of(call.attributes<model::CompressionAttributes>(), call.out_tensor(0).shape[1].size,
                           operands_from(call, 0, call.ins()));
}

void compress_tokens_grad(Call& call) {
  const auto& a = call.attributes<model::CompressionAttributes>();
  const Index columns = call.in(0).cols();
  const auto function = [&a, columns](const std::vector<Matrix>& x) { return entries_of(a, columns, x); };
  const std::vector<Matrix> operands = operands_from(call, 1, call.ins());
  call.out(0) = slopes(call.in(0), operands, 0, function);
  if (call.outs() > 1) call.out(1) += slopes(call.in(0), operands, 1, function);
}

// Operands: queries, keys of tokens, compressed entries and chosen ones where there are any.
void compressed_attention(Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  const std::vector<Matrix> keys = operands_from(call, 1, 1 + keys_of(a));
  const Index d = a.query_key_dim;
  for (std::size_t i = 0; i < 2; ++i) call.out(i) = zeros(call.out_tensor(i));
  for (Index t = 0; t < call.in(0).rows(); ++t)
    for (Index h = 0; h < a.query_heads; ++h) {
      auto out = call.out(0).row(t).segment(h * d, d);
      double sum = 0;
      for (const auto& [operand, row] : seen_by(a, t, chosen_of(call, a))) {
        const auto key = keys[operand].row(row);
        const double weight = std::exp(key.dot(call.in(0).row(t).segment(h * d, d)) * score_factor(a));
        sum += weight;
        out += weight * key;
      }
      out /= sum;
      call.out(1)(t, h) = std::log(sum);
    }
}

// The kernel's formulas: with weights w of keys and values k, ds = w (do k - do o), dk = ds q + w do, dq = sum of ds k.
void compressed_attention_grad(Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  const std::size_t count = keys_of(a);
  const std::vector<Matrix> keys = operands_from(call, 2, 2 + count);
  const Matrix &dout = call.in(0), &q = call.in(1), &o = call.in(2 + count), &log_sums = call.in(3 + count);
  const Index d = a.query_key_dim;
  for (std::size_t i = 0; i <= count; ++i) call.out(i) = Matrix::Zero(call.in(1 + i).rows(), call.in(1 + i).cols());
  for (Index t = 0; t < q.rows(); ++t)
    for (Index h = 0; h < a.query_heads; ++h) {
      const auto query = q.row(t).segment(h * d, d), d_out = dout.row(t).segment(h * d, d);
      const double through = d_out.dot(o.row(t).segment(h * d, d));
      for (const auto& [operand, row] : seen_by(a, t, chosen_of(call, a))) {
        const auto key = keys[operand].row(row);
        const double weight = std::exp(key.dot(query) * score_factor(a) - log_sums(t, h));
        const double d_score = weight * (d_out.dot(key) - through) * score_factor(a);
        call.out(0).row(t).segment(h * d, d) += d_score * key;
        call.out(1 + operand).row(row) += d_score * query + weight * d_out;
      }
    }
}

void cached_compressed_attention(Call&) { refuse(); }

void mix_streams(Call& call) {
  const auto& a = call.attributes<model::StreamAttributes>();
  const std::vector<Matrix> operands = operands_from(call, 0, call.ins());
  const Index columns = call.out_tensor(0).shape[1].size;
  for (std::size_t i = 0; i < call.outs(); ++i) call.out(i) = zeros(call.out_tensor(i));
  for (Index t = 0; t < operands[0].rows(); ++t) {
    const Matrix both = mixed_row(a.streams, scaled_logits(a, operands, t), operands[0].row(t));
    call.out(0).row(t) = both.leftCols(columns);
    if (call.outs() > 1) call.out(1).row(t) = both.rightCols(both.cols() - columns);
  }
}

// Gradients to scaled logits are differences, the others follow from them.
void mix_streams_grad(Call& call) {
  const auto& a = call.attributes<model::StreamAttributes>();
  constexpr std::size_t operand_count = 4;
  const std::size_t gradients = call.ins() - operand_count;
  const std::vector<Matrix> operands = operands_from(call, gradients, call.ins());
  const Matrix &x = operands[0], &logits = operands[1], &scales = operands[2];
  const Index columns = x.cols() / a.streams;
  for (std::size_t i = 0; i < 2; ++i) call.out(i) = Matrix::Zero(operands[i].rows(), operands[i].cols());
  for (Index t = 0; t < x.rows(); ++t) {
    Matrix d_both(1, columns + logits.cols() - a.streams);
    d_both.leftCols(columns) = call.in(0).row(t);
    if (gradients > 1) d_both.rightCols(call.in(1).cols()) = call.in(1).row(t);
    const Matrix scaled = scaled_logits(a, operands, t), row = x.row(t);
    const Matrix d_scaled = slopes(
        d_both, {scaled}, 0, [&](const std::vector<Matrix>& changed) { return mixed_row(a.streams, changed[0], row); });
    const double norm = inverse_norm(a, x, t);
    double d_norm = 0;
    for (Index i = 0; i < logits.cols(); ++i) {
      const Index part = part_of(a.streams, i);
      call.out(1)(t, i) = d_scaled(0, i) * norm * scales(part);
      if (call.outs() > 2) {
        call.out(2)(part) += d_scaled(0, i) * norm * logits(t, i);
        call.out(3)(i) += d_scaled(0, i);
      }
      d_norm += d_scaled(0, i) * scales(part) * logits(t, i);
    }
    call.out(0).row(t) = -d_norm * norm * norm * norm / static_cast<double>(x.cols()) * x.row(t);
    for (Index i = 0; i < a.streams; ++i)
      call.out(0).row(t).segment(i * columns, columns) += sigmoid_of(scaled(0, i)) * call.in(0).row(t);
  }
}

void add_to_streams(Call& call) {
  call.out(0) = added_of(call.attributes<model::StreamAttributes>(), operands_from(call, 0, call.ins()));
}

void add_to_streams_grad(Call& call) {
  const Index n = call.attributes<model::StreamAttributes>().streams;
  const Matrix &dout = call.in(0), &y = call.in(1), &x = call.in(2), &weights = call.in(3);
  const Index columns = y.cols();
  for (std::size_t i = 0; i < 3; ++i) call.out(i) = Matrix::Zero(call.in(i + 1).rows(), call.in(i + 1).cols());
  for (Index t = 0; t < y.rows(); ++t)
    for (Index i = 0; i < n; ++i) {
      const auto d_stream = dout.row(t).segment(i * columns, columns);
      call.out(0).row(t) += weights(t, i) * d_stream;
      call.out(2)(t, i) = d_stream.dot(y.row(t));
      for (Index j = 0; j < n; ++j) {
        const auto stream = x.row(t).segment(j * columns, columns);
        call.out(1).row(t).segment(j * columns, columns) += weights(t, n + i * n + j) * d_stream;
        call.out(2)(t, n + i * n + j) = d_stream.dot(stream);
      }
    }
}

}  // namespace plumbline::tests
