#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double tray_hidden = 7168, tray_experts = 256, tray_top_k = 8;  // the only model that was measured
constexpr std::int64_t gpus_of_tray = 4;

enum TrayNumber : Index { tray_start_at, tray_exponent_at, tray_link_at, tray_local_at };

// Dispatch carries the rows in their format, combine in BF16, except where it is called low precision.
model::ExchangeWork tray_work(const TrayExchangeRow& row) {
  const auto ranks = static_cast<double>(row.expert_parallel);
  const std::string format = row.direction == "dispatch"  ? (row.format == "fp8" ? "fp8_block" : row.format)
                             : row.direction == "combine" ? "bf16"
                                                          : "nvfp4";
  return {.tokens = static_cast<double>(row.tokens),
          .token_bytes = tray_hidden * operand_bytes(format),
          .ranks_per_token = distinct_groups(ranks, tray_experts, tray_top_k),
          .nodes_per_token = 1,
          .ranks = ranks,
          .nodes = 1};
}

class TrayForm {
 public:
  explicit TrayForm(const std::vector<TrayExchangeRow>& rows) {
    for (const TrayExchangeRow& row : rows) works_.push_back(tray_work(row));
  }

  static model::ExchangeConstants constants(const VectorXd& x) {
    model::ExchangeConstants c;
    c.start = x[tray_start_at];
    c.start_exponent = x[tray_exponent_at];
    c.nvlink_rate = x[tray_link_at];
    c.local_rate = x[tray_local_at];
    return c;
  }

  VectorXd operator()(const VectorXd& x) const { return seconds(constants(x)); }

  VectorXd seconds(const model::ExchangeConstants& c) const {
    return vector_of(works_, [&](const auto& work) { return exchange_seconds(c, work, 0).seconds(); });
  }

 private:
  std::vector<model::ExchangeWork> works_;
};

}  // namespace

TrayTableFit fit_tray_table(const std::vector<TrayExchangeRow>& table, const std::string& kernel,
                            const std::string& direction, const std::string& format, const FitMachine& machine) {
  std::vector<TrayExchangeRow> rows;
  std::ranges::copy_if(table, std::back_inserter(rows), [&](const TrayExchangeRow& row) {
    return row.kernel == kernel && row.direction == direction && row.format == format && row.tokens > 1 &&
           row.expert_parallel > gpus_of_tray;
  });
  const std::vector<bool> held = marked(rows, [](const TrayExchangeRow& row) {
    return is_held_out(fmt::format("{}-{}", row.tokens, row.expert_parallel));
  });
  const auto training = selected(rows, held, false);
  constexpr double start_time = 10e-6, exponent = 0.1, local_share = 0.15;
  VectorXd start(tray_local_at + 1);
  start << start_time, exponent, machine.nvlink_rate, local_share * machine.nvlink_rate;
  const LogFit solution = log_fit(TrayForm(training), seconds_of(training), start, {});
  TrayTableFit fit;
  fit.constants = TrayForm::constants(solution.values);
  fit.start = solution.uncertainty[tray_start_at];
  fit.start_exponent = solution.uncertainty[tray_exponent_at];
  fit.nvlink_rate = solution.uncertainty[tray_link_at];
  fit.local_rate = solution.uncertainty[tray_local_at];
  fit.held_out.family = "exchange";
  fit.held_out.table = fmt::format("{} {} {}", kernel, direction, format);
  model::ExchangeConstants ideal;
  ideal.nvlink_rate = machine.nvlink_rate;
  const TrayForm all(rows);
  add_errors(all(solution.values), all.seconds(ideal), seconds_of(rows), held,
             marked(rows, [](const TrayExchangeRow& row) { return row.tokens >= training_tokens; }), fit.held_out);
  return fit;
}

}  // namespace plumbline::calibrate
