#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double expert_width = 0.08;  // of the loss
constexpr double flops_per_row = 6;    // FLOPs per row over H F: gate, up and down projection

enum ExpertNumber : Index { launch_at, flops_at, weights_at, activations_at, entry_at, per_expert_at };

struct ExpertWork {
  double experts, rows_of_expert, tile_rows, hidden_ffn, weight_bytes, activation_bytes, entry_bytes;
};

ExpertWork expert_work(const ExpertRow& row) {
  constexpr double tile = 128, activation = 2;
  const auto hidden = static_cast<double>(row.hidden), ffn = static_cast<double>(row.ffn);
  const auto copies = static_cast<double>(row.tokens * row.top_k);
  const double experts = static_cast<double>(row.experts) / static_cast<double>(row.expert_parallel);
  const double rows = copies / static_cast<double>(row.experts);
  const double weight = row.format == "bf16" ? 2 : std::floor(operand_bytes(row.format) * 2) / 2;
  return {experts,
          rows,
          std::ceil(rows / tile) * tile,
          hidden * ffn,
          flops_per_row / 2 * hidden * ffn * weight,
          experts * rows * (2 * hidden + 3 * ffn) * activation,
          copies * hidden * activation};
}

class ExpertForm {
 public:
  ExpertForm(const std::vector<ExpertRow>& rows, double dense_rate) : dense_rate_(dense_rate) {
    for (const ExpertRow& row : rows) works_.push_back(expert_work(row));
  }

  VectorXd operator()(const VectorXd& x) const {
    const double flops = below(dense_rate_, x[flops_at]);
    return vector_of(works_, [&](const ExpertWork& w) {
      const double expert =
          std::max(flops_per_row * w.tile_rows * w.hidden_ffn / flops, w.weight_bytes / x[weights_at]);
      return x[launch_at] + w.experts * (expert + x[per_expert_at]) + w.activation_bytes / x[activations_at] +
             w.entry_bytes / x[entry_at];
    });
  }

  static VectorXd start(double bandwidth) {
    constexpr double share = 0.7, launch_start = 20e-6, expert_start = 0.2e-6;
    VectorXd x(per_expert_at + 1);
    x << launch_start, share, share * bandwidth, share * bandwidth, share * bandwidth, expert_start;
    return x;
  }

  VectorXd roofline(const FitMachine& machine, const std::string& format) const {
    return vector_of(works_, [&](const ExpertWork& w) {
      return std::max(
          flops_per_row * w.experts * w.rows_of_expert * w.hidden_ffn / datasheet_peak(machine.device, format),
          w.experts * w.weight_bytes / machine.device.memory_bandwidth.value());
    });
  }

 private:
  std::vector<ExpertWork> works_;
  double dense_rate_;
};

std::string model_of(const ExpertRow& row) {
  return fmt::format("{}-{}-{}-{}-{}", row.hidden, row.ffn, row.top_k, row.experts, row.expert_parallel);
}

// Returns for each row whether its whole series of tokens is far slower than the fit.
std::vector<bool> in_slow_series(const std::vector<ExpertRow>& rows, const VectorXd& measured, const VectorXd& fitted,
                                 std::size_t& series_found) {
  constexpr double typical = 1.5, least = 1.35;
  std::map<std::string, std::vector<double>> series;
  for (std::size_t i = 0; i < rows.size(); ++i)
    series[model_of(rows[i])].push_back(measured[static_cast<Index>(i)] / fitted[static_cast<Index>(i)]);
  const auto slow = [&](const std::vector<double>& ratios) {
    return median(ratios) > typical && std::ranges::min(ratios) > least;
  };
  series_found = static_cast<std::size_t>(std::ranges::count_if(series, [&](const auto& s) { return slow(s.second); }));
  return marked(rows, [&](const ExpertRow& row) { return slow(series[model_of(row)]); });
}

}  // namespace

ExpertTableFit fit_expert_table(const std::vector<ExpertRow>& table, const FitMachine& machine, double dense_rate) {
  std::vector<ExpertRow> rows;
  std::ranges::copy_if(table, std::back_inserter(rows),
                       [](const ExpertRow& row) { return row.distribution == "balanced"; });
  const std::vector<bool> held = marked(rows, [](const ExpertRow& row) {
    return is_held_out(
        fmt::format("{}-{}-{}-{}-{}-{}", row.hidden, row.ffn, row.top_k, row.experts, row.tokens, row.expert_parallel));
  });
  ExpertTableFit fit;
  auto training = selected(rows, held, false);
  VectorXd seconds = seconds_of(training);
  const VectorXd start = ExpertForm::start(machine.device.memory_bandwidth.value());
  LogFit solution = log_fit(ExpertForm(training, dense_rate), seconds, start, {expert_width});
  const std::vector<bool> slow =
      in_slow_series(training, seconds, ExpertForm(training, dense_rate)(solution.values), fit.left_series);
  training = selected(training, slow, false);
  solution = log_fit(ExpertForm(training, dense_rate), seconds_of(training), solution.values, {expert_width});
  fit.rate = below(dense_rate, solution.values[flops_at]);
  fit.rate_deviation = solution.uncertainty[flops_at] * share_below(solution.values[flops_at]);
  fit.weight_bandwidth = solution.values[weights_at];
  fit.weight_bandwidth_deviation = solution.uncertainty[weights_at];
  const ExpertRow& first = rows.front();
  fit.held_out.family = "experts";
  fit.held_out.table = fmt::format("{} {} {}", first.software, first.kernel, first.format);
  const ExpertForm all(rows, dense_rate);
  add_errors(all(solution.values), all.roofline(machine, first.format), seconds_of(rows), held,
             marked(rows, [](const ExpertRow& row) { return row.tokens >= training_tokens; }), fit.held_out);
  return fit;
}

}  // namespace plumbline::calibrate
