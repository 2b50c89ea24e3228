#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
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

namespace {

using model::GemmWork;

constexpr double small_width = 0.1;  // of the loss

struct SmallRow {
  std::string software, shape;
  std::vector<GemmWork> gemms;
  double activation_seconds = 0, entry_bytes = 0;  // of experts: of the kernels next to the GEMMs; of all ranks' copies
  double seconds = 0;
};

// Single GEMMs have k_time in place of tile_depth, and the last two are of experts.
enum SmallNumber : Index {
  small_start_at,
  small_bandwidth_at,
  small_rate_at,
  small_depth_at,
  small_rows_at,
  small_entry_at
};

enum class SmallTable : std::uint8_t { single, grouped, experts };

class SmallForm {
 public:
  // `bandwidth`: of operands and results, where it is known.
  SmallForm(const std::vector<SmallRow>& rows, const FitMachine& machine, const std::string& format, SmallTable table,
            std::optional<double> bandwidth)
      : rows_(&rows),
        peak_(datasheet_peak(machine.device, format)),
        bandwidth_(machine.device.memory_bandwidth.value()),
        tile_(machine.small_m_tile),
        table_(table),
        known_(bandwidth) {}

  model::SmallGemmConstants constants(const VectorXd& x) const {
    model::SmallGemmConstants c{.start = x[small_start_at],
                                .bandwidth = known_.value_or(below(bandwidth_, x[small_bandwidth_at])),
                                .rate = below(peak_, x[small_rate_at]),
                                .tile = tile_};
    (table_ == SmallTable::single ? c.k_time : c.tile_depth) = x[small_depth_at];
    if (table_ == SmallTable::experts) c.row_time = x[small_rows_at];
    return c;
  }

  VectorXd operator()(const VectorXd& x) const {
    const model::SmallGemmConstants c = constants(x);
    return vector_of(*rows_, [&](const SmallRow& row) {
      double seconds = c.start + row.activation_seconds;
      for (const GemmWork& work : row.gemms) seconds += small_gemm_core(c, work, 1).total();
      if (table_ == SmallTable::experts) seconds += row.entry_bytes / x[small_entry_at];
      return seconds;
    });
  }

  VectorXd start() const {
    constexpr double launch = 4e-6, share = 0.8, inner = 4e-10, depth = 200, row = 1e-12;
    VectorXd x(table_ == SmallTable::experts ? small_entry_at + 1 : small_rows_at);
    x.head(small_depth_at) << launch, share, share;
    x[small_depth_at] = table_ == SmallTable::single ? inner : depth;
    if (table_ == SmallTable::experts) x.tail(2) << row, bandwidth_;
    return x;
  }

  VectorXd roofline() const {
    return vector_of(*rows_, [&](const SmallRow& row) {
      double seconds = 0;
      for (const GemmWork& work : row.gemms)
        seconds += std::max(2 * work.groups * work.m * work.n * work.k / peak_, work.bytes() / bandwidth_);
      return seconds;
    });
  }

 private:
  const std::vector<SmallRow>* rows_;
  double peak_, bandwidth_, tile_;
  SmallTable table_;
  std::optional<double> known_;
};

using SoftwareLevels = std::map<std::string, double>;  // median of measured / fitted, by software

SoftwareLevels levels_of(const std::vector<SmallRow>& rows, const VectorXd& fitted) {
  std::map<std::string, std::vector<double>> ratios;
  for (std::size_t i = 0; i < rows.size(); ++i)
    ratios[rows[i].software].push_back(rows[i].seconds / fitted[static_cast<Index>(i)]);
  SoftwareLevels levels;
  for (auto& [software, own] : ratios) levels[software] = ratios.size() > 1 ? quantile(std::move(own), 0.5) : 1;
  return levels;
}

// Moves the constants to the mean level of the softwares, within the datasheet's figures, and takes half their spread
// where that is the larger uncertainty.
void take_levels(const SoftwareLevels& levels, double bandwidth, double peak, SmallGemmFit& fit) {
  double sum = 0, least = std::numeric_limits<double>::infinity(), most = -least;
  for (const auto& [software, level] : levels) {
    sum += std::log(level);
    least = std::min(least, std::log(level));
    most = std::max(most, std::log(level));
  }
  const double mean = std::exp(sum / static_cast<double>(levels.size()));
  model::SmallGemmConstants& c = fit.constants;
  c.start *= mean;
  c.bandwidth = std::min(bandwidth, c.bandwidth / mean);
  c.k_time *= mean;
  c.rate = std::min(peak, c.rate / mean);
  c.row_time *= mean;
  for (double& deviation : fit.deviations) deviation = std::max(deviation, (most - least) / 2);
}

// Adds the errors of each software, with the rate of its own that its level is.
void take_errors(const std::vector<SmallRow>& rows, const VectorXd& fitted, const VectorXd& roofline,
                 const SoftwareLevels& levels, HeldOut of, SmallGemmFit& fit) {
  const std::string format = of.table;
  for (const auto& [name, level] : levels) {
    const std::vector<bool> own = marked(rows, [&](const SmallRow& row) { return row.software == name; });
    const auto own_rows = selected(rows, own, true);
    const std::vector<bool> own_held = marked(own_rows, [](const SmallRow& row) { return is_held_out(row.shape); });
    const VectorXd predicted = selected(fitted, own, true) * level, measured = seconds_of(own_rows);
    of.table = fmt::format("{} {}", name, format);
    fit.held_out.push_back(of);
    add_errors(predicted, selected(roofline, own, true), measured, own_held, std::vector<bool>(own_rows.size(), true),
               fit.held_out.back());
    fit.fitted_errors.emplace_back();
    for (std::size_t i = 0; i < own_rows.size(); ++i) {
      const double m = own_rows[i].gemms.front().m;
      const auto at = static_cast<Index>(i);
      if (!own_held[i] && (m == 64 || m == 128))
        fit.fitted_errors.back().push_back(std::abs(predicted[at] / measured[at] - 1));
    }
  }
}

SmallGemmFit fit_small(const std::vector<SmallRow>& rows, const FitMachine& machine, const std::string& format,
                       const char* family, SmallTable table, std::optional<double> bandwidth = std::nullopt) {
  const std::vector<bool> held = marked(rows, [](const SmallRow& row) { return is_held_out(row.shape); });
  const auto training = selected(rows, held, false);
  const SmallForm form(training, machine, format, table, bandwidth);
  const VectorXd seconds = seconds_of(training);
  const LogFit solution = log_fit(form, seconds, form.start(), {.width = small_width});
  SmallGemmFit fit{.constants = form.constants(solution.values)};
  std::vector<Index> numbers = {small_start_at, small_bandwidth_at, small_rate_at, small_depth_at};
  if (table == SmallTable::experts) numbers.push_back(small_rows_at);
  for (const Index number : numbers) {
    const bool bounded = number == small_bandwidth_at || number == small_rate_at;
    fit.deviations.push_back(solution.uncertainty[number] * (bounded ? share_below(solution.values[number]) : 1));
  }
  fit.correlation = correlation_of(solution, numbers);
  const SoftwareLevels levels = levels_of(training, form(solution.values));
  const SmallForm all(rows, machine, format, table, bandwidth);
  take_errors(rows, all(solution.values), all.roofline(), levels, {.family = family, .table = format}, fit);
  take_levels(levels, machine.device.memory_bandwidth.value(), datasheet_peak(machine.device, format), fit);
  for (const SmallRow& row : rows) fit.most_rows = std::max(fit.most_rows, std::floor(row.gemms.front().m));
  return fit;
}

// Returns the mean bytes of an operand's element: a weight has a scale for 128 x 128 elements.
double small_operand_bytes(const std::string& format, double m, double n) {
  const double activation = operand_bytes(format);
  const double weight = format == "fp8_block" ? 1 + 4.0 / (128 * 128) : activation;
  return (m * activation + n * weight) / (m + n);
}

GemmWork small_work(const std::string& format, double groups, double m, double n, double k, double spread = 0) {
  return {groups, m, n, k, small_operand_bytes(format, m, n), 2, spread};
}

}  // namespace

SmallGemmFit fit_small_gemms(const std::vector<GemmRow>& table, const FitMachine& machine) {
  std::vector<SmallRow> rows;
  for (const GemmRow& row : table)
    rows.push_back({row.software,
                    fmt::format("{}-{}-{}", row.m, row.n, row.k),
                    {small_work(row.format, 1, static_cast<double>(row.m), static_cast<double>(row.n),
                                static_cast<double>(row.k))},
                    0,
                    0,
                    row.seconds});
  return fit_small(rows, machine, table.front().format, "decode gemm", SmallTable::single);
}

SmallGemmFit fit_small_grouped_gemms(const std::vector<GroupedGemmRow>& table, const FitMachine& machine) {
  std::vector<SmallRow> rows;
  for (const GroupedGemmRow& row : table)
    rows.push_back({row.software,
                    fmt::format("{}-{}-{}-{}", row.groups, row.m, row.n, row.k),
                    {small_work(row.format, static_cast<double>(row.groups), static_cast<double>(row.m),
                                static_cast<double>(row.n), static_cast<double>(row.k), row.row_spread)},
                    0,
                    0,
                    row.seconds});
  return fit_small(rows, machine, table.front().format, "decode experts", SmallTable::grouped);
}

// Balanced rows: each expert has as many as the others, or some have one and the rest none. Next to the GEMMs rows are
// gathered, activated, cast where operands are quantized, and summed: each reads and writes them once.
SmallGemmFit fit_small_experts(const std::vector<ExpertRow>& table, const FitMachine& machine, double kernel_bandwidth,
                               std::optional<double> bandwidth) {
  constexpr double stream = 2;  // bytes of an element
  const double operand = operand_bytes(table.front().format);
  const double cast = table.front().format == "bf16" ? 0 : stream + operand;
  std::vector<SmallRow> rows;
  for (const ExpertRow& row : table) {
    if (row.distribution != "balanced") continue;
    const auto hidden = static_cast<double>(row.hidden), ffn = static_cast<double>(row.ffn);
    const auto ranks = static_cast<double>(row.expert_parallel);
    const auto copies = static_cast<double>(row.tokens * row.top_k);
    const double on_rank = std::max(1.0, copies / ranks);
    const double hit = std::min(static_cast<double>(row.experts) / ranks, on_rank), m = on_rank / hit;
    const double activations = hidden * (2 * operand + stream) + ffn * (3 * stream + cast);
    rows.push_back(
        {fmt::format("{} {}", row.software, row.kernel),
         fmt::format("{}-{}-{}-{}-{}-{}", row.hidden, row.ffn, row.top_k, row.experts, row.tokens, row.expert_parallel),
         {small_work(row.format, hit, m, 2 * ffn, hidden), small_work(row.format, hit, m, hidden, ffn)},
         on_rank * activations / kernel_bandwidth,
         copies * hidden * stream,
         row.seconds});
  }
  return fit_small(rows, machine, table.front().format, "decode experts", SmallTable::experts, bandwidth);
}

}  // namespace plumbline::calibrate
