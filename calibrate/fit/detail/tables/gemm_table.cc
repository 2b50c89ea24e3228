#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

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

// The fitted numbers, in this order; bounded ones are multiples of their bound (below()).
enum GemmNumber : Index {
  ramp_at,
  rate_at,
  quantize_at,
  quantize_k_at,
  overhead_at,
  share_at,
  memory_at,
  droop_at,
  droop_time_at
};

// One table, and the constants that are not fitted.
class GemmForm {
 public:
  GemmForm(const std::vector<GemmRow>& rows, const FitMachine& machine, bool quantizes) : machine_(&machine) {
    const std::string format = rows.empty() ? "bf16" : rows.front().format;
    quantizes_ = quantizes && format != "bf16";
    for (const GemmRow& row : rows)
      works_.push_back({1, static_cast<double>(row.m), static_cast<double>(row.n), static_cast<double>(row.k),
                        operand_bytes(format), gemm_activation_bytes});
  }

  // Takes the constants of the shape, which are then not fitted.
  void set_shape(const GemmTableFit& shape) { shape_ = &shape; }
  void set_tile(GemmTile tile) { tile_ = tile; }

  GemmTableFit constants(const VectorXd& x) const {
    GemmTableFit fit;
    if (shape_ != nullptr) fit.constants = shape_->constants;
    model::GemmConstants& c = fit.constants;
    c.ramp = x[ramp_at];
    fit.rate = x[rate_at];
    if (quantizes_) fit.quantize_bandwidth = below(bandwidth(), x[quantize_at]);
    if (quantizes_) fit.quantize_k_time = x[quantize_k_at];
    if (shape_ == nullptr) {
      const Index first = quantizes_ ? overhead_at : quantize_at;
      const auto slot = [first](GemmNumber of) { return first + of - overhead_at; };
      c.tile_m = tile_.m;
      c.tile_n = tile_.n;
      c.wave_overhead = x[slot(overhead_at)];
      c.wave_share = below(1, x[slot(share_at)]);
      c.memory_bandwidth = below(bandwidth(), x[slot(memory_at)]);
      c.droop = x[slot(droop_at)];
      c.droop_time = x[slot(droop_time_at)];
    }
    c.k_time = 2 * c.tile_m * c.tile_n * sms() / fit.rate;
    return fit;
  }

  VectorXd seconds(const GemmTableFit& fit) const {
    return vector_of(works_, [&](const model::GemmWork& work) {
      double seconds = fit.constants.ramp + gemm_core_seconds(fit.constants, work, sms());
      if (quantizes_)
        seconds += work.m * work.k * (gemm_activation_bytes + work.operand_bytes) / fit.quantize_bandwidth +
                   work.k * fit.quantize_k_time;
      return seconds;
    });
  }

  VectorXd operator()(const VectorXd& x) const { return seconds(constants(x)); }

  // Returns the start: what a datasheet and an average kernel suggest.
  VectorXd start(const std::string& format) const {
    constexpr double typical_share = 0.8, launch = 4e-6, highest_fp8 = 4.3e15, highest_fp4 = 9e15;
    const double peak = std::min(datasheet_peak(machine_->device, format),
                                 quantizes_ && operand_bytes(format) < 1 ? highest_fp4 : highest_fp8);
    std::vector<double> x = {launch * (format == "fp8_block" ? 2 : 1), typical_share * peak};
    if (quantizes_) x.insert(x.end(), {0.8, 2e-10});
    if (shape_ == nullptr) x.insert(x.end(), {0.5e-6, 0.6, 1.0, 0.15, 2e-3});
    return Eigen::Map<VectorXd>(x.data(), static_cast<Index>(x.size()));
  }

  // Returns how far each number may be from its start, in ln: loosely, except for the length at which kernels droop,
  // which no table determines apart from how much they do.
  VectorXd prior() const {
    std::vector<double> widths = {20, 6};
    if (quantizes_) widths.insert(widths.end(), {20, 30});
    if (shape_ == nullptr) widths.insert(widths.end(), {30, 20, 14, 14, 3});
    return Eigen::Map<VectorXd>(widths.data(), static_cast<Index>(widths.size()));
  }

  VectorXd roofline(const std::string& format) const {
    return vector_of(works_, [&](const model::GemmWork& work) {
      const double bytes = (work.m + work.n) * work.k * work.operand_bytes + work.m * work.n * work.output_bytes;
      return std::max(2 * work.m * work.n * work.k / datasheet_peak(machine_->device, format), bytes / bandwidth());
    });
  }

 private:
  double sms() const { return static_cast<double>(machine_->device.sms); }
  double bandwidth() const { return machine_->device.memory_bandwidth.value(); }

  std::vector<model::GemmWork> works_;
  const FitMachine* machine_;
  const GemmTableFit* shape_ = nullptr;
  GemmTile tile_ = gemm_tiles.front();
  bool quantizes_ = false;
};

struct GemmTraining {
  std::vector<GemmRow> rows;
  VectorXd seconds;
};

GemmTraining training_rows(const std::vector<GemmRow>& rows, const std::vector<bool>& held) {
  std::vector<GemmRow> kept = selected(rows, held, false);
  VectorXd seconds = seconds_of(kept);
  return {std::move(kept), std::move(seconds)};
}

// Returns the tile with which a short fit on every third row has the least loss.
GemmTile best_tile(const GemmTraining& training, const FitMachine& machine, bool quantizes) {
  constexpr int rounds = 15;
  constexpr std::size_t every = 3;
  std::vector<GemmRow> few;
  for (std::size_t i = 0; i < training.rows.size(); i += every) few.push_back(training.rows[i]);
  GemmForm form(few, machine, quantizes);
  const VectorXd seconds = seconds_of(few);
  const std::string& format = few.front().format;
  GemmTile best = gemm_tiles.front();
  double least = std::numeric_limits<double>::infinity();
  for (const GemmTile tile : gemm_tiles) {
    form.set_tile(tile);
    const LogFit fit = log_fit(form, seconds, form.start(format), {gemm_width, rounds, form.prior()});
    if (fit.loss < least) best = tile;
    least = std::min(least, fit.loss);
  }
  return best;
}

void take_deviations(const LogFit& solution, bool quantized, bool shaped, GemmTableFit& fit) {
  const VectorXd& sd = solution.uncertainty;
  fit.ramp_deviation = sd[ramp_at];
  fit.rate_deviation = sd[rate_at];
  if (shaped) return;
  const Index first = quantized ? overhead_at : quantize_at;
  const auto slot = [first](GemmNumber of) { return first + of - overhead_at; };
  fit.wave_overhead_deviation = sd[slot(overhead_at)];
  fit.wave_share_deviation = sd[slot(share_at)] * share_below(solution.values[slot(share_at)]);
  fit.memory_deviation = sd[slot(memory_at)] * share_below(solution.values[slot(memory_at)]);
  fit.droop_deviation = sd[slot(droop_at)];
  fit.droop_time_deviation = sd[slot(droop_time_at)];
  fit.correlation = correlation_of(
      solution, {rate_at, slot(overhead_at), slot(share_at), slot(memory_at), slot(droop_at), slot(droop_time_at)},
      {-1, 1, 1, 1, 1, 1});
}

GemmTableFit fit_rows(const std::vector<GemmRow>& rows, const FitMachine& machine, const GemmTableFit* shape,
                      bool quantizes) {
  constexpr double disturbed = 1.15;
  constexpr int times = 2;
  const std::vector<bool> held = held_out_gemms(rows);
  const GemmTraining all = training_rows(rows, held);
  const std::string& format = rows.front().format;
  const GemmTile tile = shape != nullptr ? GemmTile{} : best_tile(all, machine, quantizes);
  const auto form_of = [&](const std::vector<GemmRow>& of) {
    GemmForm form(of, machine, quantizes);
    form.set_tile(tile);
    if (shape != nullptr) form.set_shape(*shape);
    return form;
  };
  const GemmForm whole = form_of(all.rows);
  LogFit solution = log_fit(whole, all.seconds, whole.start(format), {.width = gemm_width, .prior = whole.prior()});
  for (int time = 0; time < times; ++time) {
    const VectorXd fitted = whole(solution.values);
    std::vector<bool> slow;
    for (Index i = 0; i < fitted.size(); ++i) slow.push_back(all.seconds[i] >= disturbed * fitted[i]);
    const GemmTraining kept = training_rows(all.rows, slow);
    solution =
        log_fit(form_of(kept.rows), kept.seconds, whole.start(format), {.width = gemm_width, .prior = whole.prior()});
  }
  const GemmForm table = form_of(rows);
  GemmTableFit fit = table.constants(solution.values);
  take_deviations(solution, quantizes && format != "bf16", shape != nullptr, fit);
  fit.held_out.family = "gemm";
  fit.held_out.table = fmt::format("{} {}", rows.front().software, format);
  add_errors(table.seconds(fit), table.roofline(format), seconds_of(rows), held,
             marked(rows, [](const GemmRow& row) { return row.m >= training_tokens; }), fit.held_out);
  return fit;
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

GemmTableFit fit_gemm_table(const std::vector<GemmRow>& rows, const FitMachine& machine, bool quantizes) {
  return fit_rows(rows, machine, nullptr, quantizes);
}

GemmTableFit fit_gemm_rate(const std::vector<GemmRow>& rows, const FitMachine& machine, const GemmTableFit& shape,
                           bool quantizes) {
  return fit_rows(rows, machine, &shape, quantizes);
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
