#include <cmath>
#include <numbers>
#include <unsupported/Eigen/SpecialFunctions>

#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Returns the weight of row i; 1 where the operator has no weights.
float row_weight(const Call& call, std::size_t operand, Index i) {
  return operand < call.ins() ? call.in(operand).data()[i] : 1;
}

auto normal_distribution(const auto& x) { return 0.5F * (1 + (x * static_cast<float>(1 / std::numbers::sqrt2)).erf()); }

// The width and the number of the rows that are normalized: the rows of x, or the heads in them.
struct NormShape {
  Index width, rows;
};
NormShape shape_of(const HostBuffer& x, const model::NormAttributes& a) {
  return {x.columns() / a.heads, x.rows() * a.heads};
}

// Returns the mean that a norm subtracts, 0 without centering (RMSNorm), and 1 / the root of the mean square around it.
struct Moments {
  float mean, scale;
};
Moments moments(const ConstArrayMap& x, double epsilon, bool centered) {
  const float mean = centered ? x.mean() : 0;
  return {mean, 1 / std::sqrt((x - mean).square().mean() + static_cast<float>(epsilon))};
}

void norm(const Call& call, bool centered) {
  const auto& a = call.attributes<model::NormAttributes>();
  const HostBuffer& x = call.in(0);
  HostBuffer& y = shaped(call.out(0), x.rows());
  const ConstArrayMap gamma = call.in(1).array();
  const NormShape shape = shape_of(x, a);
  each_row(call, shape.rows, shape.width, [&](Index i) {
    const Moments m = moments(row(x, i, shape.width), a.epsilon, centered);
    row(y, i, shape.width) = (row(x, i, shape.width) - m.mean) * m.scale * gamma;
    if (call.ins() > 2) row(y, i, shape.width) += call.in(2).array();
  });
}

void norm_grad(const Call& call, bool centered) {
  const auto& a = call.attributes<model::NormAttributes>();
  const HostBuffer &dy = call.in(0), &x = call.in(1);
  HostBuffer& dx = shaped(call.out(0), x.rows());
  const ConstArrayMap gamma = call.in(2).array();
  const NormShape shape = shape_of(x, a);
  const Index width = shape.width;
  const auto of_rows = [&](Index begin, Index end, float* sums) {
    ArrayMap d_gamma(sums, width);
    for (Index i = begin; i < end; ++i) {
      const auto d = row(dy, i, width), from = row(x, i, width);
      const Moments m = moments(from, a.epsilon, centered);
      const float mean = centered ? (d * gamma).mean() : 0;
      const float along = (d * gamma * (from - m.mean)).mean() * m.scale * m.scale;
      row(dx, i, width) = m.scale * (d * gamma - mean - along * (from - m.mean));
      d_gamma += d * (from - m.mean) * m.scale;
      if (centered) ArrayMap(sums + width, width) += d;
    }
  };
  sum_rows(call, shape.rows, centered ? 2 * width : width, of_rows, [&](const float* sums) {
    call.out(1).array() += ConstArrayMap(sums, width);
    if (call.outs() > 2) call.out(2).array() += ConstArrayMap(sums + width, width);
  });
}

// The cosines and sines of positions, [position, rope_dim / 2] each. A thread keeps the last table, because all layers
// of a model use the same.
struct Angles {
  Index positions = 0, half = 0;
  double theta = 0;
  std::vector<float> cosines, sines;

  void fit(const model::RotaryAttributes& a, Index needed) {
    const bool same = half == a.rope_dim / 2 && theta == a.theta;
    if (same && positions >= needed) return;
    // Sequences that grow token by token seldom need a new table; models that take turns must not double each other's.
    positions = same ? std::max(needed, 2 * positions) : needed;
    half = a.rope_dim / 2;
    theta = a.theta;
    cosines.clear();
    sines.clear();
    for (Index t = 0; t < positions; ++t)
      for (Index i = 0; i < half; ++i) {
        const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(a.rope_dim));
        cosines.push_back(static_cast<float>(std::cos(static_cast<double>(t) * frequency)));
        sines.push_back(static_cast<float>(std::sin(static_cast<double>(t) * frequency)));
      }
  }
};

// Rotates every pair of columns by its angle times `direction`.
void rotate(const Call& call, float direction) {
  const auto& a = call.attributes<model::RotaryAttributes>();
  thread_local Angles of_thread;
  Angles& angles = of_thread;  // of the calling thread, also where other cores read it
  const HostBuffer& x = call.in(0);
  const HostBuffer* const lengths = call.ins() > 1 ? &call.in(1) : nullptr;
  angles.fit(a, a.sequence_length + (lengths ? static_cast<Index>(lengths->array().maxCoeff()) : 0));
  HostBuffer& y = call.out(0);
  each_row(call, x.rows(), x.columns(), [&](Index t) {
    const Index at = position(t, a.sequence_length, lengths) * angles.half;
    const ConstArrayMap cosine(angles.cosines.data() + at, angles.half), sine(angles.sines.data() + at, angles.half);
    for (Index head = 0; head < a.heads; ++head) {
      const auto from = row(x, t).segment(head * a.head_dim, a.head_dim);
      auto to = row(y, t).segment(head * a.head_dim, a.head_dim);
      const auto first = from.segment(a.head_dim - a.rope_dim, angles.half), second = from.tail(angles.half);
      to.head(a.head_dim - a.rope_dim) = from.head(a.head_dim - a.rope_dim);
      to.segment(a.head_dim - a.rope_dim, angles.half) = first * cosine - direction * second * sine;
      to.tail(angles.half) = second * cosine + direction * first * sine;
    }
  });
}

}  // namespace

// Copies the values; run() rounds them.
void cast(const Call& call) {
  const HostBuffer& x = call.in(0);
  HostBuffer& y = shaped(call.out(0), x.rows());
  split(call, x.size(), 1,
        [&](Index begin, Index end) { std::copy(x.data() + begin, x.data() + end, y.data() + begin); });
}

void add(const Call& call) {
  HostBuffer& sum = shaped(call.out(0), call.in(0).rows());
  each_row(call, sum.rows(), sum.columns() * static_cast<Index>(call.ins()), [&](Index i) {
    if (call.ins() == 1) row(sum, i) = row(call.in(0), i);
    if (call.ins() > 1) row(sum, i) = row(call.in(0), i) + row(call.in(1), i);
    for (std::size_t other = 2; other < call.ins(); ++other) row(sum, i) += row(call.in(other), i);
  });
}

void add_bias(const Call& call) {
  const HostBuffer& y = call.in(0);
  HostBuffer& sum = shaped(call.out(0), y.rows());
  each_row(call, y.rows(), y.columns(), [&](Index i) { row(sum, i) = row(y, i) + call.in(1).array(); });
}

void column_sum(const Call& call) {
  const HostBuffer& dy = call.in(0);
  const auto of_rows = [&](Index begin, Index end, float* sums) {
    for (Index i = begin; i < end; ++i) ArrayMap(sums, dy.columns()) += row(dy, i);
  };
  sum_rows(call, dy.rows(), dy.columns(), of_rows,
           [&](const float* sums) { call.out(0).array() += ConstArrayMap(sums, dy.columns()); });
}

void sigmoid_gate(const Call& call) {
  const HostBuffer &y = call.in(0), &gate = call.in(1);
  HostBuffer& out = shaped(call.out(0), y.rows());
  each_row(call, y.rows(), y.columns(), [&](Index i) { row(out, i) = row(y, i) * sigmoid(gate.data()[i]); });
}

void sigmoid_gate_grad(const Call& call) {
  const HostBuffer &d_out = call.in(0), &y = call.in(1), &gate = call.in(2);
  HostBuffer &dy = shaped(call.out(0), y.rows()), &d_gate = shaped(call.out(1), y.rows());
  each_row(call, y.rows(), y.columns(), [&](Index i) {
    const float s = sigmoid(gate.data()[i]);
    row(dy, i) = row(d_out, i) * s;
    d_gate.data()[i] = (row(d_out, i) * row(y, i)).sum() * s * (1 - s);
  });
}

void swiglu(const Call& call) {
  const HostBuffer& gate_up = call.in(0);
  HostBuffer& out = shaped(call.out(0), gate_up.rows());
  const Index width = gate_up.columns() / 2;
  each_row(call, gate_up.rows(), gate_up.columns(), [&](Index i) {
    const auto gate = row(gate_up, i).head(width), up = row(gate_up, i).tail(width);
    row(out, i) = row_weight(call, 1, i) * gate * up / (1 + (-gate).exp());
  });
}

// Stores the sigmoid temporarily in the memory of the gate's gradient.
void swiglu_grad(const Call& call) {
  const HostBuffer &d_hidden = call.in(0), &gate_up = call.in(1);
  HostBuffer& d_gate_up = shaped(call.out(0), gate_up.rows());
  if (call.outs() > 1) shaped(call.out(1), gate_up.rows());
  const Index width = gate_up.columns() / 2;
  each_row(call, gate_up.rows(), gate_up.columns(), [&](Index i) {
    const auto d = row(d_hidden, i), line = row(gate_up, i);
    const auto gate = line.head(width), up = line.tail(width);
    ArrayMap d_gate(d_gate_up.data() + i * 2 * width, width), d_up(d_gate_up.data() + (i * 2 + 1) * width, width);
    const float weight = row_weight(call, 2, i);
    d_gate = 1 / (1 + (-gate).exp());
    d_up = d * gate * d_gate;
    if (call.outs() > 1) call.out(1).data()[i] = (d_up * up).sum();
    d_up *= weight;
    d_gate = weight * d * up * d_gate * (1 + gate * (1 - d_gate));
  });
}

void gelu(const Call& call) {
  const HostBuffer& x = call.in(0);
  HostBuffer& y = shaped(call.out(0), x.rows());
  each_row(call, x.rows(), x.columns(), [&](Index i) { row(y, i) = row(x, i) * normal_distribution(row(x, i)); });
}

void gelu_grad(const Call& call) {
  const HostBuffer &dy = call.in(0), &x = call.in(1);
  HostBuffer& dx = shaped(call.out(0), x.rows());
  const auto density_at_0 = static_cast<float>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  each_row(call, x.rows(), x.columns(), [&](Index i) {
    const auto from = row(x, i);
    row(dx, i) = row(dy, i) * (normal_distribution(from) + from * density_at_0 * (-0.5F * from.square()).exp());
  });
}

void rmsnorm(const Call& call) { norm(call, false); }
void rmsnorm_grad(const Call& call) { norm_grad(call, false); }
void layernorm(const Call& call) { norm(call, true); }
void layernorm_grad(const Call& call) { norm_grad(call, true); }

void rotary(const Call& call) { rotate(call, 1); }
void rotary_grad(const Call& call) { rotate(call, -1); }

}  // namespace plumbline::real::host
