#include "calibrate/fit/detail/tables/custom_reduce_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/table_rows.h"
#include "model/cost/collective_cost.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using model::CollectiveAlgorithm;

constexpr Index line_size = 3;

class CustomReduceForm {
 public:
  explicit CustomReduceForm(const std::vector<CollectiveRow>& rows) : rows_(rows) {}

  VectorXd operator()(const VectorXd& x) const {
    return vector_of(rows_, [&](const CollectiveRow& row) {
      return std::min(on_line(row, CollectiveAlgorithm::one_shot, x.head(line_size)),
                      on_line(row, CollectiveAlgorithm::two_shot, x.tail(line_size)));
    });
  }

  VectorXd roofline(double link) const {
    return vector_of(rows_, [&](const CollectiveRow& row) {
      return static_cast<double>(row.bytes) * model::bus_factor(model::Collective::all_reduce, row.gpus) / link;
    });
  }

 private:
  static double on_line(const CollectiveRow& row, CollectiveAlgorithm algorithm, const VectorXd& x) {
    const model::CollectiveLine line{.base = x[0], .nvlink_hop = x[1], .nvlink_rate = x[2]};
    return model::collective_path(algorithm, model::CollectiveProtocol::simple, model::Collective::all_reduce,
                                  {row.gpus, row.gpus}, line)
        .seconds(model::Bytes(static_cast<double>(row.bytes)));
  }

  const std::vector<CollectiveRow>& rows_;
};

}  // namespace

CustomReduceFit fit_custom_reduce_table(const std::vector<CollectiveRow>& rows, const FitMachine& machine) {
  const std::vector<bool> held =
      marked(rows, [](const CollectiveRow& row) { return is_held_out(fmt::format("{}-{}", row.gpus, row.bytes)); });
  const auto training = selected(rows, held, false);
  VectorXd start(2 * line_size);
  start << 3e-6, 1e-7, machine.nvlink_rate / 2, 7e-6, 4e-7, machine.nvlink_rate / 2;
  const LogFit solution = log_fit(CustomReduceForm(training), seconds_of(training), start);
  CustomReduceFit fit;
  const auto line = [&](Index at) {
    CustomReduceFit::Line found;
    for (Index i = at; i < at + line_size; ++i) {
      found.values.push_back(solution.values[i]);
      found.deviations.push_back(solution.uncertainty[i]);
    }
    found.correlation = correlation_of(solution, {at, at + 1, at + 2});
    return found;
  };
  fit.one_shot = line(0);
  fit.two_shot = line(line_size);
  fit.held_out.family = "custom all-reduce";
  const CustomReduceForm all(rows);
  add_errors(all(solution.values), all.roofline(machine.nvlink_rate), seconds_of(rows), held,
             std::vector<bool>(rows.size(), false), fit.held_out);
  return fit;
}

}  // namespace plumbline::calibrate
