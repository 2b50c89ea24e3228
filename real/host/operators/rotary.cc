#include <cmath>

#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

// The cosines and sines of positions, [position, rope_dim / 2] each. A thread keeps the last table, because all layers
// of a model use the same.
struct Angles {
  Index positions = 0, half = 0;
  double theta = 0;
  std::vector<float> cosines, sines;

  void fit(const model::RotaryAttributes& a, Index needed) {
    if (positions >= needed && half == a.rope_dim / 2 && theta == a.theta) return;
    positions = std::max(needed, 2 * positions);
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
  split(call, x.rows(), x.columns(), [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
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
    }
  });
}

}  // namespace

void rotary(const Call& call) { rotate(call, 1); }
void rotary_grad(const Call& call) { rotate(call, -1); }

}  // namespace plumbline::real::host
