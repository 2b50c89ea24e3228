#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "model/result/prediction_error.h"
#include "reports/text/compare/result_comparison.h"
#include "reports/text/step/describe.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using model::ComparedTime;
using model::PredictionError;

// A first column of fixed width aligns the three tables.
Table table_of(const std::string& title, const std::string& last) {
  return Table({{fmt::format("{:<26}", title)},
                {"predicted", Align::right},
                {" measured", Align::right},
                {"   error", Align::right},
                {last, Align::right}});
}

// Returns a share; below a twentieth of a percent it is 0 without a sign.
std::string share(double value) { return signed_percent(std::abs(value) < 5e-4 ? 0.0 : value); }

std::string error_text(const ComparedTime& row) {
  const auto error = row.error();
  return error ? share(*error) : "-";
}

void add(Table& table, const std::string& name, const ComparedTime& row, const std::string& last) {
  table.add({name, duration(row.predicted_s.value_or(0)), duration(row.measured_s.value_or(0)), error_text(row), last});
}

// Returns a table of rows that add up to the step, and the step.
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
    names.emplace_back(describe(slot.kind));
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

std::string differences(const model::ResultComparison::MeasuredPair& pair) {
  if (pair.plans.empty()) return "";
  std::string text = "What was predicted is not what was executed: ";
  for (const model::ResultComparison::PlanDifference& difference : pair.plans) {
    const bool first = &difference == &pair.plans.front();
    text += fmt::format("{}{} (predicted {}, measured {})", first ? "" : "; ", difference.key, difference.predicted,
                        difference.measured);
  }
  return paragraph(text + ".");
}

// Adds the rows of a table of pairs, each with the second prediction's row of the same name where there is one.
void add_pairs(Table& table, const std::vector<ComparedTime>& rows, const std::vector<ComparedTime>& by_baseline) {
  for (const ComparedTime& row : rows) {
    std::vector<std::string> cells = {row.name, duration(row.predicted_s.value_or(0)),
                                      duration(row.measured_s.value_or(0)), error_text(row)};
    if (const auto other = std::ranges::find(by_baseline, row.name, &ComparedTime::name); other != by_baseline.end())
      cells.insert(cells.end(), {duration(other->predicted_s.value_or(0)), error_text(*other)});
    table.add(std::move(cells));
  }
}

std::string pair_table(const model::OverlappedPairs& pairs) {
  const model::OverlappedSlots& slots = pairs.predicted.slots;
  std::vector<Column> columns = {{fmt::format("overlapped pair of rank {}", slots.rank)},
                                 {"predicted", Align::right},
                                 {"measured", Align::right},
                                 {"error", Align::right}};
  if (pairs.by_baseline) columns.insert(columns.end(), {{"baseline", Align::right}, {"error", Align::right}});
  Table table(std::move(columns));
  const auto mean_of = [&](ComparedTime row) {
    row.name = fmt::format("mean of {}", slots.errors.size());
    return std::vector{std::move(row)};
  };
  const model::OverlappedPairs::Prediction other = pairs.by_baseline.value_or(model::OverlappedPairs::Prediction());
  add_pairs(table, mean_of(slots.each), pairs.by_baseline ? mean_of(other.slots.each) : std::vector<ComparedTime>());
  table.add_rule();
  add_pairs(table, slots.phases, other.slots.phases);
  if (!pairs.predicted.classes.empty()) table.add_rule();
  add_pairs(table, pairs.predicted.classes, other.classes);
  return table.to_string();
}

std::string errors_text(const model::OverlappedSlots& slots) {
  return fmt::format("median {}, from {} to {}", share(slots.median_error()), share(slots.errors.front()),
                     share(slots.errors.back()));
}

// Returns a table of the pairs, their phases and their classes of operators.
std::string overlapped_pairs_text(const model::OverlappedPairs& pairs) {
  std::string text = pair_table(pairs);
  std::string errors = fmt::format("Single pairs: {}", errors_text(pairs.predicted.slots));
  if (pairs.by_baseline)
    errors += fmt::format("; by the baseline {}: {}", pairs.baseline, errors_text(pairs.by_baseline->slots));
  return text + paragraph(errors + ". Phases overlap; classes are sums over operators.");
}

}  // namespace

std::string measured_pair_text(const model::ResultComparison::MeasuredPair& pair) {
  std::string text =
      fmt::format("\n  {} predicted, {} measured\n", subject_letter(pair.predicted), subject_letter(pair.measured));
  text += differences(pair);
  if (pair.error.slots.empty()) {
    text += paragraph("The slots of rank 0 do not correspond: no table of them.");
  } else {
    text += slot_tables(pair.error);
  }
  text += "\n" + class_table(pair.error);
  return pair.overlapped ? text + "\n" + overlapped_pairs_text(*pair.overlapped) : text;
}

}  // namespace plumbline::reports
