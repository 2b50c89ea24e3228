#include <cmath>

#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

// The number of elements that are processed at a time, so that outputs stay in the first-level cache until they are
// read again. A piece is summed in FP32, the sums of pieces in double precision.
constexpr Index piece = 1024;

Index pieces(const HostBuffer& buffer) { return (buffer.size() + piece - 1) / piece; }

// Calls body(first element, count) for all pieces, on the cores of the stream.
template <class Body>
void for_pieces(const Call& call, const HostBuffer& buffer, const Body& body) {
  each_row(call, pieces(buffer), piece, [&](Index i) { body(i * piece, std::min(piece, buffer.size() - i * piece)); });
}

ArrayMap at(HostBuffer& buffer, Index first, Index count) { return {buffer.data() + first, count}; }
ConstArrayMap at(const HostBuffer& buffer, Index first, Index count) { return {buffer.data() + first, count}; }

double squares(const Call& call, const HostBuffer& x) {
  float* const sums = scratch<Scratch::sums>(pieces(x));
  for_pieces(call, x, [&](Index first, Index count) { sums[first / piece] = at(x, first, count).square().sum(); });
  double total = 0;
  for (Index i = 0; i < pieces(x); ++i) total += sums[i];
  return total;
}

}  // namespace

void sum_of_squares(const Call& call) {
  double total = 0;
  for (std::size_t i = 0; i < call.ins(); ++i) {
    const double weight = call.kernel.weights.empty() ? 1 : call.kernel.weights[i];
    total += weight * squares(call, call.in(i));
  }
  call.out(0).data()[0] = static_cast<float>(total);
}

void unscale(const Call& call) {
  const float factor = 1 / call.in(call.ins() - 1).data()[0];
  float* const found = call.out(call.outs() - 1).data();
  *found = 0;
  for (std::size_t i = 0; i + 1 < call.ins(); ++i) {
    const HostBuffer& gradient = call.in(i);
    if (!gradient.array().isFinite().all()) *found = 1;
    for_pieces(call, gradient,
               [&](Index first, Index count) { at(call.out(i), first, count) = at(gradient, first, count) * factor; });
  }
}

void adamw(const Call& call) {
  const auto& a = call.attributes<model::AdamwAttributes>();
  const StepNumbers& numbers = call.kernel.numbers;
  const double rate = numbers.learning_rate >= 0 ? numbers.learning_rate : a.learning_rate;
  const auto step = static_cast<double>(numbers.step);
  const double norm = call.ins() > 1 ? std::sqrt(static_cast<double>(call.in(1).data()[0])) : 0;
  const auto clip = static_cast<float>(norm > a.largest_norm ? a.largest_norm / norm : 1);
  const bool has_master = call.outs() == 4;
  HostBuffer &master = call.out(has_master ? 1 : 0), &first_moment = call.out(call.outs() - 2);
  HostBuffer& second_moment = call.out(call.outs() - 1);
  const auto beta1 = static_cast<float>(a.beta1), beta2 = static_cast<float>(a.beta2);
  const auto first_rest = static_cast<float>(1 - a.beta1), second_rest = static_cast<float>(1 - a.beta2);
  // AdamW's m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon), expanded by sqrt(1 - beta2^t).
  const double root = std::sqrt(1 - std::pow(a.beta2, step));
  const auto size = static_cast<float>(rate * root / (1 - std::pow(a.beta1, step)));
  const auto epsilon = static_cast<float>(a.epsilon * root);
  const auto kept = static_cast<float>(1 - rate * a.weight_decay);
  for_pieces(call, master, [&](Index from, Index count) {
    const auto gradient = clip * at(call.in(0), from, count);
    ArrayMap m = at(first_moment, from, count), v = at(second_moment, from, count), w = at(master, from, count);
    m = beta1 * m + first_rest * gradient;
    v = beta2 * v + second_rest * gradient.square();
    w = kept * w - size * m / (v.sqrt() + epsilon);
    if (has_master) at(call.out(0), from, count) = w;
  });
}

}  // namespace plumbline::real::host
