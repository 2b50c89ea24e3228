// Published training steps with their predictions, as text.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/validate/published_steps.h"
#include "reports/text/compare/validation_report.h"
#include "reports/text/format.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using calibrate::ComparedStep;
using calibrate::StepComparison;
using calibrate::StepErrors;

std::string error_text(std::optional<double> error) { return error ? fmt::format("{:+.1f}%", *error * 100) : "-"; }

std::string baseline_name(const StepComparison& comparison) {
  return fmt::format("MFU {:.0f} %", comparison.definition.naive_mfu * 100);
}

// Returns the table of rows with a prediction that share set and hardware, from `first` on; moves `first` past them.
std::string next_table(const StepComparison& comparison, std::size_t& first) {
  Table table({{"row"},
               {"model"},
               {"GPUs", Align::right},
               {"layout"},
               {"measured", Align::right},
               {"predicted, s", Align::right},
               {"error", Align::right},
               {baseline_name(comparison), Align::right}});
  const calibrate::PublishedStep& group = comparison.steps[first].step;
  bool any = false;
  for (; first < comparison.steps.size(); ++first) {
    const ComparedStep& row = comparison.steps[first];
    if (row.step.set != group.set || row.step.hardware != group.hardware) break;
    if (!row.predicted) continue;
    any = true;
    table.add({row.step.id, row.step.model, fmt::format("{}", row.step.numbers.at("gpus")), row.step.layout(),
               number(*row.step.seconds), number(*row.predicted), error_text(row.prediction_error()),
               error_text(row.baseline_error())});
  }
  return any ? fmt::format("{}, {}:\n{}\n", group.set, group.hardware, table.to_string()) : "";
}

std::string steps_table(const StepComparison& comparison) {
  std::string out;
  for (std::size_t first = 0; first < comparison.steps.size();) out += next_table(comparison, first);
  return out;
}

std::string memory_table(const StepComparison& comparison) {
  Table table("row | model | layout | >measured, GB | >predicted | >difference | ");
  bool any = false;
  for (const ComparedStep& row : comparison.steps) {
    if (!row.peak_bytes || !row.step.memory_bytes) continue;
    any = true;
    const double difference = *row.peak_bytes - *row.step.memory_bytes;
    table.add({row.step.id, row.step.model, row.step.layout(), gigabytes(*row.step.memory_bytes),
               gigabytes(*row.peak_bytes), fmt::format("{:+.1f}", difference / 1e9),
               *row.peak_bytes <= row.capacity_bytes ? "fits" : "does not fit"});
  }
  return any ? paragraph("Memory of the fullest GPU:") + table.to_string() + "\n" : "";
}

void add_errors(const std::string& name, std::string_view who, const StepErrors& errors, Table& table) {
  table.add({name, std::string(who), errors.rows > 0 ? fmt::format("{}", errors.rows) : "",
             fmt::format("{:.1f}%", errors.median_absolute * 100), error_text(errors.largest),
             fmt::format("{:.1f}%", errors.mean_absolute * 100), error_text(errors.bias)});
}

std::string summary_table(const StepComparison& comparison) {
  Table table("set | by | >rows | >median | >largest | >mean absolute | >bias");
  const auto add = [&](const calibrate::StepSummary& summary) {
    add_errors(summary.name, "prediction", summary.prediction, table);
    add_errors("", baseline_name(comparison), summary.baseline, table);
  };
  for (const calibrate::StepSummary& summary : comparison.summaries) add(summary);
  for (const calibrate::ComparedDemand& row : comparison.demands) add(row.summary);
  return table.to_string();
}

std::string demand_lines(const StepComparison& comparison) {
  std::string out;
  for (const calibrate::ComparedDemand& row : comparison.demands) {
    const auto aim = [](std::optional<double> value) {
      return value ? fmt::format(" (aim {})", percent(*value)) : std::string();
    };
    out += paragraph(fmt::format(
        "{}: tolerated are a mean absolute error of {}{} and a bias of {}{}, and never one worse than the baseline: "
        "{}.",
        row.demand.name, percent(row.demand.mean_absolute_error), aim(row.demand.aim_mean_absolute_error),
        percent(row.demand.bias), aim(row.demand.aim_bias),
        !row.holds()        ? "EXCEEDED"
        : row.reaches_aim() ? "within"
                            : "short of aim"));
  }
  return out;
}

// Notes as "what: row, row" for each text, in order of its first row.
using Notes = std::vector<std::pair<std::string, std::vector<std::string>>>;

void note(Notes& notes, const std::string& text, const std::string& id) {
  auto found = std::ranges::find(notes, text, &Notes::value_type::first);
  if (found == notes.end()) found = notes.insert(notes.end(), {text, {}});
  found->second.push_back(id);
}

std::string note_lines(std::string_view title, const Notes& notes) {
  std::string out;
  for (const auto& [text, ids] : notes) out += paragraph(fmt::format("{}: {}", text, fmt::join(ids, ", ")));
  return notes.empty() ? "" : fmt::format("\n{}\n{}", title, out);
}

std::string notes_of(const StepComparison& comparison) {
  Notes lacking, errors, missing, assumed;
  for (const ComparedStep& row : comparison.steps) {
    const std::string& id = row.step.id;
    if (!row.lacking.empty()) note(lacking, fmt::format("{}", fmt::join(row.lacking, ", ")), id);
    if (row.error) note(errors, row.error->message, id);
    if (!row.predicted) continue;
    for (const std::string& text : row.missing) note(missing, text, id);
    for (const std::string& column : row.step.assumed) note(assumed, column, id);
  }
  return note_lines("Rows without a plan, by what they lack:", lacking) +
         note_lines("Rows whose plan is not simulated:", errors) + note_lines("Not modelled:", missing) +
         note_lines("Assumed, because the source does not state it:", assumed);
}

}  // namespace

std::string step_table(const StepComparison& comparison) {
  const calibrate::StepCase& definition = comparison.definition;
  std::string out = definition.name + "\n\n" + steps_table(comparison) + memory_table(comparison);
  out += paragraph("Relative errors of the predicted rows:") + summary_table(comparison) + "\n";
  out += demand_lines(comparison) + notes_of(comparison) + "\n";
  return out + paragraph(fmt::format("baseline, {} of the dense 16-bit peak: {}", baseline_name(comparison),
                                     definition.naive_source));
}

}  // namespace plumbline::reports
