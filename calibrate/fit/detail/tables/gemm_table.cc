#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double gemm_activation_bytes = 2;  // of a 16-bit element
constexpr double gemm_width = 0.1;           // of the loss

struct GemmTile {
  double m, n;
};
constexpr std::array<GemmTile, 5> gemm_tiles = {GemmTile{64, 64}, {64, 128}, {128, 128}, {128, 192}, {128, 256}};

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
  GemmTile best = gemm_tiles.front();
  double least = std::numeric_limits<double>::infinity();
  for (const GemmTile tile : gemm_tiles) {
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

}  // namespace

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

}  // namespace plumbline::calibrate
