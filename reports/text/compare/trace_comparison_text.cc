#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "calibrate/chunk/kernel_timeline.h"
#include "reports/text/compare/trace_comparison.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using calibrate::ComparedGemm;
using calibrate::TraceComparison;
using model::ComparedTime;

constexpr double per_milli = 1e3, per_micro = 1e6;

std::string milliseconds(const std::optional<double>& seconds) {
  return seconds ? fixed(*seconds * per_milli, 3) : "-";
}

std::string error_of(const ComparedTime& row) {
  const auto error = row.error();
  return error ? signed_percent(*error) : "";
}

std::string trace_heading(const TraceComparisonOutput& output) {
  const TraceComparison& c = output.comparison;
  const auto part = [&](double seconds) { return percent(c.match.all_s > 0 ? seconds / c.match.all_s : 0); };
  const auto kernels = output.measured.kernels.size();
  std::string text =
      wrapped(fmt::format("predicted  {}, profile {}: pipeline rank {} ({})", output.plan_name, output.profile, c.rank,
                          c.rank_source)) +
      wrapped(fmt::format("measured   {}: {} kernels", output.trace_path, kernels)) + "\n" +
      wrapped(fmt::format("Of the trace's kernel time {} has a predicted kernel of its class, {} is placed by the "
                          "kernels around it, {} is not matched.",
                          part(c.match.matched_s), part(c.match.placed_s),
                          part(std::max(0.0, c.match.all_s - c.match.matched_s - c.match.placed_s))));
  for (const std::string& note : c.notes) text += wrapped(note);
  return text;
}

std::string rows_text(std::string_view title, const std::vector<ComparedTime>& rows) {
  if (rows.empty()) return "";
  Table table(fmt::format("{} | >predicted, ms | >measured, ms | >error", title));
  for (const ComparedTime& row : rows)
    table.add({row.name, milliseconds(row.predicted_s), milliseconds(row.measured_s), error_of(row)});
  return "\n" + table.to_string();
}

// Returns the layers, or of many those that differ most, in their order.
std::string layers_text(const std::vector<ComparedTime>& all) {
  constexpr std::size_t most = 12;
  std::vector<ComparedTime> rows = all;
  const auto apart = [](const ComparedTime& row) {
    return std::abs(row.measured_s.value_or(0) - row.predicted_s.value_or(0));
  };
  if (rows.size() > most) {
    std::ranges::stable_sort(rows, std::ranges::greater(), apart);
    rows.resize(most);
    std::ranges::stable_sort(rows, {}, &ComparedTime::slot);
  }
  return rows_text(rows.size() < all.size() ? fmt::format("layer, {} of {} that differ most", most, all.size())
                                            : std::string("layer, kernels that compute"),
                   rows);
}

std::string gemm_table(const std::vector<ComparedGemm>& gemms) {
  if (gemms.empty()) return "";
  constexpr std::size_t most = 20;
  Table table("GEMM, M x N x K | kind | >count | >kernels | >predicted, us | >measured, us | >TFLOP/s | >error");
  for (std::size_t i = 0; i < std::min(most, gemms.size()); ++i) {
    const ComparedGemm& gemm = gemms[i];
    const ComparedTime time{"", gemm.predicted_s, gemm.measured_s};
    table.row(gemm.shape(), gemm.kind, gemm.count,
              fixed(gemm.kernels, gemm.kernels == std::floor(gemm.kernels) ? 0 : 1),
              fixed(gemm.predicted_s * per_micro, 1), fixed(gemm.measured_s * per_micro, 1),
              fixed(gemm.flops / gemm.measured_s / tera, 0), error_of(time));
  }
  std::string text = "\n" + table.to_string();
  if (gemms.size() > most) text += wrapped(fmt::format("{} more shapes are in --json.", gemms.size() - most));
  return text;
}

std::string unmatched_text(const TraceComparison& c) {
  if (c.unmatched.empty()) return "";
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, c.unmatched.size()); ++i)
    names.push_back(fmt::format("{} ({} of them, {})", c.unmatched[i].name, c.unmatched[i].count,
                                duration(c.unmatched[i].seconds)));
  return "\n" + wrapped(fmt::format("Not matched, the longest: {}.", fmt::join(names, ", ")));
}

std::string worst_text(const TraceComparison& c) {
  if (c.worst.empty()) return "";
  Table table("the largest differences | >ms more | what to try");
  for (const calibrate::TraceDifference& difference : c.worst)
    table.add({difference.what, fmt::format("{:+.3f}", (difference.measured_s - difference.predicted_s) * per_milli),
               difference.advice});
  return "\n" + table.to_string();
}

}  // namespace

std::string trace_comparison_text(const TraceComparisonOutput& output) {
  const TraceComparison& c = output.comparison;
  return trace_heading(output) + rows_text("of the rank's step", c.totals) + rows_text("class", c.classes) +
         rows_text("exposed communication", c.exposed) + rows_text("phase, kernels that compute", c.phases) +
         layers_text(c.layers) + gemm_table(c.gemms) + unmatched_text(c) + worst_text(c) + "\n" +
         wrapped(
             fmt::format("Kernels count with the launch gap after them, up to {:.0f} us, on both sides. An error is "
                         "predicted over measured, less one.",
                         calibrate::launch_gap_limit * per_micro));
}

}  // namespace plumbline::reports
