// Validation cases as text and as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/held_out.h"
#include "calibrate/ledger/ledger.h"
#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/component_case.h"
#include "calibrate/validate/serving/serving_case.h"
#include "calibrate/validate/step_case.h"

namespace plumbline::reports {

// Returns every figure by every profile, the tolerances of the plan's own profile, and the sources.
std::string validation_table(const calibrate::EvaluatedCase& evaluated);

// Returns published training steps next to predictions, their memory, the errors and the tolerances.
std::string step_table(const calibrate::StepComparison& comparison);

// Returns published deployments next to predictions and a roofline, the errors by set, order and ratios of tensor
// degrees, and why rows are not predicted.
std::string serving_table(const calibrate::ServingComparison& comparison);

// Returns the scores of intervals by set and over all, and the verdict; nothing without intervals.
std::string interval_table(const calibrate::IntervalScores& scores);
// Draws the probability integral transform by set and over all as an SVG document.
std::string interval_chart_svg(const calibrate::IntervalScores& scores);
// Returns the entries of a ledger that are measured with their scores and coverage, then those that are open.
std::string ledger_table(const std::vector<calibrate::LedgerEntry>& entries);
std::string ledger_json(const std::vector<calibrate::LedgerEntry>& entries);
std::string ledger_csv(const std::vector<calibrate::LedgerEntry>& entries);

// Names by the text that they share, as tables list them below their rows: each once, in order of their first row.
using Notes = std::vector<std::pair<std::string, std::vector<std::string>>>;
void note(Notes& notes, const std::string& text, const std::string& name);

// The compared cases of all kinds.
struct ValidationOutcome {
  std::vector<calibrate::EvaluatedCase> figures = {};
  std::vector<calibrate::StepComparison> steps = {};
  std::vector<calibrate::ComponentComparison> components = {};
  std::vector<calibrate::ServingComparison> serving = {};
  bool complete = true;  // false: it was stopped, and cases are missing
};
std::string validation_json(const ValidationOutcome& outcome);
// Returns the tables of all cases one after the other: the first columns are the case and the list of its JSON.
std::string validation_csv(const ValidationOutcome& outcome);

// Errors of fits to component tables on the shapes that the fits did not use.

// Returns a table of one GPU's families, each with its tables and the errors of a datasheet roofline; empty without
// rows.
std::string held_out_text(const std::string& gpu, const std::vector<calibrate::HeldOut>& tables);

// Returns the families of every profile with their goals.
std::string component_table(const calibrate::ComponentComparison& comparison);

}  // namespace plumbline::reports
