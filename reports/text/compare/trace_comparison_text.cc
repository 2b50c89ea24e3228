#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "reports/text/compare/comparison.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using model::ComparedTime;

constexpr double per_milli = 1e3, per_micro = 1e6;

std::string time_in(const std::optional<double>& seconds, double unit, int digits) {
  return seconds ? fixed(*seconds * unit, digits) : "-";
}

std::string error_of(const ComparedTime& row) {
  const auto error = row.error();
  return error ? signed_percent(*error) : "";
}

// Returns a table of predicted and measured times behind its first columns, and the cells of a row.
Table compared_table(std::vector<Column> first, std::string_view unit) {
  first.push_back({fmt::format("predicted, {}", unit), Align::right});
  first.push_back({fmt::format("measured, {}", unit), Align::right});
  first.push_back({"error", Align::right});
  return Table(std::move(first));
}
std::vector<std::string> compared_cells(std::string name, const ComparedTime& row, double unit, int digits) {
  return {std::move(name), time_in(row.predicted_s, unit, digits), time_in(row.measured_s, unit, digits),
          error_of(row)};
}

std::string trace_heading(const TraceComparisonOutput& output) {
  const calibrate::TraceComparison& c = output.comparison;
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
  Table table = compared_table({{std::string(title)}}, "ms");
  for (const ComparedTime& row : rows) table.add(compared_cells(row.name, row, per_milli, 3));
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

std::string gemm_table(const std::vector<calibrate::ComparedGemm>& gemms) {
  if (gemms.empty()) return "";
  constexpr std::size_t most = 20;
  Table table("GEMM, M x N x K | kind | >count | >kernels | >predicted, us | >measured, us | >TFLOP/s | >error");
  for (std::size_t i = 0; i < std::min(most, gemms.size()); ++i) {
    const calibrate::ComparedGemm& gemm = gemms[i];
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

std::string unmatched_text(const calibrate::TraceComparison& c) {
  if (c.unmatched.empty()) return "";
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, c.unmatched.size()); ++i)
    names.push_back(fmt::format("{} ({} of them, {})", c.unmatched[i].name, c.unmatched[i].count,
                                duration(c.unmatched[i].seconds)));
  return "\n" + wrapped(fmt::format("Not matched, the longest: {}.", fmt::join(names, ", ")));
}

std::string worst_text(const calibrate::TraceComparison& c) {
  if (c.worst.empty()) return "";
  Table table("the largest differences | >ms more | what to try");
  for (const calibrate::TraceDifference& difference : c.worst)
    table.add({difference.what, fmt::format("{:+.3f}", (difference.measured_s - difference.predicted_s) * per_milli),
               difference.advice});
  return "\n" + table.to_string();
}

using model::TimelineComparison;

std::string slots_text(const model::TimelineSummary& summary) {
  return summary.slots == 0 ? "of unknown phases"
                            : fmt::format("of {} {} of layers", summary.slots, summary.slots == 1 ? "pair" : "pairs");
}

std::string chunk_heading(const ChunkComparisonOutput& output) {
  const TimelineComparison& c = output.comparison.times;
  std::string text = wrapped(
      fmt::format("predicted  {}, profile {}: chunk {}", output.plan_name, output.profile, slots_text(c.predicted)));
  text += wrapped(fmt::format("measured   {}: {} kernels, chunk {}", output.chunk_path, output.kernels,
                              slots_text(c.measured))) +
          "\n";
  if (!c.same_slots)
    return text + wrapped(
                      "The two do not run the same layers, or the measurement does not name which kernel belongs to "
                      "which: totals and classes stand side by side without errors (shares may be compared), phases "
                      "and GEMMs are "
                      "left out.");
  const std::string_view rows =
      output.comparison.rows_given ? "the measured rank's" : "the expected ones (no rows= in the notes)";
  const std::string_view waits = output.comparison.waits_given ? "the measured rank's" : "predicted, mean of the group";
  return text + wrapped(fmt::format("Inputs of the prediction: expert rows {}; waits in barriers {}.", rows, waits));
}

std::string totals_text(const TimelineComparison& c) {
  Table table = compared_table({{"total"}}, "ms");
  for (const ComparedTime& row : c.totals) table.add(compared_cells(row.name, row, per_milli, 2));
  const double predicted = c.predicted.compute_share();
  const double measured = c.measured.compute_share();
  table.add({"compute busy, share", percent(predicted), percent(measured),
             c.same_slots ? fmt::format("{:+.1f} points", (predicted - measured) * 100) : ""});
  return table.to_string();
}

std::string spans_text(const TimelineComparison& c) {
  if (c.phases.empty()) return "";
  Table table = compared_table({{"slot", Align::right}, {"phase"}}, "ms");
  for (int slot = 0; slot < c.measured.slots; ++slot) {
    if (slot > 0) table.add({""});
    const auto add = [&](const ComparedTime& row) {
      if (row.slot != slot) return;
      std::vector<std::string> line = compared_cells(row.name, row, per_milli, 3);
      line.insert(line.begin(), fmt::format("{}", slot));
      table.add(std::move(line));
    };
    std::ranges::for_each(c.phases, add);
    std::ranges::for_each(c.periods, add);
  }
  return "\n" + table.to_string();
}

std::string barriers_text(const calibrate::ChunkComparison& c) {
  if (c.barriers.empty()) return "";
  Table table("slot | >pairs that follow others | >ranks that begin together | >measured rank");
  for (std::size_t i = 0; i < c.barriers.size(); ++i)
    table.row(i, time_in(c.barriers[i].following, per_milli, 3), time_in(c.barriers[i].together, per_milli, 3),
              time_in(c.measured_barriers[i], per_milli, 3));
  return "\nMilliseconds at the barriers of a pair of layers, for the mean rank of a group\nwhose rows vary as the "
         "plan "
         "states, and for the measured rank:\n\n" +
         table.to_string();
}

// Returns the names of the rows that only one side has, with their times.
std::string lone_rows(const std::vector<ComparedTime>& rows, std::optional<double> ComparedTime::*present,
                      std::optional<double> ComparedTime::*absent) {
  std::vector<std::string> names;
  for (const ComparedTime& row : rows)
    if (row.*present && !(row.*absent)) names.push_back(fmt::format("{} ({})", row.name, duration(*(row.*present))));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string classes_text(const TimelineComparison& c) {
  Table table("class | >predicted, ms | >share | >measured, ms | >share | >error");
  const auto share = [](const std::optional<double>& seconds, const model::TimelineSummary& chunk) {
    return seconds && chunk.seconds > 0 ? percent(*seconds / chunk.seconds) : "";
  };
  for (const ComparedTime& row : c.classes) {
    std::vector<std::string> line = compared_cells(row.name, row, per_milli, 2);
    line.insert(line.begin() + 2, share(row.predicted_s, c.predicted));
    line.insert(line.begin() + 4, share(row.measured_s, c.measured));
    table.add(std::move(line));
  }
  std::string text = "\n" + table.to_string();
  const std::string measured = lone_rows(c.classes, &ComparedTime::measured_s, &ComparedTime::predicted_s);
  const std::string predicted = lone_rows(c.classes, &ComparedTime::predicted_s, &ComparedTime::measured_s);
  if (!measured.empty()) text += wrapped("Measured without a counterpart: " + measured + ".");
  if (!predicted.empty()) text += wrapped("Predicted without a counterpart: " + predicted + ".");
  return text;
}

std::vector<std::string> gemm_kinds(const TimelineComparison& c) {
  std::vector<std::string> kinds;
  for (const ComparedTime& row : c.gemms)
    if (std::ranges::find(kinds, row.kind) == kinds.end()) kinds.push_back(row.kind);
  return kinds;
}

std::string gemms_text(const TimelineComparison& c) {
  if (c.gemms.empty()) return "";
  Table table = compared_table({{"GEMM, mean of the slots"}}, "us");
  bool first = true;
  for (const std::string& kind : gemm_kinds(c)) {
    if (!first) table.add({""});
    first = false;
    ComparedTime sum{"sum", 0, 0, kind};
    for (const ComparedTime& row : c.gemms) {
      if (row.kind != kind) continue;
      table.add(compared_cells(fmt::format("{} {}", row.name, kind), row, per_micro, 1));
      if (!row.predicted_s || !row.measured_s) continue;
      *sum.predicted_s += *row.predicted_s;
      *sum.measured_s += *row.measured_s;
    }
    table.add(compared_cells(fmt::format("sum of {} (what both have)", kind), sum, per_micro, 1));
  }
  return "\n" + table.to_string();
}

}  // namespace

std::string trace_comparison_text(const TraceComparisonOutput& output) {
  const calibrate::TraceComparison& c = output.comparison;
  return trace_heading(output) + rows_text("of the rank's step", c.totals) + rows_text("class", c.classes) +
         rows_text("exposed communication", c.exposed) + rows_text("phase, kernels that compute", c.phases) +
         layers_text(c.layers) + gemm_table(c.gemms) + unmatched_text(c) + worst_text(c) + "\n" +
         wrapped(
             fmt::format("Kernels count with the launch gap after them, up to {:.0f} us, on both sides. An error is "
                         "predicted over measured, less one.",
                         calibrate::launch_gap_limit * per_micro));
}

std::string chunk_comparison_text(const ChunkComparisonOutput& output) {
  const TimelineComparison& c = output.comparison.times;
  return chunk_heading(output) + "\n" + totals_text(c) + spans_text(c) + barriers_text(output.comparison) +
         classes_text(c) + gemms_text(c) + "\n" +
         wrapped(fmt::format(
             "Kernels count with the launch gap after them, up to {:.0f} us, on both sides; longer pauses are waits. "
             "Where kernels of a class overlap on two streams, the time in which one runs counts once.",
             calibrate::launch_gap_limit * per_micro));
}

}  // namespace plumbline::reports
