#include "reports/text/fit_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using calibrate::FitRecords;
using calibrate::FittedFamily;
using calibrate::ProfileFit;

// Median and largest of the absolute values, "-" of none.
std::pair<std::string, std::string> errors_text(std::vector<double> errors) {
  if (errors.empty()) return {"-", "-"};
  for (double& error : errors) error = std::abs(error);
  std::ranges::sort(errors);
  const double median = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  return {fmt::format("{:.1f} %", 100 * median), fmt::format("{:.1f} %", 100 * errors.back())};
}

}  // namespace

std::string machine_text(const FitRecords& records) {
  return records.clock.empty() ? records.device : fmt::format("{}, {} clock", records.device, records.clock);
}

std::string fit_text(const ProfileFit& fit, const FitRecords& records) {
  Table table({{"family"},
               {"records", Align::right},
               {"median error", Align::right},
               {"largest", Align::right},
               {"left out", Align::right},
               {"largest", Align::right}});
  for (const FittedFamily& family : fit.families) {
    const auto [median, largest] = errors_text(family.errors);
    const auto [left_out, largest_left_out] = errors_text(family.left_out);
    table.add({family.name, fmt::format("{}", family.records), median, largest, left_out, largest_left_out});
  }
  return fmt::format(
      "{}, {}\n{} constants: {} operators as measured, {} of forms\n\n{}\n"
      "Errors of the forms; left out: of each record when fitted to the others. An\n"
      "operator that was measured takes its own time, whatever the form says.\n",
      machine_text(records), records.date.empty() ? "no date" : records.date, fit.parameters.size(),
      fit.measured_operators, fit.parameters.size() - fit.measured_operators, table.to_string());
}

}  // namespace plumbline::reports
