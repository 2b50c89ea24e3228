#include <cassert>
#include <cmath>

#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

constexpr Index figures = 3;  // per token, where ranks divide the vocabulary: see write_figures()

// Returns whether a token has a loss: it has a label and is not one of its sequence's last `ignored` tokens.
bool carries_loss(const model::LossAttributes& a, const HostBuffer& labels, Index t) {
  return labels.data()[t] >= 0 && t % a.sequence_length < a.sequence_length - a.ignored;
}

Index labeled_tokens(const model::LossAttributes& a, const HostBuffer& labels) {
  Index count = 0;
  for (Index t = 0; t < labels.rows(); ++t) count += carries_loss(a, labels, t) ? 1 : 0;
  return count;
}

// Returns the column of a token's label in this rank's part of the logits; -1 where another rank has it.
Index label_column(const Call& call, const HostBuffer& logits, const HostBuffer& labels, Index t) {
  const Index at = static_cast<Index>(labels.data()[t]) - call.kernel.tensor_rank * logits.columns();
  return at >= 0 && at < logits.columns() ? at : -1;
}

// Writes this rank's summands of three sums over the vocabulary: the exponentials, the label's logit, and 1 on the rank
// that has the label, for tokens with a loss.
void write_figures(const Call& call, const model::LossAttributes& a) {
  const HostBuffer &logits = call.in(0), &labels = call.in(1);
  each_row(call, logits.rows(), logits.columns(), [&](Index t) {
    const Index column = carries_loss(a, labels, t) ? label_column(call, logits, labels, t) : -1;
    ArrayMap of_token = row(call.out(1), t);
    of_token(0) = row(logits, t).exp().sum();
    of_token(1) = column >= 0 ? row(logits, t)(column) : 0;
    of_token(2) = column >= 0 ? 1 : 0;
  });
  call.out(0).data()[0] = 0;
}

}  // namespace

void cross_entropy(const Call& call) {
  const auto& a = call.attributes<model::LossAttributes>();
  const HostBuffer &logits = call.in(0), &labels = call.in(1);
  if (call.out(1).columns() == figures) {
    assert(call.outs() == 2 && "logarithms need the whole vocabulary");
    return write_figures(call, a);
  }
  HostBuffer& log_sum_exp = call.out(1);
  each_row(call, logits.rows(), logits.columns(), [&](Index t) {
    const float largest = row(logits, t).maxCoeff();
    log_sum_exp.data()[t] = largest + std::log((row(logits, t) - largest).exp().sum());
    if (call.outs() == 3) row(call.out(2), t) = row(logits, t) - log_sum_exp.data()[t];
  });
  // Logarithms may lie over the logits.
  const auto log_probability = [&](Index t) {
    const Index column = label_column(call, logits, labels, t);
    return call.outs() == 3 ? row(call.out(2), t)(column) : row(logits, t)(column) - log_sum_exp.data()[t];
  };
  double total = 0;
  for (Index t = 0; t < logits.rows(); ++t)
    if (carries_loss(a, labels, t)) total -= log_probability(t);
  const Index count = std::max<Index>(1, labeled_tokens(a, labels));
  call.out(0).data()[0] = static_cast<float>(a.weight * total / static_cast<double>(count));
}

void cross_entropy_grad(const Call& call) {
  const auto& a = call.attributes<model::LossAttributes>();
  const HostBuffer &logits = call.in(0), &labels = call.in(1);
  const bool are_logarithms = call.ins() == 2;
  const bool divided = !are_logarithms && call.in(2).columns() == figures;
  const Index count = std::max<Index>(1, labeled_tokens(a, labels));
  const auto scale = static_cast<float>(call.kernel.numbers.loss_scale * a.weight / static_cast<double>(count));
  const auto log_sum_exp = [&](Index t) {
    if (are_logarithms) return 0.0F;
    return divided ? std::log(row(call.in(2), t)(0)) : call.in(2).data()[t];
  };
  each_row(call, logits.rows(), logits.columns(), [&](Index t) {
    ArrayMap d = row(call.out(0), t);
    if (!carries_loss(a, labels, t)) {
      d.setZero();
      return;
    }
    d = scale * (row(logits, t) - log_sum_exp(t)).exp();
    if (const Index column = label_column(call, logits, labels, t); column >= 0) d(column) -= scale;
  });
}

}  // namespace plumbline::real::host
