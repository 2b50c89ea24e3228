// Some rows of a table, and the errors of a fit to them.
#pragma once

#include <Eigen/Core>
#include <vector>

#include "calibrate/fit/held_out.h"

namespace plumbline::calibrate {

// Adds the errors of the rows that `held` marks; `large` marks those that are as large as training has them.
void add_errors(const Eigen::VectorXd& predicted, const Eigen::VectorXd& roofline, const Eigen::VectorXd& measured,
                const std::vector<bool>& held, const std::vector<bool>& large, HeldOut& result);

// Returns the rows for which the predicate holds.
template <class Row, class Predicate>
std::vector<bool> marked(const std::vector<Row>& rows, const Predicate& predicate) {
  std::vector<bool> marks;
  for (const Row& row : rows) marks.push_back(predicate(row));
  return marks;
}

// Returns the elements that are, or are not, marked.
Eigen::VectorXd selected(const Eigen::VectorXd& values, const std::vector<bool>& marks, bool wanted);

template <class Row>
std::vector<Row> selected(const std::vector<Row>& rows, const std::vector<bool>& marks, bool wanted) {
  std::vector<Row> found;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (marks[i] == wanted) found.push_back(rows[i]);
  return found;
}

}  // namespace plumbline::calibrate
