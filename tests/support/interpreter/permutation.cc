#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

// One row of an expert: its received token, and the one of the token's k slots in which the expert was chosen.
struct ExpertRow {
  Index token, slot;
};

// Returns the rows of every expert, by token. Slots with expert -1 belong to other ranks.
std::vector<std::vector<ExpertRow>> rows_by_expert(const Matrix& indices, Index experts) {
  std::vector<std::vector<ExpertRow>> result(static_cast<std::size_t>(experts));
  for (Index token = 0; token < indices.rows(); ++token)
    for (Index slot = 0; slot < indices.cols(); ++slot)
      if (indices(token, slot) >= 0) result[static_cast<std::size_t>(indices(token, slot))].push_back({token, slot});
  return result;
}

Matrix gathered(const Matrix& x, const Matrix& map) {
  Matrix rows(map.rows(), x.cols());
  for (Index n = 0; n < map.rows(); ++n) rows.row(n) = x.row(static_cast<Index>(map(n)));
  return rows;
}

// Returns the sum of each token's rows.
Matrix scattered(const Matrix& rows, const Matrix& map, Index tokens) {
  Matrix sums = Matrix::Zero(tokens, rows.cols());
  for (Index n = 0; n < map.rows(); ++n) sums.row(static_cast<Index>(map(n))) += rows.row(n);
  return sums;
}

}  // namespace

void permute(Call& call) {
  const Index experts = call.attributes<model::DispatchAttributes>().experts_per_rank;
  std::vector<ExpertRow> rows;
  std::vector<double> offsets = {0};
  for (const std::vector<ExpertRow>& of_expert : rows_by_expert(call.in(1), experts)) {
    rows.insert(rows.end(), of_expert.begin(), of_expert.end());
    offsets.push_back(static_cast<double>(rows.size()));
  }
  Matrix map(rows.size(), 1), weights(rows.size(), 1);
  for (std::size_t n = 0; n < rows.size(); ++n) {
    map(n) = static_cast<double>(rows[n].token);
    weights(n) = call.in(2)(rows[n].token, rows[n].slot);
  }
  call.out(0) = gathered(call.in(0), map);
  call.out(1) = std::move(map);
  call.out(2) = std::move(weights);
  call.out(3) = Eigen::Map<Eigen::VectorXd>(offsets.data(), experts + 1);
}

void permute_grad(Call& call) {
  const Matrix &d_rows = call.in(0), &map = call.in(1), &d_weights = call.in(2), &indices = call.in(3);
  call.out(0) = scattered(d_rows, map, indices.rows());
  call.out(1) = Matrix::Zero(indices.rows(), indices.cols());
  Index n = 0;
  for (const auto& of_expert : rows_by_expert(indices, call.attributes<model::DispatchAttributes>().experts_per_rank))
    for (const ExpertRow& row : of_expert) call.out(1)(row.token, row.slot) = d_weights(n++);
}

void permute_transpose(Call& call) { call.out(0) = gathered(call.in(0), call.in(1)).transpose(); }

// A token is received for at least one local expert, so the largest number in the map is the last token.
void unpermute(Call& call) {
  const Matrix& map = call.in(1);
  call.out(0) = scattered(call.in(0), map, map.rows() == 0 ? 0 : static_cast<Index>(map.maxCoeff()) + 1);
}

void gather_rows(Call& call) { call.out(0) = gathered(call.in(0), call.in(1)); }

void gather_columns(Call& call) { call.out(0) = gathered(call.in(0).transpose(), call.in(1)).transpose(); }

}  // namespace plumbline::tests
