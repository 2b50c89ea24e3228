#include "calibrate/fit/detail/tables/tables.h"

#include <algorithm>
#include <cmath>

namespace plumbline::calibrate {

void add_errors(const Eigen::VectorXd& predicted, const Eigen::VectorXd& roofline, const Eigen::VectorXd& measured,
                const std::vector<bool>& held, const std::vector<bool>& large, HeldOut& result) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    if (!held[i]) {
      ++result.fitted_rows;
      continue;
    }
    result.errors.push_back(std::abs(predicted[row] / measured[row] - 1));
    result.roofline.push_back(std::abs(roofline[row] / measured[row] - 1));
    if (large[i]) result.large.push_back(std::log(measured[row] / predicted[row]));
  }
}

Eigen::VectorXd selected(const Eigen::VectorXd& values, const std::vector<bool>& marks, bool wanted) {
  Eigen::VectorXd found(std::ranges::count(marks, wanted));
  Eigen::Index next = 0;
  for (std::size_t i = 0; i < marks.size(); ++i)
    if (marks[i] == wanted) found[next++] = values[static_cast<Eigen::Index>(i)];
  return found;
}

}  // namespace plumbline::calibrate
