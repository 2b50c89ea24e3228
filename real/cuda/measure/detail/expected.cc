#include "real/cuda/measure/detail/expected.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plumbline::real::cuda {

namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void add(std::vector<double>& to, double factor, const std::vector<double>& row) {
  to.resize(row.size(), 0.0);
  for (std::size_t i = 0; i < row.size(); ++i) to[i] += factor * row[i];
}

double scale_of(const AttentionHead& head) { return 1 / std::sqrt(static_cast<double>(head.q.front().size())); }

}  // namespace

AttentionRow attention_row(const AttentionHead& head, std::size_t position) {
  std::vector<double> weights;
  for (std::size_t key = 0; key <= position; ++key)
    weights.push_back(scale_of(head) * dot(head.q[position], head.k[key]));
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  AttentionRow row;
  for (std::size_t key = 0; key <= position; ++key) add(row.output, weights[key] / sum, head.v[key]);
  row.log_sum_exp = largest + std::log(sum);
  return row;
}

std::vector<double> query_gradient(const AttentionHead& head, std::size_t position) {
  const AttentionRow row = attention_row(head, position);
  const double delta = dot(head.d_o[position], row.output);
  std::vector<double> gradient;
  for (std::size_t key = 0; key <= position; ++key) {
    const double score = scale_of(head) * dot(head.q[position], head.k[key]);
    const double weight = std::exp(score - row.log_sum_exp);
    add(gradient, scale_of(head) * weight * (dot(head.d_o[position], head.v[key]) - delta), head.k[key]);
  }
  return gradient;
}

void add_key_gradients(const AttentionHead& head, std::size_t position, std::vector<double>& dk,
                       std::vector<double>& dv) {
  for (std::size_t query = position; query < head.q.size(); ++query) {
    const double score = scale_of(head) * dot(head.q[query], head.k[position]);
    const double weight = std::exp(score - head.log_sum_exp[query]);
    add(dv, weight, head.d_o[query]);
    const double of_weight = dot(head.d_o[query], head.v[position]) - head.deltas[query];
    add(dk, scale_of(head) * weight * of_weight, head.q[query]);
  }
}

std::int64_t elements_given(const CollectivePlace& place) {
  return place.op == "all_gather" ? place.elements / place.ranks : place.elements;
}

std::int64_t elements_got(const CollectivePlace& place) {
  return place.op == "reduce_scatter" ? place.elements / place.ranks : place.elements;
}

double expected_element(const CollectivePlace& place, std::int64_t index,
                        const std::function<double(int, std::int64_t)>& input) {
  const std::int64_t part = place.elements / place.ranks;
  const auto sender = static_cast<int>(index / part);
  if (place.op == "all_gather") return input(sender, index % part);
  if (place.op == "all_to_all") return input(sender, place.rank * part + index % part);
  const std::int64_t at = place.op == "reduce_scatter" ? place.rank * part + index : index;
  double sum = 0;
  for (int rank = 0; rank < place.ranks; ++rank) sum += input(rank, at);
  return sum;
}

}  // namespace plumbline::real::cuda
