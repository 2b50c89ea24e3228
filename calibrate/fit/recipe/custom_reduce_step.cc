// The step of a recipe that fits the all-reduce of an inference engine on one node, one-shot and two-shot, to the lines
// of model/cost/collective_cost.h: n GPUs read D bytes in
//   one-shot: base + (n - 1) rank_time + (n - 1) D / rate
//   two-shot: base + (n - 1) rank_time + 2 (n - 1)/n D / rate
// of which the faster one counts.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/components/rows.h"
#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/held_out.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "model/cost/collective_cost.h"

namespace plumbline::calibrate {
namespace {

struct CustomReduceFit {
  struct Line {
    std::vector<Draft::Fitted> constants;
    std::vector<std::vector<double>> correlation;  // of their errors
  };
  Line one_shot, two_shot;
  HeldOut held_out;
};

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

// Requires rows.
CustomReduceFit fit_custom_reduce_table(const std::vector<CollectiveRow>& rows, const FitMachine& machine) {
  const std::vector<bool> held =
      marked(rows, [](const CollectiveRow& row) { return is_held_out(fmt::format("{}-{}", row.gpus, row.bytes)); });
  const auto training = selected(rows, held, false);
  VectorXd start(2 * line_size);
  start << 3e-6, 1e-7, machine.nvlink_rate / 2, 7e-6, 4e-7, machine.nvlink_rate / 2;
  const LogFit solution = log_fit(CustomReduceForm(training), seconds_of(training), start);
  CustomReduceFit fit;
  const auto line = [&](Index at) {
    const auto number = [&](const char* name, Index i, const char* unit) {
      return Draft::Fitted{name, solution.values[i], unit, solution.uncertainty[i]};
    };
    return CustomReduceFit::Line{
        {number("base", at, "us"), number("rank_time", at + 1, "us"), number("rate", at + 2, "GB/s")},
        correlation_of(solution, {at, at + 1, at + 2})};
  };
  fit.one_shot = line(0);
  fit.two_shot = line(line_size);
  fit.held_out.family = "custom all-reduce";
  const CustomReduceForm all(rows);
  add_errors(all(solution.values), all.roofline(machine.nvlink_rate), seconds_of(rows), held,
             std::vector<bool>(rows.size(), false), fit.held_out);
  return fit;
}

}  // namespace

model::Result<void> fit_custom_reduce_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  std::vector<CollectiveRow> rows;
  for (const CollectiveRow& row : TRY(load_collective_rows(draft.table("custom_all_reduce"))))
    if (step.names(row.software)) rows.push_back(row);
  const std::string prefix = fmt::format("collective.custom.{}.", step.kind);
  if (rows.empty())
    return draft.wrong("step.software",
                       fmt::format("{} has no row of {}", draft.cited("custom_all_reduce"), step.kind));
  CustomReduceFit fit = fit_custom_reduce_table(rows, draft.machine());
  fit.held_out.table = step.kind;
  draft.held_out.push_back(fit.held_out);
  const std::string how = fmt::format("fitted to two thirds of the rows of {} ({})", rows.front().software,
                                      draft.cited("custom_all_reduce"));
  for (const auto& [shot, line] : {std::pair("one_shot", &fit.one_shot), std::pair("two_shot", &fit.two_shot)}) {
    for (Draft::Fitted& constant : line->constants) constant.name = fmt::format("{}{}.{}", prefix, shot, constant.name);
    draft.set(line->constants, how);
    draft.correlate(line->constants, line->correlation);
  }
  return {};
}

}  // namespace plumbline::calibrate
