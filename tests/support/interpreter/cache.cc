#include <cmath>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

Index length(const Matrix& lengths, Index request) { return static_cast<Index>(lengths(request)); }

}  // namespace

void append_cache(Call& call) {
  const Matrix& lengths = call.in(0);
  Index column = 0;
  for (std::size_t i = 1; i < call.ins(); ++i) {
    const Matrix& rows = call.in(i);
    Matrix& cache = call.out(call.outs() == 1 ? 0 : i - 1);
    const Index fresh = rows.rows() / lengths.rows(), held = cache.rows() / lengths.rows();
    for (Index r = 0; r < lengths.rows(); ++r)
      cache.block(r * held + length(lengths, r), column, fresh, rows.cols()) = rows.middleRows(r * fresh, fresh);
    if (call.outs() == 1) column += rows.cols();
  }
}

void gather_cache(Call& call) {
  Index column = 0;
  for (std::size_t i = 0; i < call.outs(); ++i) {
    const Index width = call.out_tensor(i).shape[1].size;
    call.out(i) = call.in(0).middleCols(column, width);
    column += width;
  }
}

void cached_attention(Call& call) {
  const auto& a = call.attributes<model::CachedAttentionAttributes>();
  const Matrix &q = call.in(0), &lengths = call.in(1), &keys = call.in(2), &values = call.in(a.latent ? 2 : 3);
  const Index held = keys.rows() / a.requests, shared_by = a.query_heads / a.key_value_heads;
  call.out(0) = Matrix::Zero(q.rows(), a.query_heads * a.value_dim);
  for (Index t = 0; t < q.rows(); ++t) {
    const Index request = t / a.new_tokens, position = length(lengths, request) + t % a.new_tokens;
    const Index first = a.window > 0 ? std::max<Index>(0, position + 1 - a.window) : 0, seen = position + 1 - first;
    for (Index h = 0; h < a.query_heads; ++h) {
      const auto rows = [&](const Matrix& cache, Index width) {
        return cache.block(request * held + first, h / shared_by * width, seen, width);
      };
      Eigen::VectorXd scores =
          a.scale * rows(keys, a.query_key_dim) * q.block(t, h * a.query_key_dim, 1, a.query_key_dim).transpose();
      const double slope = std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(a.query_heads));
      for (Index s = 0; a.alibi && s < seen; ++s) scores(s) -= slope * static_cast<double>(seen - 1 - s);
      scores = scores.array().exp();
      call.out(0).block(t, h * a.value_dim, 1, a.value_dim) =
          scores.transpose() * rows(values, a.value_dim) / scores.sum();
    }
  }
}

void last_tokens(Call& call) {
  const Index requests = call.out_tensor(0).shape[0].size, each = call.in(0).rows() / requests;
  call.out(0).resize(requests, call.in(0).cols());
  for (Index r = 0; r < requests; ++r) call.out(0).row(r) = call.in(0).row((r + 1) * each - 1);
}

void sample(Call& call) {
  const Matrix& logits = call.in(0);
  const Index tokens = call.out_tensor(0).shape[0].size, parts = logits.rows() / tokens;
  call.out(0).resize(tokens, 1);
  for (Index t = 0; t < tokens; ++t) {
    double most = -INFINITY;
    for (Index part = 0; part < parts; ++part)
      for (Index v = 0; v < logits.cols(); ++v)
        if (logits(part * tokens + t, v) > most) {
          most = logits(part * tokens + t, v);
          call.out(0)(t) = static_cast<double>(part * logits.cols() + v);
        }
  }
}

}  // namespace plumbline::tests
