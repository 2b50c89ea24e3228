// Attention to keys of runs of tokens, and several residual streams. Gradients are differences.
#include <algorithm>
#include <cmath>

#include "tests/support/interpreter/operators.h"
#include "tests/support/interpreter/slopes.h"

namespace plumbline::tests {
namespace {

// Operands: projections [T,2n], bias [r,n]. The first run of a sequence has no run before it.
Matrix runs_of(const model::RunAttributes& a, Index columns, const std::vector<Matrix>& operands) {
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

// Operands: queries, keys of tokens, keys of runs where there are any.
Matrix seen_of(const model::AttentionAttributes& a, const std::vector<Matrix>& operands, Matrix& log_sums) {
  const Matrix &q = operands[0], &key = operands[1];
  const Index d = a.query_key_dim, runs = a.run > 0 ? std::max<Index>(1, a.sequence_length / a.run) : 0;
  Matrix out = Matrix::Zero(q.rows(), q.cols());
  log_sums = Matrix::Zero(q.rows(), a.query_heads);
  for (Index t = 0; t < q.rows(); ++t) {
    const Index place = t % a.sequence_length, sequence = t / a.sequence_length;
    std::vector<Eigen::RowVectorXd> seen;
    for (Index s = a.window > 0 ? std::max<Index>(0, place - a.window + 1) : 0; s <= place; ++s)
      seen.push_back(key.row(sequence * a.sequence_length + s));
    for (Index run = 0; run < runs && (run + 1) * a.run <= place + 1; ++run)
      seen.push_back(operands[2].row(sequence * runs + run));
    for (Index h = 0; h < a.query_heads; ++h) {
      double sum = 0;
      for (const Eigen::RowVectorXd& one : seen) {
        const double weight = std::exp(one.dot(q.row(t).segment(h * d, d)) / std::sqrt(static_cast<double>(d)));
        sum += weight;
        out.row(t).segment(h * d, d) += weight * one;
      }
      out.row(t).segment(h * d, d) /= sum;
      log_sums(t, h) = std::log(sum);
    }
  }
  return out;
}

std::size_t keys_of(const model::AttentionAttributes& a) {
  if (a.chosen > 0) refuse();
  return a.run > 0 ? 2 : 1;
}

// Operands: streams, logits, scales, biases. Returns the sum and, where there are logits for them, the weights.
Matrix mixed_of(const model::StreamAttributes& a, const std::vector<Matrix>& operands) {
  const Matrix &x = operands[0], &logits = operands[1];
  const Index n = a.streams, columns = x.cols() / n, weights = logits.cols() - n;
  Matrix out = Matrix::Zero(x.rows(), columns + weights);
  for (Index t = 0; t < x.rows(); ++t) {
    const double scale = 1 / std::sqrt(x.row(t).squaredNorm() / static_cast<double>(x.cols()) + a.epsilon);
    const auto logit = [&](Index i, Index part) { return logits(t, i) * scale * operands[2](part) + operands[3](i); };
    for (Index i = 0; i < n; ++i)
      out.row(t).head(columns) += sigmoid_of(logit(i, 0)) * x.row(t).segment(i * columns, columns);
    if (weights == 0) continue;
    for (Index i = 0; i < n; ++i) out(t, columns + i) = 2 * sigmoid_of(logit(n + i, 1));
    Matrix mix(n, n);
    for (Index i = 0; i < n * n; ++i) mix.data()[i] = std::exp(logit(2 * n + i, 2));
    for (int iteration = 0; iteration < 5; ++iteration) {
      mix = (mix.array().colwise() / mix.rowwise().sum().array()).matrix().eval();
      mix = (mix.array().rowwise() / mix.colwise().sum().array()).matrix().eval();
    }
    for (Index i = 0; i < n * n; ++i) out(t, columns + n + i) = mix.data()[i];
  }
  return out;
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
  call.out(0) = runs_of(call.attributes<model::RunAttributes>(), call.out_tensor(0).shape[1].size,
                        operands_from(call, 0, call.ins()));
}

void compress_tokens_grad(Call& call) {
  const auto& a = call.attributes<model::RunAttributes>();
  const Index columns = call.in(0).cols();
  const auto function = [&a, columns](const std::vector<Matrix>& x) { return runs_of(a, columns, x); };
  const std::vector<Matrix> operands = operands_from(call, 1, call.ins());
  call.out(0) = slopes(call.in(0), operands, 0, function);
  if (call.outs() > 1) call.out(1) += slopes(call.in(0), operands, 1, function);
}

void compressed_attention(Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  call.out(0) = seen_of(a, operands_from(call, 0, 1 + keys_of(a)), call.out(1));
}

void compressed_attention_grad(Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  const std::vector<Matrix> operands = operands_from(call, 1, 2 + keys_of(a));
  const auto function = [&a](const std::vector<Matrix>& x) {
    Matrix log_sums;
    return seen_of(a, x, log_sums);
  };
  for (std::size_t i = 0; i < operands.size(); ++i) call.out(i) = slopes(call.in(0), operands, i, function);
}

void cached_compressed_attention(Call&) { refuse(); }

void mix_streams(Call& call) {
  const Matrix both = mixed_of(call.attributes<model::StreamAttributes>(), operands_from(call, 0, call.ins()));
  const Index columns = call.out_tensor(0).shape[1].size;
  call.out(0) = both.leftCols(columns);
  if (call.outs() > 1) call.out(1) = both.rightCols(both.cols() - columns);
}

void mix_streams_grad(Call& call) {
  const auto& a = call.attributes<model::StreamAttributes>();
  constexpr std::size_t operand_count = 4;
  const std::size_t gradients = call.ins() - operand_count;
  Matrix d_both(call.in(0).rows(), call.in(0).cols() + (gradients > 1 ? call.in(1).cols() : 0));
  d_both.leftCols(call.in(0).cols()) = call.in(0);
  if (gradients > 1) d_both.rightCols(call.in(1).cols()) = call.in(1);
  const auto function = [&a](const std::vector<Matrix>& x) { return mixed_of(a, x); };
  for (std::size_t i = 0; i < 2; ++i)
    call.out(i) = Matrix::Zero(call.in(gradients + i).rows(), call.in(gradients + i).cols());
  for (Index t = 0; t < d_both.rows(); ++t) {  // rows depend on themselves alone
    std::vector<Matrix> operands = operands_from(call, gradients, call.ins());
    for (std::size_t i = 0; i < 2; ++i) operands[i] = Matrix(call.in(gradients + i).row(t));
    const Matrix d_row = d_both.row(t);
    for (std::size_t i = 0; i < call.outs(); ++i) {
      const Matrix slope = slopes(d_row, operands, i, function);
      if (i < 2)
        call.out(i).row(t) = slope;
      else
        call.out(i) += slope;
    }
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
