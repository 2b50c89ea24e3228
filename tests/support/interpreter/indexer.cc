// The indexer of sparse attention. Each of its choices is of one query, or of one query and group of heads. Of grouped
// queries it scores blocks of tokens and chooses all that there are.
#include "tests/support/interpreter/indexer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/integers.h"
#include "tests/support/interpreter/operators.h"
#include "tests/support/interpreter/slopes.h"

namespace plumbline::tests {
namespace {

constexpr double hidden = -INFINITY;  // the score of a key that a query does not see

struct ScoredKeys {
  Index in_sequence;  // keys of a sequence
  Index compression;  // tokens of a key

  explicit ScoredKeys(const model::AttentionAttributes& a)
      : in_sequence(a.compression > 0 ? std::max<Index>(1, a.sequence_length / a.compression) : a.sequence_length),
        compression(std::max<Index>(1, a.compression)) {}

  bool seen(Index place, Index key) const { return key < in_sequence && (key + 1) * compression <= place + 1; }
};

struct Choice {
  std::vector<Index> columns, rows;  // of a target, and of the keys that they stand for
};

Choice choice_of(const model::AttentionAttributes& a, const Matrix& chosen, Index token, Index group, Index groups,
                 Index target_columns) {
  const ScoredKeys keys(a);
  const Index count = chosen.cols() / groups, block = target_columns / chosen.cols();
  const Index place = token % a.sequence_length, sequence = token / a.sequence_length;
  Choice choice;
  for (Index i = 0; i < count * block; ++i) {
    const auto id = static_cast<Index>(chosen(token, group * count + i / block)) - group * count;
    const Index key = id * block + i % block;
    if (id < 0 || !keys.seen(place, key)) continue;
    choice.columns.push_back(group * count * block + i);
    choice.rows.push_back(sequence * keys.in_sequence + key);
  }
  return choice;
}

// The part of a row that is a head's.
auto head_of(const Matrix& x, Index row, Index head, Index columns) {
  return x.row(row).segment(head * columns, columns);
}

// Operands: queries, keys, optionally weights of heads, whose scores are one; else one head's.
double score_of(const std::vector<Matrix>& operands, Index token, Index row, Index head) {
  const Matrix &q = operands[0], &k = operands[1];
  const Index d = k.cols();
  if (operands.size() < 3) return head_of(q, token, head, d).dot(k.row(row));
  double sum = 0;
  for (Index h = 0; h < operands[2].cols(); ++h)
    sum += operands[2](token, h) * std::max(0.0, head_of(q, token, h, d).dot(k.row(row)));
  return sum;
}

std::vector<double> shares(const std::vector<double>& scores) {
  std::vector<double> result;
  const double most = scores.empty() ? 0 : *std::ranges::max_element(scores);
  for (const double score : scores) result.push_back(std::exp(score - most));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& share : result) share /= sum;
  return result;
}

std::vector<double> scores_of(const std::vector<Matrix>& operands, const Choice& choice, Index token, Index head) {
  std::vector<double> scores;
  for (const Index row : choice.rows) scores.push_back(score_of(operands, token, row, head));
  return scores;
}

// Operands: the target, queries, keys, optionally weights, the choice.
struct Learned {
  const model::AttentionAttributes& attributes;
  const Matrix &target, &chosen;
  std::vector<Matrix> scored;
  Index groups;

  Learned(const model::AttentionAttributes& a, const std::vector<Matrix>& operands)
      : attributes(a),
        target(operands.front()),
        chosen(operands.back()),
        scored(operands.begin() + 1, operands.end() - 1),
        groups(scored.size() > 2 ? 1 : a.query_heads) {}

  Choice choice(Index token, Index group) const {
    return choice_of(attributes, chosen, token, group, groups, target.cols());
  }
};

// The mean over its heads of what attention gives the chosen keys.
void weigh_chosen(Call& call, const model::AttentionAttributes& a) {
  const Matrix &q = call.in(0), &k = call.in(1), &chosen = call.in(2);
  Matrix& target = call.out(0);
  const Index heads = a.query_heads / a.key_value_heads, d = a.query_key_dim;
  for (Index token = 0; token < q.rows(); ++token)
    for (Index head = 0; head < a.query_heads; ++head) {
      const Choice choice = choice_of(a, chosen, token, head / heads, a.key_value_heads, target.cols());
      std::vector<double> scores;
      for (const Index row : choice.rows)
        scores.push_back(head_of(q, token, head, d).dot(head_of(k, row, head / heads, d)) /
                         std::sqrt(static_cast<double>(d)));
      const std::vector<double> weights = shares(scores);
      for (std::size_t i = 0; i < weights.size(); ++i)
        target(token, choice.columns[i]) += weights[i] / static_cast<double>(heads);
    }
}

}  // namespace

double index_divergence(const model::AttentionAttributes& attributes, const std::vector<Matrix>& operands) {
  const Learned learned(attributes, operands);
  double sum = 0;
  for (Index token = 0; token < learned.target.rows(); ++token)
    for (Index group = 0; group < learned.groups; ++group) {
      const Choice choice = learned.choice(token, group);
      const std::vector<double> given = shares(scores_of(learned.scored, choice, token, group));
      for (std::size_t i = 0; i < given.size(); ++i) {
        const double wanted = learned.target(token, choice.columns[i]);
        sum += wanted * std::log(wanted / given[i]);
      }
    }
  return sum / static_cast<double>(learned.target.rows());
}

void index_scores(Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  call.out(0) = zeros(call.out_tensor(0));
  if (call.ins() > 2 && call.in_tensor(2).type == model::DataType::int32) return weigh_chosen(call, a);
  const std::vector<Matrix> operands = operands_from(call, 0, call.ins());
  const ScoredKeys keys(a);
  const Index groups = operands.size() > 2 ? 1 : a.query_heads, columns = call.out(0).cols() / groups;
  const Index block = groups > 1 ? model::ceil_div(keys.in_sequence, columns) : 1;
  call.out(0).setConstant(hidden);
  for (Index token = 0; token < operands[0].rows(); ++token)
    for (Index group = 0; group < groups; ++group)
      for (Index key = 0; key < keys.in_sequence; ++key) {
        if (!keys.seen(token % a.sequence_length, key)) continue;
        const Index row = token / a.sequence_length * keys.in_sequence + key;
        double& best = call.out(0)(token, group * columns + key / block);
        best = std::max(best, score_of(operands, token, row, group));
      }
}

// A place without a key is -1. Where all columns are chosen they stay in order.
void top_tokens(Call& call) {
  const Matrix& scores = call.in(0);
  call.out(0) = zeros(call.out_tensor(0));
  const Index count = call.out(0).cols();
  for (Index token = 0; token < scores.rows(); ++token) {
    std::vector<Index> order(static_cast<std::size_t>(scores.cols()));
    std::iota(order.begin(), order.end(), 0);
    if (count < scores.cols())
      std::ranges::stable_sort(order, [&](Index a, Index b) { return scores(token, a) > scores(token, b); });
    for (Index i = 0; i < count; ++i) {
      const bool there = i < scores.cols() && scores(token, order[static_cast<std::size_t>(i)]) > hidden;
      call.out(0)(token, i) = there ? static_cast<double>(order[static_cast<std::size_t>(i)]) : -1;
    }
  }
}

// The slope of the divergence to a score is what the softmax of scores gives a key less what it should.
void index_scores_grad(Call& call) {
  const std::vector<Matrix> operands = operands_from(call, 0, call.ins());
  const Learned learned(call.attributes<model::AttentionAttributes>(), operands);
  const Matrix &q = learned.scored[0], &k = learned.scored[1];
  const Index d = k.cols();
  for (std::size_t i = 0; i < call.outs(); ++i) call.out(i) = zeros(call.out_tensor(i));
  for (Index token = 0; token < q.rows(); ++token)
    for (Index group = 0; group < learned.groups; ++group) {
      const Choice choice = learned.choice(token, group);
      const std::vector<double> given = shares(scores_of(learned.scored, choice, token, group));
      for (std::size_t i = 0; i < given.size(); ++i) {
        const Index row = choice.rows[i];
        const double slope =
            (given[i] - learned.target(token, choice.columns[i])) / static_cast<double>(learned.target.rows());
        const auto add = [&](Index head, double factor) {
          call.out(0).row(token).segment(head * d, d) += factor * k.row(row);
          call.out(1).row(row) += factor * head_of(q, token, head, d);
        };
        if (learned.scored.size() < 3) {
          add(group, slope);
          continue;
        }
        for (Index head = 0; head < learned.scored[2].cols(); ++head) {
          const double product = head_of(q, token, head, d).dot(k.row(row));
          if (product <= 0) continue;
          add(head, slope * learned.scored[2](token, head));
          call.out(2)(token, head) += slope * product;
        }
      }
    }
}

void cached_index_scores(Call&) { refuse(); }

}  // namespace plumbline::tests
