#include <cmath>
#include <limits>

#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();

void score(const ConstArrayMap& logits, model::ScoreFunction function, ArrayMap scores) {
  if (function == model::ScoreFunction::sigmoid) {
    scores = 1 / (1 + (-logits).exp());
  } else {
    scores = (logits - logits.maxCoeff()).exp();
    scores /= scores.sum();
  }
}

// Returns the index of the largest value that is not taken; the first of equal or incomparable (NaN) values.
template <class Taken>
Index take_largest(ArrayMap values, const Taken& is_taken) {
  Index best = 0;
  while (is_taken(best)) ++best;
  for (Index i = best + 1; i < values.size(); ++i)
    if (values(i) > values(best) && !is_taken(i)) best = i;
  return best;
}

// Chooses the experts of one token: the best ones in its best groups. Uses experts + 2 * groups floats of memory.
class Chooser {
 public:
  Chooser(const model::RouterAttributes& a, float* memory)
      : a_(a),
        biased_(memory, a.experts),
        groups_(memory + a.experts, a.groups),
        taken_(groups_.data() + a.groups, a.groups) {}

  void choose(const ArrayMap& scores, const ConstArrayMap& bias, ArrayMap chosen) {
    biased_ = scores + bias;
    if (a_.groups > 1) keep_best_groups();
    for (Index slot = 0; slot < chosen.size(); ++slot) {
      const auto before = [&](Index expert) { return (chosen.head(slot) == static_cast<float>(expert)).any(); };
      chosen(slot) = static_cast<float>(take_largest(biased_, before));
    }
  }

 private:
  // A group's score is the sum of its best experts' scores; experts of the other groups get the lowest score.
  void keep_best_groups() {
    const Index width = a_.experts / a_.groups;
    for (Index group = 0; group < a_.groups; ++group) groups_(group) = sum_of_best(group * width, width);
    taken_.setZero();
    for (Index i = 0; i < a_.groups_per_token; ++i)
      taken_(take_largest(groups_, [&](Index group) { return taken_(group) > 0; })) = 1;
    for (Index group = 0; group < a_.groups; ++group)
      if (taken_(group) == 0) biased_.segment(group * width, width).setConstant(lowest);
  }

  float sum_of_best(Index from, Index width) const {
    if (a_.group_score_experts == 1) return biased_.segment(from, width).maxCoeff();
    // The n-th best is the largest at or below the previous one; each position counts once.
    float sum = 0, last = std::numeric_limits<float>::infinity();
    Index last_place = -1;
    for (int n = 0; n < a_.group_score_experts; ++n) {
      float best = lowest;
      Index place = -1;
      for (Index i = from; i < from + width; ++i) {
        const bool left = biased_(i) < last || (biased_(i) == last && i > last_place);
        if (left && (place < 0 || biased_(i) > best)) best = biased_(place = i);
      }
      sum += best;
      last = best;
      last_place = place;
    }
    return sum;
  }

  const model::RouterAttributes& a_;
  ArrayMap biased_, groups_, taken_;
};

}  // namespace

void router(const Call& call) {
  const auto& a = call.attributes<model::RouterAttributes>();
  const HostBuffer& logits = call.in(0);
  HostBuffer &indices = call.out(0), &weights = call.out(1);
  split(call, logits.rows(), a.experts * a.experts_per_token, [&](Index begin, Index end) {
    float* const memory = scratch<Scratch::tokens>(2 * a.experts + 2 * a.groups);
    ArrayMap scores(memory, a.experts);
    Chooser chooser(a, memory + a.experts);
    for (Index t = begin; t < end; ++t) {
      score(row(logits, t), a.score, scores);
      chooser.choose(scores, call.in(1).array(), row(indices, t));
      for (Index slot = 0; slot < a.experts_per_token; ++slot)
        row(weights, t)(slot) = scores(static_cast<Index>(row(indices, t)(slot)));
      const float total = a.normalize ? row(weights, t).sum() : 1;
      row(weights, t) *= static_cast<float>(a.scaling_factor) / total;
    }
  });
  if (call.outs() < 3) return;
  for (const float expert : indices.array()) ++call.out(2).data()[static_cast<Index>(expert)];
}

void router_grad(const Call& call) {
  const auto& a = call.attributes<model::RouterAttributes>();
  const HostBuffer &d_weights = call.in(0), &logits = call.in(1), &indices = call.in(2);
  split(call, logits.rows(), a.experts, [&](Index begin, Index end) {
    float* const memory = scratch<Scratch::tokens>(a.experts + a.experts_per_token);
    ArrayMap scores(memory, a.experts), chosen(memory + a.experts, a.experts_per_token);
    for (Index t = begin; t < end; ++t) {
      score(row(logits, t), a.score, scores);
      const auto expert = [&](Index slot) { return static_cast<Index>(row(indices, t)(slot)); };
      for (Index slot = 0; slot < chosen.size(); ++slot) chosen(slot) = scores(expert(slot));
      // The gradients of the chosen scores follow from those of the weights; normalization couples all weights.
      const auto d = row(d_weights, t);
      const float total = a.normalize ? chosen.sum() : 1;
      const float shift = a.normalize ? (d * chosen).sum() / total : 0;
      chosen = static_cast<float>(a.scaling_factor) * (d - shift) / total;
      ArrayMap d_logits = row(call.out(0), t);
      d_logits.setZero();
      for (Index slot = 0; slot < chosen.size(); ++slot) d_logits(expert(slot)) = chosen(slot);
      if (a.score == model::ScoreFunction::sigmoid) {
        d_logits *= scores * (1 - scores);
      } else {
        const float inner = (d_logits * scores).sum();
        d_logits = scores * (d_logits - inner);
      }
    }
  });
}

}  // namespace plumbline::real::host
