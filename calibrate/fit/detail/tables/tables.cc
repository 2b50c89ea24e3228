#include "calibrate/fit/detail/tables/tables.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/held_out.h"
#include "model/base/statistics.h"
#include "model/result/result.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double gemm_activation_bytes = 2;  // of a 16-bit element
constexpr double gemm_width = 0.1;           // of the loss

struct GemmTile {
  double m, n;
};
constexpr std::array<GemmTile, 5> tried_tiles = {GemmTile{64, 64}, {64, 128}, {128, 128}, {128, 192}, {128, 256}};

using GemmNumbers = FormNumbers<GemmTableConstants>;
using GemmFormRow = FormRow<model::GemmWork>;

// Returns the numbers of a table, and the constants that are not fitted: with a `shape` those that it determines.
// Starts are what a datasheet and an average kernel suggest, loosely, except for the length at which kernels droop,
// which no table determines apart from how much they do.
GemmNumbers gemm_numbers(const std::string& format, const FitMachine& machine, const GemmTableFit* shape, GemmTile tile,
                         bool quantizes) {
  constexpr double typical_share = 0.8, launch = 4e-6, highest_fp8 = 4.3e15, highest_fp4 = 9e15;
  using C = GemmTableConstants;
  const double bandwidth = machine.device.memory_bandwidth.value();
  const double peak = std::min(datasheet_peak(machine.device, format),
                               quantizes && operand_bytes(format) < 1 ? highest_fp4 : highest_fp8);
  std::vector<FormNumber<C>> numbers = {{"ramp", &C::ramp, "us", launch * (format == "fp8_block" ? 2 : 1), 20},
                                        {"rate", &C::rate, "TFLOP/s", typical_share * peak, 6}};
  if (quantizes)
    numbers.insert(numbers.end(), {{"quantize_bandwidth", &C::quantize_bandwidth, "TB/s", 0.8, 20, bandwidth},
                                   {"quantize_k_time", &C::quantize_k_time, "ns", 2e-10, 30}});
  if (shape != nullptr) return {numbers, shape->constants};
  numbers.insert(numbers.end(), {{"wave_overhead", &C::wave_overhead, "us", 0.5e-6, 30},
                                 {"wave_share", &C::wave_share, "1", 0.6, 20, 1},
                                 {"memory_bandwidth", &C::memory_bandwidth, "TB/s", 1.0, 14, bandwidth},
                                 {"droop", &C::droop, "1", 0.15, 14},
                                 {"droop_time", &C::droop_time, "us", 2e-3, 3}});
  C known;
  known.tile_m = tile.m, known.tile_n = tile.n;
  return {numbers, known};
}

GemmTableConstants with_k_time(GemmTableConstants c, double sms) {
  c.k_time = 2 * c.tile_m * c.tile_n * sms / c.rate;
  return c;
}

// The form on so many SMs.
auto gemm_seconds(double sms) {
  return [sms](const GemmTableConstants& c, const model::GemmWork& work) {
    return c.ramp + gemm_core_seconds(with_k_time(c, sms), work, sms) + quantize_seconds(c, work);
  };
}

// Fits the rows, with `rounds` at most.
LogFit fit_of(const GemmNumbers& numbers, const std::vector<GemmFormRow>& rows, double sms,
              int rounds = LogFitOptions().rounds) {
  return solve_numbers(rows, numbers, gemm_seconds(sms), {gemm_width, rounds, numbers.prior()}, numbers.start());
}

// Returns the tile with which a short fit on every third row has the least loss; `numbers_of` has the numbers with one.
template <class Numbers>
GemmTile best_tile(const std::vector<GemmFormRow>& training, double sms, const Numbers& numbers_of) {
  constexpr int rounds = 15;
  constexpr std::size_t every = 3;
  std::vector<GemmFormRow> few;
  for (std::size_t i = 0; i < training.size(); i += every) few.push_back(training[i]);
  GemmTile best = tried_tiles.front();
  double least = std::numeric_limits<double>::infinity();
  for (const GemmTile tile : tried_tiles) {
    const LogFit fit = fit_of(numbers_of(tile), few, sms, rounds);
    if (fit.loss < least) best = tile;
    least = std::min(least, fit.loss);
  }
  return best;
}

template <class Size>
std::vector<std::int64_t> sizes(const std::vector<GemmRow>& rows, Size size) {
  std::set<std::int64_t> found;
  for (const GemmRow& row : rows) found.insert(row.*size);
  return {found.begin(), found.end()};
}

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

HeldOutSummary summary_of(const HeldOut& of) {
  constexpr double middle = 0.5, ninety = 0.9;
  return {of.family,
          of.table,
          of.fitted_rows,
          of.errors.size(),
          model::quantile(of.errors, middle),
          model::quantile(of.errors, ninety),
          model::quantile(of.roofline, middle),
          model::quantile(of.roofline, ninety)};
}

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

std::vector<bool> held_out_gemms(const std::vector<GemmRow>& rows) {
  const auto ms = sizes(rows, &GemmRow::m), ns = sizes(rows, &GemmRow::n), ks = sizes(rows, &GemmRow::k);
  const auto place = [](const std::vector<std::int64_t>& of, std::int64_t size) {
    return std::ranges::lower_bound(of, size) - of.begin();
  };
  constexpr std::int64_t one_in = 5;
  const std::int64_t by_m = rows.size() * 2 >= ms.size() * ns.size() * ks.size() ? 1 : 0;
  return marked(rows, [&](const GemmRow& row) {
    return (by_m * place(ms, row.m) + 2 * place(ns, row.n) + 3 * place(ks, row.k)) % one_in == 0;
  });
}

GemmTableFit fit_gemm_table(const std::vector<GemmRow>& table, const FitMachine& machine, bool quantizes,
                            const GemmTableFit* shape) {
  constexpr double disturbed = 1.15;
  constexpr int times = 2;
  const std::string& format = table.front().format;
  const auto sms = static_cast<double>(machine.device.sms);
  std::vector<GemmFormRow> rows;
  for (const GemmRow& row : table) rows.push_back({"", gemm_work(row), row.seconds, row.m >= training_tokens});
  const std::vector<bool> held = held_out_gemms(table);
  const auto training = selected(rows, held, false);
  const auto numbers_of = [&](GemmTile tile) {
    return gemm_numbers(format, machine, shape, tile, quantizes && format != "bf16");
  };
  const GemmNumbers numbers = numbers_of(shape != nullptr ? GemmTile{} : best_tile(training, sms, numbers_of));
  LogFit solution = fit_of(numbers, training, sms);
  for (int time = 0; time < times; ++time) {
    const VectorXd fitted = times_of(training, numbers.constants(solution.values), gemm_seconds(sms));
    std::vector<bool> slow;
    for (Index i = 0; i < fitted.size(); ++i)
      slow.push_back(training[static_cast<std::size_t>(i)].seconds >= disturbed * fitted[i]);
    solution = fit_of(numbers, selected(training, slow, false), sms);
  }
  GemmTableFit fit{with_k_time(numbers.constants(solution.values), sms), numbers.fitted(solution), {}, {}};
  // The rate stands for its inverse, the k_time of a profile.
  if (shape == nullptr)
    fit.correlation = numbers.correlation(solution, {"ramp", "quantize_bandwidth", "quantize_k_time"});
  for (std::vector<double>& row : fit.correlation) row.front() *= -1;
  fit.held_out.family = "gemm";
  fit.held_out.table = fmt::format("{} {}", table.front().software, format);
  const double peak = datasheet_peak(machine.device, format), bandwidth = machine.device.memory_bandwidth.value();
  add_errors(times_of(rows, fit.constants, gemm_seconds(sms)),
             times_of(rows, [&](const model::GemmWork& work) { return gemm_roofline(work, peak, bandwidth); }), rows,
             held, fit.held_out);
  return fit;
}

model::GemmWork gemm_work(const GemmRow& row) {
  return {1,
          static_cast<double>(row.m),
          static_cast<double>(row.n),
          static_cast<double>(row.k),
          operand_bytes(row.format),
          gemm_activation_bytes};
}

double quantize_seconds(const GemmTableConstants& c, const model::GemmWork& work) {
  if (c.quantize_bandwidth <= 0) return 0;
  return work.m * work.k * (gemm_activation_bytes + work.operand_bytes) / c.quantize_bandwidth +
         work.k * c.quantize_k_time;
}

double gemm_roofline(const model::GemmWork& work, double peak, double bandwidth) {
  return std::max(2 * work.groups * work.m * work.n * work.k / peak, work.bytes() / bandwidth);
}

double operand_bytes(const std::string& format) {
  if (format == "fp8") return 1;
  if (format == "fp8_block") return 1 + 4.0 / 128;  // an FP32 scale per 128 elements
  if (format == "nvfp4") return 0.5 + 1.0 / 16;     // an FP8 scale per 16 elements
  if (format == "mxfp4") return 0.5 + 1.0 / 32;     // a scale of one byte per 32 elements
  if (format == "mxfp8") return 1 + 1.0 / 32;
  return 2;
}

double datasheet_peak(const model::Device& device, const std::string& format) {
  if (format == "bf16") return device.bf16_peak.value();
  if (format == "fp8" || format == "fp8_block" || format == "mxfp8") return device.fp8_peak.value();
  const double stated = device.nvfp4_peak.value();
  constexpr double usual = 2;  // over FP8, for a device file that does not state it
  return stated > 0 ? stated : usual * device.fp8_peak.value();
}

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

std::vector<HeldOutSummary> summaries(const std::vector<HeldOut>& tables) {
  std::vector<HeldOut> families;
  std::vector<HeldOutSummary> single;
  for (const HeldOut& table : tables) {
    if (table.errors.empty()) continue;
    single.push_back(summary_of(table));
    auto family = std::ranges::find(families, table.family, &HeldOut::family);
    if (family == families.end())
      family = families.insert(families.end(), HeldOut{.family = table.family, .table = {}});
    family->fitted_rows += table.fitted_rows;
    std::ranges::copy(table.errors, std::back_inserter(family->errors));
    std::ranges::copy(table.roofline, std::back_inserter(family->roofline));
  }
  std::vector<HeldOutSummary> all;
  for (const HeldOut& family : families) all.push_back(summary_of(family));
  all.insert(all.end(), single.begin(), single.end());
  return all;
}

double deviation_of(const std::vector<double>& values) {
  constexpr double share = 0.8;  // of normal numbers, this share is no further from 0 than model::normal_p90
  std::vector<double> sizes;
  for (const double value : values) sizes.push_back(std::abs(value));
  return model::quantile(std::move(sizes), share) / model::normal_p90;
}

bool is_held_out(const std::string& key) {
  constexpr unsigned long one_in = 3;
  return crc32(0, reinterpret_cast<const Bytef*>(key.data()), static_cast<uInt>(key.size())) % one_in == 0;
}

}  // namespace plumbline::calibrate
