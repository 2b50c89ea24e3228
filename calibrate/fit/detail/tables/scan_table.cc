#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/detail/tables/tables.h"
#include "model/cost/work.h"

namespace plumbline::calibrate {
namespace {

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
