#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "cli/compare_plans.h"
#include "reports/text/describe.h"
#include "reports/text/format.h"
#include "reports/text/paragraph.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using model::ComparedTime;
using model::PredictionError;
using reports::Align;
using reports::Table;

// First columns of one width line the three tables up.
Table table_of(const std::string& title, const std::string& last) {
  return Table({{fmt::format("{:<26}", title)},
                {"predicted", Align::right},
                {" measured", Align::right},
                {"   error", Align::right},
                {last, Align::right}});
}

// Shares below a twentieth of a percent are 0 without a sign.
std::string share(double value) { return reports::signed_percent(std::abs(value) < 5e-4 ? 0.0 : value); }

std::string error_text(const ComparedTime& row) {
  const auto error = row.error();
  return error ? share(*error) : "-";
}

void add(Table& table, const std::string& name, const ComparedTime& row, const std::string& last) {
  table.add({name, reports::duration(row.predicted_s.value_or(0)), reports::duration(row.measured_s.value_or(0)),
             error_text(row), last});
}

// Rows that add up to the step, and the step.
std::string parts_table(const PredictionError& error, const std::string& title, const std::vector<ComparedTime>& rows,
                        const std::vector<std::string>& names) {
  Table table = table_of(title, "of the step");
  for (std::size_t i = 0; i < rows.size(); ++i) add(table, names[i], rows[i], share(error.contribution(rows[i])));
  table.add_rule();
  add(table, "step", error.step, share(error.contribution(error.step)));
  return table.to_string();
}

std::string slot_tables(const PredictionError& error) {
  Table each = table_of("one slot of rank 0", "count");
  std::vector<std::string> names;
  for (const model::SlotPrediction& slot : error.slots) {
    names.emplace_back(reports::describe(slot.kind));
    add(each, names.back(), slot.each, fmt::format("{}", slot.count));
  }
  for (std::size_t i = names.size(); i < error.parts.size(); ++i) names.push_back(error.parts[i].name);
  return each.to_string() + "\n" + parts_table(error, "all slots of rank 0", error.parts, names);
}

std::string class_table(const PredictionError& error) {
  std::vector<std::string> names;
  for (const ComparedTime& row : error.classes) names.push_back(row.name);
  return parts_table(error, "class of operator, rank 0", error.classes, names);
}

std::string differences(const PlanComparison::MeasuredPair& pair) {
  if (pair.plans.empty()) return "";
  std::string text = "What was predicted is not what was executed: ";
  for (const PlanComparison::PlanDifference& difference : pair.plans) {
    const bool first = &difference == &pair.plans.front();
    text += fmt::format("{}{} (predicted {}, measured {})", first ? "" : "; ", difference.key, difference.predicted,
                        difference.measured);
  }
  return reports::paragraph(text + ".");
}

}  // namespace

std::string measured_pair_text(const PlanComparison::MeasuredPair& pair) {
  std::string text =
      fmt::format("\n  {} predicted, {} measured\n", subject_letter(pair.predicted), subject_letter(pair.measured));
  text += differences(pair);
  if (pair.error.slots.empty()) {
    text += reports::paragraph("The slots of rank 0 do not correspond: no table of them.");
  } else {
    text += slot_tables(pair.error);
  }
  text += "\n" + class_table(pair.error);
  return pair.overlapped ? text + "\n" + overlapped_pairs_text(*pair.overlapped) : text;
}

}  // namespace plumbline::cli
