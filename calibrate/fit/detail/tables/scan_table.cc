#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
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
  model::Recurrence recurrence{.kind = row.recurrence == "gated_delta" ? model::RecurrenceKind::gated_delta
                                                                       : model::RecurrenceKind::channel_delta,
                               .key_heads = row.key_heads,
                               .value_heads = row.value_heads,
                               .key_dim = row.key_dim,
                               .value_dim = row.value_dim};
  const model::ScanWork one = model::chunked_scan_work(recurrence, element, row.backward, true);
  const double norms = row.norms_inside ? 0 : model::scan_norm_bytes(recurrence, element, row.backward);
  const auto sequences = static_cast<double>(row.sequences), tokens = static_cast<double>(row.tokens);
  const double heads = sequences * tokens * static_cast<double>(row.value_heads);
  return {heads * one.flops, heads * (one.bytes - norms), model::waiting_chunks(recurrence, sequences, tokens, sms)};
}

}  // namespace

TableFit<ScanConstants> fit_scan_table(const std::vector<ScanRow>& rows, const FitMachine& machine,
                                       const ScanConstants& known) {
  using C = ScanConstants;
  constexpr double share = 0.25, chunk_time = 1e-6;  // where the fit starts
  std::vector<FormRow<ScanTableWork>> works;
  for (const ScanRow& row : rows)
    works.push_back({fmt::format("{}-{}-{}-{}", row.sequences, row.tokens, row.key_heads, row.value_heads),
                     scan_table_work(row, static_cast<double>(machine.device.sms)), row.seconds, true});
  const FormNumbers<C> numbers(
      {{"gemm_share", &C::gemm_share, "1", share}, {"chunk_time", &C::chunk_time, "us", chunk_time}}, known);
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
