#include <cmath>

#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

float inverse_root(float mean_square, double epsilon) {
  return 1 / std::sqrt(mean_square + static_cast<float>(epsilon));
}

// The width and the number of the rows that are normalized: the rows of x, or the heads in them.
struct NormShape {
  Index width, rows;
};
NormShape shape_of(const HostBuffer& x, const model::NormAttributes& a) {
  return {x.columns() / a.heads, x.rows() * a.heads};
}

// The moments of one row of a layer norm.
struct Moments {
  float mean, scale;  // scale: 1 / deviation
};
Moments moments(const ConstArrayMap& x, double epsilon) {
  const float mean = x.mean();
  return {mean, inverse_root((x - mean).square().mean(), epsilon)};
}

}  // namespace

void rmsnorm(const Call& call) {
  const auto& a = call.attributes<model::NormAttributes>();
  const HostBuffer& x = call.in(0);
  HostBuffer& y = shaped(call.out(0), x.rows());
  const ConstArrayMap gamma = call.in(1).array();
  const NormShape shape = shape_of(x, a);
  split(call, shape.rows, shape.width, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto from = row(x, i, shape.width);
      row(y, i, shape.width) = from * inverse_root(from.square().mean(), a.epsilon) * gamma;
    }
  });
}

void rmsnorm_grad(const Call& call) {
  const auto& a = call.attributes<model::NormAttributes>();
  const HostBuffer &dy = call.in(0), &x = call.in(1);
  HostBuffer& dx = shaped(call.out(0), x.rows());
  const ConstArrayMap gamma = call.in(2).array();
  const NormShape shape = shape_of(x, a);
  const auto of_rows = [&](Index begin, Index end, float* sums) {
    ArrayMap d_gamma(sums, shape.width);
    for (Index i = begin; i < end; ++i) {
      const auto d = row(dy, i, shape.width), from = row(x, i, shape.width);
      const float scale = inverse_root(from.square().mean(), a.epsilon);
      const float along = (d * gamma * from).mean() * scale * scale;
      row(dx, i, shape.width) = scale * (d * gamma - along * from);
      d_gamma += d * from * scale;
    }
  };
  sum_rows(call, shape.rows, shape.width, of_rows,
           [&](const float* sums) { call.out(1).array() += ConstArrayMap(sums, shape.width); });
}

void layernorm(const Call& call) {
  const double epsilon = call.attributes<model::NormAttributes>().epsilon;
  const HostBuffer& x = call.in(0);
  HostBuffer& y = shaped(call.out(0), x.rows());
  const ConstArrayMap gamma = call.in(1).array();
  split(call, x.rows(), x.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Moments m = moments(row(x, i), epsilon);
      row(y, i) = (row(x, i) - m.mean) * m.scale * gamma;
      if (call.ins() > 2) row(y, i) += call.in(2).array();
    }
  });
}

void layernorm_grad(const Call& call) {
  const double epsilon = call.attributes<model::NormAttributes>().epsilon;
  const HostBuffer &dy = call.in(0), &x = call.in(1);
  HostBuffer& dx = shaped(call.out(0), x.rows());
  const ConstArrayMap gamma = call.in(2).array();
  const Index width = x.columns();
  const auto of_rows = [&](Index begin, Index end, float* sums) {
    ArrayMap d_gamma(sums, width), d_beta(sums + width, width);
    for (Index i = begin; i < end; ++i) {
      const auto d = row(dy, i), from = row(x, i);
      const Moments m = moments(from, epsilon);
      const float mean = (d * gamma).mean();
      const float along = (d * gamma * (from - m.mean)).mean() * m.scale * m.scale;
      row(dx, i) = m.scale * (d * gamma - mean - along * (from - m.mean));
      d_gamma += d * (from - m.mean) * m.scale;
      d_beta += d;
    }
  };
  sum_rows(call, x.rows(), 2 * width, of_rows, [&](const float* sums) {
    call.out(1).array() += ConstArrayMap(sums, width);
    if (call.outs() > 2) call.out(2).array() += ConstArrayMap(sums + width, width);
  });
}

}  // namespace plumbline::real::host
