#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "model/base/statistics.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double expert_width = 0.08;  // of the loss
constexpr double flops_per_row = 6;    // FLOPs per row over H F: gate, up and down projection

struct ExpertWork {
  double experts, rows_of_expert, tile_rows, hidden_ffn, weight_bytes, activation_bytes, entry_bytes;
  std::string model;  // whose rows of all numbers of tokens are a series
};
using ExpertFormRow = FormRow<ExpertWork>;

ExpertFormRow expert_row(const ExpertRow& row) {
  constexpr double tile = 128, activation = 2;
  const auto hidden = static_cast<double>(row.hidden), ffn = static_cast<double>(row.ffn);
  const auto copies = static_cast<double>(row.tokens * row.top_k);
  const double experts = static_cast<double>(row.experts) / static_cast<double>(row.expert_parallel);
  const double rows = copies / static_cast<double>(row.experts);
  const double weight = row.format == "bf16" ? 2 : std::floor(operand_bytes(row.format) * 2) / 2;
  return {
      fmt::format("{}-{}-{}-{}-{}-{}", row.hidden, row.ffn, row.top_k, row.experts, row.tokens, row.expert_parallel),
      {experts, rows, std::ceil(rows / tile) * tile, hidden * ffn, flops_per_row / 2 * hidden * ffn * weight,
       experts * rows * (2 * hidden + 3 * ffn) * activation, copies * hidden * activation,
       fmt::format("{}-{}-{}-{}-{}", row.hidden, row.ffn, row.top_k, row.experts, row.expert_parallel)},
      row.seconds,
      row.tokens >= training_tokens};
}

double expert_seconds(const ExpertConstants& c, const ExpertWork& w) {
  const double expert =
      std::max(flops_per_row * w.tile_rows * w.hidden_ffn / c.rate, w.weight_bytes / c.weight_bandwidth);
  return c.launch + w.experts * (expert + c.per_expert) + w.activation_bytes / c.activation_bandwidth +
         w.entry_bytes / c.entry_bandwidth;
}

FormNumbers<ExpertConstants> expert_numbers(double dense_rate, double bandwidth) {
  using C = ExpertConstants;
  constexpr double share = 0.7;
  return {{{"launch", &C::launch, "us", 20e-6},
           {"rate", &C::rate, "TFLOP/s", share, 20, dense_rate},
           {"weight_bandwidth", &C::weight_bandwidth, "TB/s", share * bandwidth},
           {"activation_bandwidth", &C::activation_bandwidth, "TB/s", share * bandwidth},
           {"entry_bandwidth", &C::entry_bandwidth, "TB/s", share * bandwidth},
           {"per_expert", &C::per_expert, "us", 0.2e-6}},
          {}};
}

// Returns for each row whether its whole series of tokens is far slower than the fit.
std::vector<bool> in_slow_series(const std::vector<ExpertFormRow>& rows, const VectorXd& fitted,
                                 std::size_t& series_found) {
  constexpr double typical = 1.5, least = 1.35;
  std::map<std::string, std::vector<double>> series;
  for (std::size_t i = 0; i < rows.size(); ++i)
    series[rows[i].work.model].push_back(rows[i].seconds / fitted[static_cast<Index>(i)]);
  const auto slow = [&](const std::vector<double>& ratios) {
    return model::upper_median(ratios) > typical && std::ranges::min(ratios) > least;
  };
  series_found = static_cast<std::size_t>(std::ranges::count_if(series, [&](const auto& s) { return slow(s.second); }));
  return marked(rows, [&](const ExpertFormRow& row) { return slow(series[row.work.model]); });
}

}  // namespace

ExpertTableFit fit_expert_table(const std::vector<ExpertRow>& table, const FitMachine& machine, double dense_rate) {
  const ExpertRow* first = nullptr;
  std::vector<ExpertFormRow> rows;
  for (const ExpertRow& row : table) {
    if (row.distribution != "balanced") continue;
    if (first == nullptr) first = &row;
    rows.push_back(expert_row(row));
  }
  const std::vector<bool> held = held_rows(rows);
  const double bandwidth = machine.device.memory_bandwidth.value();
  const FormNumbers<ExpertConstants> numbers = expert_numbers(dense_rate, bandwidth);
  ExpertTableFit fit;
  auto training = selected(rows, held, false);
  LogFit solution = solve_numbers(training, numbers, expert_seconds, {expert_width}, numbers.start());
  const VectorXd fitted = times_of(training, numbers.constants(solution.values), expert_seconds);
  training = selected(training, in_slow_series(training, fitted, fit.left_series), false);
  solution = solve_numbers(training, numbers, expert_seconds, {expert_width}, solution.values);
  fit.constants = numbers.constants(solution.values);
  fit.fitted = numbers.fitted(solution);
  fit.held_out.family = "experts";
  fit.held_out.table = fmt::format("{} {} {}", first->software, first->kernel, first->format);
  const double peak = datasheet_peak(machine.device, first->format);
  const auto roofline = [&](const ExpertWork& w) {
    return std::max(flops_per_row * w.experts * w.rows_of_expert * w.hidden_ffn / peak,
                    w.experts * w.weight_bytes / bandwidth);
  };
  add_errors(times_of(rows, fit.constants, expert_seconds), times_of(rows, roofline), rows, held, fit.held_out);
  return fit;
}

namespace {

using model::GemmWork;

constexpr double small_width = 0.1;  // of the loss

struct SmallWork {
  std::string software;
  std::vector<GemmWork> gemms;
  double activation_seconds = 0, entry_bytes = 0;  // of experts: of the kernels next to the GEMMs; of all ranks' copies
};
using SmallRow = FormRow<SmallWork>;

enum class SmallTable : std::uint8_t { single, grouped, experts };

struct SmallConstants : model::SmallGemmConstants {
  double entry_bandwidth = std::numeric_limits<double>::infinity();  // of experts
};

FormNumbers<SmallConstants> small_numbers(const FitMachine& machine, double peak, SmallTable table) {
  using C = SmallConstants;
  constexpr double share = 0.8;
  const double bandwidth = machine.device.memory_bandwidth.value();
  std::vector<FormNumber<C>> numbers = {{"start", &C::start, "us", 4e-6},
                                        {"bandwidth", &C::bandwidth, "TB/s", share, 20, bandwidth},
                                        {"rate", &C::rate, "TFLOP/s", share, 20, peak},
                                        {"tile_depth", &C::tile_depth, "1", 200}};
  if (table == SmallTable::single) numbers.back() = {"k_time", &C::k_time, "ns", 4e-10};
  if (table == SmallTable::experts)
    numbers.insert(numbers.end(), {{"row_time", &C::row_time, "ps", 1e-12},
                                   {"entry_bandwidth", &C::entry_bandwidth, "TB/s", bandwidth}});
  C known;
  known.tile = machine.small_m_tile;
  return {numbers, known};
}

double small_seconds(const SmallConstants& c, const SmallWork& work) {
  double seconds = c.start + work.activation_seconds;
  for (const GemmWork& gemm : work.gemms) seconds += small_gemm_core(c, gemm, 1).total();
  return seconds + work.entry_bytes / c.entry_bandwidth;
}

using SoftwareLevels = std::map<std::string, double>;  // median of measured / fitted, by software

SoftwareLevels levels_of(const std::vector<SmallRow>& rows, const VectorXd& fitted) {
  std::map<std::string, std::vector<double>> ratios;
  for (std::size_t i = 0; i < rows.size(); ++i)
    ratios[rows[i].work.software].push_back(rows[i].seconds / fitted[static_cast<Index>(i)]);
  SoftwareLevels levels;
  for (auto& [software, own] : ratios) levels[software] = ratios.size() > 1 ? model::quantile(std::move(own), 0.5) : 1;
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
  for (Fitted& number : fit.fitted) number.deviation = std::max(number.deviation, (most - least) / 2);
  for (const auto& [name, value] : {std::pair("start", c.start),
                                    {"bandwidth", c.bandwidth},
                                    {"rate", c.rate},
                                    {"k_time", c.k_time},
                                    {"row_time", c.row_time}})
    for (Fitted& number : fit.fitted)
      if (number.name == name) number.value = value;
}

// Adds the errors of each software, with the rate of its own that its level is.
void take_errors(const std::vector<SmallRow>& rows, const VectorXd& fitted, const VectorXd& roofline,
                 const SoftwareLevels& levels, HeldOut of, SmallGemmFit& fit) {
  const std::string format = of.table;
  for (const auto& [name, level] : levels) {
    const std::vector<bool> own = marked(rows, [&](const SmallRow& row) { return row.work.software == name; });
    const auto own_rows = selected(rows, own, true);
    const std::vector<bool> own_held = held_rows(own_rows);
    const VectorXd predicted = selected(fitted, own, true) * level, measured = seconds_of(own_rows);
    of.table = fmt::format("{} {}", name, format);
    fit.held_out.push_back(of);
    add_errors(predicted, selected(roofline, own, true), own_rows, own_held, fit.held_out.back());
    fit.fitted_errors.emplace_back();
    for (std::size_t i = 0; i < own_rows.size(); ++i) {
      const double m = own_rows[i].work.gemms.front().m;
      const auto at = static_cast<Index>(i);
      if (!own_held[i] && (m == 64 || m == 128))
        fit.fitted_errors.back().push_back(std::abs(predicted[at] / measured[at] - 1));
    }
  }
}

// `bandwidth`: of operands and results, where it is known.
SmallGemmFit fit_small(const std::vector<SmallRow>& rows, const FitMachine& machine, const std::string& format,
                       const char* family, SmallTable table, std::optional<double> bandwidth = std::nullopt) {
  const double peak = datasheet_peak(machine.device, format), memory = machine.device.memory_bandwidth.value();
  const auto training = selected(rows, held_rows(rows), false);
  const FormNumbers<SmallConstants> numbers = small_numbers(machine, peak, table);
  const auto known = [&](SmallConstants c) {
    c.bandwidth = bandwidth.value_or(c.bandwidth);
    return c;
  };
  const auto seconds = [&](const SmallConstants& c, const SmallWork& work) { return small_seconds(known(c), work); };
  const auto roofline = [&](const SmallWork& work) {
    double sum = 0;
    for (const GemmWork& gemm : work.gemms) sum += gemm_roofline(gemm, peak, memory);
    return sum;
  };
  const LogFit solution = solve_numbers(training, numbers, seconds, {.width = small_width}, numbers.start());
  const SmallConstants found = known(numbers.constants(solution.values));
  SmallGemmFit fit{.constants = found, .fitted = numbers.fitted(solution)};
  std::erase_if(fit.fitted, [](const Fitted& number) { return number.name == "entry_bandwidth"; });
  fit.correlation = numbers.correlation(solution, {"entry_bandwidth"});
  const SoftwareLevels levels = levels_of(training, times_of(training, found, seconds));
  take_errors(rows, times_of(rows, found, seconds), times_of(rows, roofline), levels,
              {.family = family, .table = format}, fit);
  take_levels(levels, memory, peak, fit);
  for (const SmallRow& row : rows) fit.most_rows = std::max(fit.most_rows, std::floor(row.work.gemms.front().m));
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
    rows.push_back({fmt::format("{}-{}-{}", row.m, row.n, row.k),
                    {row.software,
                     {small_work(row.format, 1, static_cast<double>(row.m), static_cast<double>(row.n),
                                 static_cast<double>(row.k))}},
                    row.seconds,
                    true});
  return fit_small(rows, machine, table.front().format, "decode gemm", SmallTable::single);
}

SmallGemmFit fit_small_grouped_gemms(const std::vector<GroupedGemmRow>& table, const FitMachine& machine) {
  std::vector<SmallRow> rows;
  for (const GroupedGemmRow& row : table)
    rows.push_back({fmt::format("{}-{}-{}-{}", row.groups, row.m, row.n, row.k),
                    {row.software,
                     {small_work(row.format, static_cast<double>(row.groups), static_cast<double>(row.m),
                                 static_cast<double>(row.n), static_cast<double>(row.k), row.row_spread)}},
                    row.seconds,
                    true});
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
    rows.push_back({expert_row(row).shape,
                    {fmt::format("{} {}", row.software, row.kernel),
                     {small_work(row.format, hit, m, 2 * ffn, hidden), small_work(row.format, hit, m, hidden, ffn)},
                     on_rank * activations / kernel_bandwidth,
                     copies * hidden * stream},
                    row.seconds,
                    true});
  }
  return fit_small(rows, machine, table.front().format, "decode experts", SmallTable::experts, bandwidth);
}

}  // namespace plumbline::calibrate
