#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "model/base/distinct.h"
#include "model/base/statistics.h"
#include "model/cost/work.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using model::AttentionConstants;

constexpr double attention_dim = 128;

enum AttentionNumber : Index { per_dim_at, row_at, tail_at, pair_at };  // then launch and bandwidth of each software

model::AttentionWork attention_work(const AttentionRow& row) {
  const auto tokens = static_cast<double>(row.tokens), dim = static_cast<double>(row.dim);
  return {.batch_heads = static_cast<double>(row.batch * row.heads),
          .kv_heads_batch = static_cast<double>(row.batch * row.kv_heads),
          .queries = tokens,
          .pairs_per_query = tokens / 2,
          .qk_dim = dim,
          .v_dim = dim};
}

// Returns the time at the peak, or at the bandwidth of the memory; backward reads and writes twice as much.
double roofline_seconds(const model::AttentionWork& w, const model::Device& device, double peak) {
  const double dims = w.backward ? 3 * w.qk_dim + 2 * w.v_dim : w.qk_dim + w.v_dim;
  const double flops = w.batch_heads * w.queries * w.pairs_per_query * 2 * dims;
  const double bytes = w.element_bytes * w.queries * (w.qk_dim + w.v_dim) * (w.batch_heads + w.kv_heads_batch);
  return std::max(flops / peak, (w.backward ? 2 : 1) * bytes / device.memory_bandwidth.value());
}

// All softwares of a table. A rate factor of each, where asked for, shows their spread.
class AttentionForm {
 public:
  AttentionForm(const std::vector<AttentionRow>& rows, const std::vector<std::string>& softwares,
                const FitMachine& machine, std::optional<double> pair_share)
      : sms_(static_cast<double>(machine.device.sms)),
        softwares_(static_cast<Index>(softwares.size())),
        pair_share_(pair_share) {
    for (const AttentionRow& row : rows)
      works_.emplace_back(attention_work(row), std::ranges::find(softwares, row.software) - softwares.begin());
  }

  // Returns the constants of one software; `x` may end before the rate factors.
  AttentionConstants constants(const VectorXd& x, Index software) const {
    AttentionConstants c;
    const double factor = x.size() > rates() ? x[rates() + software] : 1;
    c.rate = 2 / x[per_dim_at] * factor;
    c.row_time = x[row_at];
    c.tail = x[tail_at];
    c.pair_time = pair_share_ ? *pair_share_ / (1 - *pair_share_) * 2 * attention_dim * x[per_dim_at] : x[pair_at];
    c.kv_bandwidth = x[first() + softwares_ + software];
    return c;
  }

  VectorXd operator()(const VectorXd& x) const {
    std::vector<AttentionConstants> of;
    for (Index software = 0; software < softwares_; ++software) of.push_back(constants(x, software));
    return vector_of(works_, [&](const auto& each) {
      const auto& [work, software] = each;
      return x[first() + software] + attention_seconds(of[static_cast<std::size_t>(software)], work, sms_, sms_);
    });
  }

  // Returns a start from the BF16 peak: `pair` and `dim` in seconds times FLOP/s.
  VectorXd start(double peak) const {
    constexpr double pair = 60, dim = 1.2, row = 2e5, launch = 12e-6, bandwidth = 2e12;
    VectorXd x(rates());
    x[per_dim_at] = dim / peak;
    x[row_at] = row / peak;
    x[tail_at] = 0.5;
    if (!pair_share_) x[pair_at] = pair / peak;
    x.segment(first(), softwares_).setConstant(launch);
    x.segment(first() + softwares_, softwares_).setConstant(bandwidth);
    return x;
  }

  VectorXd roofline(const model::Device& device) const {
    return vector_of(works_,
                     [&](const auto& each) { return roofline_seconds(each.first, device, device.bf16_peak.value()); });
  }

  Index rates() const { return first() + 2 * softwares_; }

 private:
  Index first() const { return pair_share_ ? pair_at : pair_at + 1; }

  std::vector<std::pair<model::AttentionWork, Index>> works_;  // and software
  double sms_;
  Index softwares_;
  std::optional<double> pair_share_;
};

// Returns half the range of ln rate over the softwares when each has a rate of its own.
double half_spread(const AttentionForm& form, const VectorXd& seconds, const VectorXd& fitted, Index softwares) {
  if (softwares < 2) return 0;
  VectorXd x(fitted.size() + softwares - 1);
  x << fitted, VectorXd::Ones(softwares - 1);
  // The first software keeps the common rate, so that no factor is free.
  const Form relative = [&](const VectorXd& y) -> VectorXd {
    VectorXd all(fitted.size() + softwares);
    all << y.head(fitted.size()), VectorXd::Ones(1), y.tail(softwares - 1);
    return form(all);
  };
  const LogFit fit = log_fit(relative, seconds, x, {});
  const VectorXd factors = fit.values.tail(softwares - 1).array().log();
  return (std::max(0.0, factors.maxCoeff()) - std::min(0.0, factors.minCoeff())) / 2;
}

model::AttentionWork training_work(TrainingAttentionRow row, bool skips_window) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  if (!skips_window) row.window = 0;
  return {.batch_heads = real(row.batch * row.heads),
          .kv_heads_batch = real(row.batch * row.kv_heads),
          .queries = real(row.queries),
          .pairs_per_query = row.keys_per_query(),
          .qk_dim = real(row.qk_dim),
          .v_dim = real(row.v_dim),
          .backward = row.backward,
          .keys = real(row.keys),
          .longest = row.window > 0 ? real(std::min(row.window, row.keys)) : 0,
          .element_bytes = operand_bytes(row.format)};
}

// Returns whether rows in a window take less than three times as long at twice the length, in the median. Without such
// rows all do but a backward pass in fewer than 16 bits.
bool skip_windows(const std::vector<TrainingAttentionRow>& rows) {
  std::vector<double> growth;
  for (const TrainingAttentionRow& row : rows)
    for (const TrainingAttentionRow& longer : rows)
      if (row.window > 0 && longer.window == row.window && longer.heads == row.heads && longer.qk_dim == row.qk_dim &&
          longer.keys == 2 * row.keys && longer.batch == row.batch)
        growth.push_back(longer.seconds / row.seconds);
  constexpr double middle = 0.5, between = 3;  // 2 and 4
  if (growth.empty()) return rows.empty() || !rows.front().backward || operand_bytes(rows.front().format) >= 2;
  return model::quantile(growth, middle) < between;
}

enum CachedNumber : Index { request_at, cached_ramp_at, ramp_time_at, merge_at, cached_rate_at, first_start_at };

// All softwares of a table: after the common constants a start of each, then a bandwidth of each.
class CachedAttentionForm {
 public:
  CachedAttentionForm(const std::vector<CachedAttentionRow>& rows, const std::vector<std::string>& softwares,
                      const FitMachine& machine)
      : softwares_(static_cast<Index>(softwares.size())),
        peak_(rows.front().format == "fp8" ? std::max(machine.device.fp8_peak.value(), machine.device.bf16_peak.value())
                                           : machine.device.bf16_peak.value()),
        memory_(machine.device.memory_bandwidth.value()),
        least_rows_(rows.front().latent() ? latent_rows : 1) {
    for (const CachedAttentionRow& row : rows)
      works_.emplace_back(cached_work(row), std::ranges::find(softwares, row.software) - softwares.begin());
  }

  model::CachedAttentionConstants constants(const VectorXd& x, Index software) const {
    return {.start = x[first_start_at + software],
            .request_time = x[request_at],
            .bandwidth = below(memory_, x[first_start_at + softwares_ + software]),
            .rate = below(peak_, x[cached_rate_at]),
            .ramp = x[cached_ramp_at],
            .ramp_time = x[ramp_time_at],
            .merge_time = x[merge_at],
            .least_rows = least_rows_};
  }

  VectorXd operator()(const VectorXd& x) const {
    return vector_of(works_, [&](const auto& each) {
      return cached_attention_parts(constants(x, each.second), each.first).total();
    });
  }

  VectorXd start() const {
    constexpr double request = 5e-9, ramp = 5e-6, ramp_time = 10e-6, merge = 10e-9, start = 12e-6, share = 0.9;
    VectorXd x(first_start_at + 2 * softwares_);
    x.head(first_start_at) << request, ramp, ramp_time, merge, share;
    x.segment(first_start_at, softwares_).setConstant(start);
    x.tail(softwares_).setConstant(share);
    return x;
  }

  // The constants of a shape that few rows depend on stay near their start.
  VectorXd prior() const {
    constexpr double weak = 10, none = 20;
    VectorXd deviations = VectorXd::Constant(first_start_at + 2 * softwares_, none);
    deviations.head(cached_rate_at).setConstant(weak);
    return deviations;
  }

  VectorXd roofline() const {
    return vector_of(works_, [&](const auto& each) {
      return std::max(cached_attention_flops(each.first) / peak_, cached_attention_bytes(each.first) / memory_);
    });
  }

 private:
  std::vector<std::pair<model::CachedAttentionWork, Index>> works_;  // and software
  Index softwares_;
  double peak_, memory_, least_rows_;
};

struct ScanTableWork {
  double flops = 0, bytes = 0, waits = 0;  // waits: chunks
};

ScanTableWork scan_table_work(const ScanRow& row, double sms) {
  constexpr double element = 2;  // BF16
  const model::Recurrence recurrence = row.shape();
  const model::ScanWork one = model::chunked_scan_work(recurrence, element, row.backward, true);
  const double norms = row.norms_inside ? 0 : model::scan_norm_bytes(recurrence, element, row.backward);
  const auto sequences = static_cast<double>(row.sequences), tokens = static_cast<double>(row.tokens);
  const double heads = sequences * tokens * static_cast<double>(row.value_heads);
  return {heads * one.flops, heads * (one.bytes - norms), model::waiting_chunks(recurrence, sequences, tokens, sms)};
}

// What chunks wait for shows where few blocks run.
bool leaves_most_idle(const ScanRow& row, double sms) {
  constexpr double most = 0.5;
  const auto tokens = static_cast<double>(row.tokens), chunks = tokens / static_cast<double>(row.chunk);
  return model::waiting_chunks(row.shape(), static_cast<double>(row.sequences), tokens, sms) > most * chunks;
}

}  // namespace

AttentionTableFit fit_attention_table(const std::vector<AttentionRow>& rows, const FitMachine& machine,
                                      std::optional<double> pair_share) {
  const std::vector<std::string> softwares = model::distinct(rows, &AttentionRow::software);
  const std::vector<bool> held = marked(rows, [](const AttentionRow& row) {
    return is_held_out(fmt::format("{}-{}-{}-{}-{}", row.batch, row.tokens, row.heads, row.kv_heads, row.dim));
  });
  const auto training = selected(rows, held, false);
  const AttentionForm form(training, softwares, machine, pair_share);
  const VectorXd seconds = seconds_of(training);
  const LogFit solution = log_fit(form, seconds, form.start(machine.device.bf16_peak.value()), {});
  AttentionTableFit fit{.constants = form.constants(solution.values, 0)};
  const AttentionConstants& c = fit.constants;
  fit.constants.kv_bandwidth = 0;
  const double spread = half_spread(form, seconds, solution.values, static_cast<Index>(softwares.size()));
  const VectorXd& sd = solution.uncertainty;
  const double none = std::numeric_limits<double>::infinity();
  fit.fitted = {{"rate", c.rate, "TFLOP/s", std::max(sd[per_dim_at], spread)},
                {"row_time", c.row_time, "ps", sd[row_at]},
                {"tail", c.tail, "1", sd[tail_at]},
                {"pair_time", c.pair_time, "fs", pair_share ? none : sd[pair_at]}};
  std::vector<Index> written = {per_dim_at, row_at, tail_at};
  if (!pair_share) written.push_back(pair_at);
  fit.correlation = correlation_of(solution, written, {-1, 1, 1, 1});
  fit.held_out.family = "attention";
  fit.held_out.table = fmt::format("{}", fmt::join(softwares, ", "));
  const AttentionForm all(rows, softwares, machine, pair_share);
  add_errors(all(solution.values), all.roofline(machine.device), seconds_of(rows), held,
             marked(rows, [](const AttentionRow& row) { return row.tokens >= training_tokens; }), fit.held_out);
  return fit;
}

TrainingAttentionFit fit_training_attention(const std::vector<TrainingAttentionRow>& table, const FitMachine& machine,
                                            const AttentionConstants& known, double times, double longest) {
  std::vector<TrainingAttentionRow> used;
  std::ranges::copy_if(table, std::back_inserter(used), [&](const TrainingAttentionRow& row) {
    return row.mask == "causal" && !row.deterministic && row.seconds <= longest;
  });
  std::vector<FormRow<TrainingAttentionRow>> rows;
  for (const TrainingAttentionRow& r : used)
    rows.push_back({fmt::format("{}-{}-{}-{}-{}-{}-{}-{}-{}", r.batch, r.heads, r.kv_heads, r.qk_dim, r.v_dim,
                                r.queries, r.keys, r.mask, r.window),
                    r, r.seconds * times, r.queries >= training_tokens});
  const std::vector<bool> held = held_rows(rows);
  TrainingAttentionFit fit;
  fit.rows = used.size();
  if (std::ranges::find(held, false) == held.end()) return fit;
  const auto sms = static_cast<double>(machine.device.sms);
  const bool fits_pairs = used.front().format != "bf16";
  fit.skips_window = skip_windows(used);
  constexpr double dim = 1, row = 5e5;  // from the peak, in seconds times FLOP/s
  const double peak = datasheet_peak(machine.device, used.front().format);
  using C = AttentionConstants;
  std::vector<FormNumber<C>> numbers = {{"rate", &C::rate, "TFLOP/s", dim / peak, 20, 0, 2},
                                        {"row_time", &C::row_time, "ps", row / peak}};
  if (fits_pairs) numbers.push_back({"pair_time", &C::pair_time, "fs", known.pair_time});
  static_cast<TableFit<C>&>(fit) = fit_numbers(
      rows, held, FormNumbers<C>(numbers, known),
      [&](const C& c, const TrainingAttentionRow& each) {
        return attention_seconds(c, training_work(each, fit.skips_window), sms, sms);
      },
      [&](const TrainingAttentionRow& each) {
        return roofline_seconds(training_work(each, true), machine.device, peak);
      });
  fit.held_out.family = fits_pairs ? "quantized attention training" : "attention training";
  return fit;
}

model::CachedAttentionWork cached_work(const CachedAttentionRow& row) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double columns = real(row.latent() ? row.qk_dim : row.qk_dim + row.v_dim);
  return {.requests = real(row.batch),
          .queries = real(row.queries),
          .query_heads = real(row.heads),
          .kv_heads = real(row.kv_heads),
          .pairs_per_query = real(row.keys),
          .keys = real(row.keys),
          .qk_dim = real(row.qk_dim),
          .v_dim = real(row.v_dim),
          .key_value_bytes = real(row.kv_heads) * columns * (row.format == "fp8" ? 1 : 2)};
}

CachedAttentionTableFit fit_cached_attention_table(const std::vector<CachedAttentionRow>& rows,
                                                   const FitMachine& machine) {
  const std::vector<std::string> softwares = model::distinct(rows, &CachedAttentionRow::software);
  const std::vector<bool> held = marked(rows, [](const CachedAttentionRow& row) {
    return is_held_out(
        fmt::format("{}-{}-{}-{}-{}-{}", row.batch, row.queries, row.keys, row.heads, row.kv_heads, row.qk_dim));
  });
  const auto training = selected(rows, held, false);
  const CachedAttentionForm form(training, softwares, machine);
  const LogFit solution = log_fit(form, seconds_of(training), form.start(), {.prior = form.prior()});
  const auto count = static_cast<Index>(softwares.size());
  CachedAttentionTableFit fit;
  fit.constants = form.constants(solution.values, 0);
  std::vector<double> starts, bandwidths;
  double start_error = 0, bandwidth_error = 0;
  const CachedAttentionForm all(rows, softwares, machine);
  const VectorXd predicted = all(solution.values), roofline = all.roofline(), measured = seconds_of(rows);
  for (Index i = 0; i < count; ++i) {
    const model::CachedAttentionConstants own = form.constants(solution.values, i);
    const std::string& software = softwares[static_cast<std::size_t>(i)];
    fit.softwares.push_back({software, own.start, own.bandwidth});
    starts.push_back(own.start);
    bandwidths.push_back(own.bandwidth);
    start_error = std::max(start_error, solution.uncertainty[first_start_at + i]);
    const Index bandwidth_at = first_start_at + count + i;
    bandwidth_error =
        std::max(bandwidth_error, solution.uncertainty[bandwidth_at] * share_below(solution.values[bandwidth_at]));
    const std::vector<bool> its = marked(rows, [&](const CachedAttentionRow& row) { return row.software == software; });
    HeldOut errors{.family = rows.front().latent() ? "decode_mla" : "decode_attention",
                   .table = fmt::format("{} {}", software, rows.front().format)};
    const auto its_rows = selected(rows, its, true);
    add_errors(selected(predicted, its, true), selected(roofline, its, true), selected(measured, its, true),
               selected(held, its, true),
               marked(its_rows, [](const CachedAttentionRow& row) { return row.keys >= training_tokens; }), errors);
    fit.held_out.push_back(std::move(errors));
  }
  model::CachedAttentionConstants& c = fit.constants;
  const double start_spread = half_range(starts, c.start), bandwidth_spread = half_range(bandwidths, c.bandwidth);
  const VectorXd& sd = solution.uncertainty;
  fit.fitted = {{"start", c.start, "us", std::max(start_error, start_spread)},
                {"bandwidth", c.bandwidth, "TB/s", std::max(bandwidth_error, bandwidth_spread)},
                {"rate", c.rate, "TFLOP/s", sd[cached_rate_at] * share_below(solution.values[cached_rate_at])},
                {"request_time", c.request_time, "ns", sd[request_at]},
                {"ramp", c.ramp, "us", sd[cached_ramp_at]},
                {"ramp_time", c.ramp_time, "us", sd[ramp_time_at]},
                {"merge_time", c.merge_time, "ns", sd[merge_at]}};
  return fit;
}

TableFit<ScanConstants> fit_scan_table(const std::vector<ScanRow>& rows, const FitMachine& machine,
                                       const ScanConstants& known) {
  using C = ScanConstants;
  constexpr double share = 0.25, chunk_time = 1e-6;  // where the fit starts
  const auto sms = static_cast<double>(machine.device.sms);
  std::vector<FormRow<ScanTableWork>> works;
  for (const ScanRow& row : rows)
    works.push_back({fmt::format("{}-{}-{}-{}", row.sequences, row.tokens, row.key_heads, row.value_heads),
                     scan_table_work(row, sms), row.seconds, true});
  std::vector<FormNumber<C>> determined = {{"gemm_share", &C::gemm_share, "1", share}};
  if (std::ranges::any_of(rows, [&](const ScanRow& row) { return leaves_most_idle(row, sms); }))
    determined.push_back({"chunk_time", &C::chunk_time, "us", chunk_time});
  const FormNumbers<C> numbers(std::move(determined), known);
  const C ideal{
      .bandwidth = machine.device.memory_bandwidth.value(), .rate = machine.device.bf16_peak.value(), .gemm_share = 1};
  const auto seconds = [](const C& c, const ScanTableWork& work) {
    return work.bytes / c.bandwidth + work.flops / (c.rate * c.gemm_share) + work.waits * c.chunk_time;
  };
  TableFit<C> fit = fit_numbers(works, held_rows(works), numbers, seconds,
                                [&](const ScanTableWork& work) { return seconds(ideal, work); });
  fit.held_out.family = "scan";
  std::set<std::string> softwares;
  for (const ScanRow& row : rows) softwares.insert(row.software);
  fit.held_out.table = fmt::format("{} {} {}", fmt::join(softwares, " and "), rows.front().recurrence,
                                   rows.front().backward ? "backward" : "forward");
  return fit;
}

}  // namespace plumbline::calibrate
