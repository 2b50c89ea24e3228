#include <fmt/format.h>

#include <algorithm>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using model::CachedAttentionConstants;

enum CachedNumber : Index { request_at, cached_ramp_at, ramp_time_at, merge_at, cached_rate_at, first_start_at };

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

  CachedAttentionConstants constants(const VectorXd& x, Index software) const {
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

}  // namespace

CachedAttentionTableFit fit_cached_attention_table(const std::vector<CachedAttentionRow>& rows,
                                                   const FitMachine& machine) {
  std::vector<std::string> softwares;
  std::vector<bool> held;
  for (const CachedAttentionRow& row : rows) {
    if (std::ranges::find(softwares, row.software) == softwares.end()) softwares.push_back(row.software);
    held.push_back(is_held_out(
        fmt::format("{}-{}-{}-{}-{}-{}", row.batch, row.queries, row.keys, row.heads, row.kv_heads, row.qk_dim)));
  }
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
    const CachedAttentionConstants own = form.constants(solution.values, i);
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
  fit.start_deviation = std::max(start_error, half_range(starts, fit.constants.start));
  fit.bandwidth_deviation = std::max(bandwidth_error, half_range(bandwidths, fit.constants.bandwidth));
  fit.request_deviation = solution.uncertainty[request_at];
  fit.rate_deviation = solution.uncertainty[cached_rate_at] * share_below(solution.values[cached_rate_at]);
  fit.ramp_deviation = solution.uncertainty[cached_ramp_at];
  fit.ramp_time_deviation = solution.uncertainty[ramp_time_at];
  fit.merge_deviation = solution.uncertainty[merge_at];
  return fit;
}

}  // namespace plumbline::calibrate
