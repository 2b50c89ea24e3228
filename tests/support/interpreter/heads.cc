#include <cmath>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

// Rotates every pair of columns by its angle, times `direction`.
void rotate(Call& call, double direction) {
  const auto& a = call.attributes<model::RotaryAttributes>();
  const Matrix& x = call.in(0);
  const Index half = a.rope_dim / 2;
  call.out(0) = x;
  for (Index head = 0; head < a.heads; ++head)
    for (Index i = 0; i < half; ++i) {
      const Index first = (head + 1) * a.head_dim - a.rope_dim + i;
      const double frequency = std::pow(a.theta, -2.0 * static_cast<double>(i) / static_cast<double>(a.rope_dim));
      for (Index t = 0; t < x.rows(); ++t) {
        const double earlier = call.ins() > 1 ? call.in(1)(t / a.sequence_length) : 0;
        const double angle = direction * (earlier + static_cast<double>(t % a.sequence_length)) * frequency;
        call.out(0)(t, first) = x(t, first) * std::cos(angle) - x(t, first + half) * std::sin(angle);
        call.out(0)(t, first + half) = x(t, first + half) * std::cos(angle) + x(t, first) * std::sin(angle);
      }
    }
}

}  // namespace

void rotary(Call& call) { rotate(call, 1); }
void rotary_grad(Call& call) { rotate(call, -1); }

void assemble_heads(Call& call) {
  const auto& a = call.attributes<model::HeadsAttributes>();
  const Matrix &kv = call.in(0), &rotary_key = call.in(1);
  call.out(0).resize(kv.rows(), a.heads * (a.nope_dim + a.rope_dim));
  call.out(1).resize(kv.rows(), a.heads * a.value_dim);
  for (Index head = 0; head < a.heads; ++head) {
    const Index from = head * (a.nope_dim + a.value_dim), to = head * (a.nope_dim + a.rope_dim);
    call.out(0).middleCols(to, a.nope_dim) = kv.middleCols(from, a.nope_dim);
    call.out(0).middleCols(to + a.nope_dim, a.rope_dim) = rotary_key;
    call.out(1).middleCols(head * a.value_dim, a.value_dim) = kv.middleCols(from + a.nope_dim, a.value_dim);
  }
}

void assemble_heads_grad(Call& call) {
  const auto& a = call.attributes<model::HeadsAttributes>();
  const Matrix &dk = call.in(0), &dv = call.in(1);
  call.out(0).resize(dk.rows(), a.heads * (a.nope_dim + a.value_dim));
  call.out(1) = Matrix::Zero(dk.rows(), a.rope_dim);
  for (Index head = 0; head < a.heads; ++head) {
    const Index to = head * (a.nope_dim + a.value_dim), from = head * (a.nope_dim + a.rope_dim);
    call.out(0).middleCols(to, a.nope_dim) = dk.middleCols(from, a.nope_dim);
    call.out(0).middleCols(to + a.nope_dim, a.value_dim) = dv.middleCols(head * a.value_dim, a.value_dim);
    call.out(1) += dk.middleCols(from + a.nope_dim, a.rope_dim);
  }
}

}  // namespace plumbline::tests
