#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/ledger/ledger.h"
#include "calibrate/residuals/left_estimate.h"
#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/component_case.h"
#include "calibrate/validate/serving/serving_case.h"
#include "calibrate/validate/step_case.h"
#include "cli/answers.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/make_profiles.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "reports/json/read_json.h"
#include "reports/text/compare/validation_report.h"
#include "sim/interval/step_draws.h"

namespace plumbline::cli {
namespace {

constexpr int tolerance_exit = 3;
constexpr char shipped_ledger[] = "shipped";

struct ValidateArguments {
  std::vector<std::string> cases;
  std::optional<std::string> ledger;  // a folder, an entry, or shipped_ledger
  std::string add, source;            // a result that an entry was measured by
  Outputs outputs;
};

model::Result<std::vector<std::string>> wanted_files(const std::vector<std::string>& names) {
  if (names.empty()) return shipped_case_files();
  std::vector<std::string> files;
  for (const std::string& name : names) files.push_back(TRY(resolve(Shipped::validation_case, name)));
  return files;
}

// Returns the keys of the plan that an executed step depends on: the profile only predicts.
std::vector<std::string> executed_keys(const model::Plan& plan) {
  const std::string text = calibrate::ledger_plan(plan);
  std::vector<std::string> keys;
  for (const std::string_view line : model::lines_of(text))
    if (!line.starts_with("profile = ")) keys.emplace_back(line);
  return keys;
}

// Returns the measurement that an executed result states of the entry's plan.
model::Result<calibrate::LedgerMeasurement> measurement_of(const calibrate::LedgerEntry& entry, const std::string& file,
                                                           const std::string& source) {
  const auto text = TRY(model::read_text_file(file));
  const auto stored = TRY(reports::read_result(text, file));
  if (stored.date.empty() || stored.clock == "simulated")
    return model::wrong_input_at(file, 0, "training", "not an executed step with its date",
                                 "`plumbline run PLAN --json FILE` writes one");
  // Read again, an entry of an older version has the defaults of keys that came later.
  const auto recorded = TRY(model::read_plan(entry.plan_toml, entry.path, {}));
  const auto wanted = executed_keys(recorded), found = executed_keys(stored.plan);
  const auto differs = std::ranges::mismatch(wanted, found);
  if (differs.in1 != wanted.end() || differs.in2 != found.end())
    return model::wrong_input_at(file, 0, "plan",
                                 fmt::format("another plan was executed than that of {}: {} in place of {}", entry.path,
                                             differs.in2 == found.end() ? "nothing" : *differs.in2,
                                             differs.in1 == wanted.end() ? "nothing" : *differs.in1),
                                 "run the plan that was recorded (plan_toml of the entry)");
  const model::Memory& memory = stored.result.memory;
  return calibrate::LedgerMeasurement{
      .time_s = stored.result.step.time_s,
      .peak_bytes = memory.measured && memory.peak_bytes > 0 ? std::optional(memory.peak_bytes) : std::nullopt,
      .date = stored.date,
      .source = fmt::format("{}; plumbline run, {} clock, median of {} steps", source, stored.clock,
                            stored.measured_seconds.size())};
}

// Adds the measurement to the file of its entry, which stays as it is in all other lines.
model::Result<void> add_measurement(const ValidateArguments& arguments) {
  const auto entry = TRY(calibrate::read_ledger_entry(*arguments.ledger));
  if (entry.measured)
    return model::wrong_input_at(entry.path, 0, "measured", fmt::format("it was measured at {}", entry.measured->date),
                                 "record the plan again to measure it again");
  if (arguments.source.empty())
    return model::wrong_input("--source", "a measurement needs its source",
                              "name who measured, where, and what else ran there");
  const auto measured = TRY(measurement_of(entry, arguments.add, arguments.source));
  if (measured.date < entry.date)
    return model::wrong_input_at(
        arguments.add, 0, "training.date",
        fmt::format("measured at {}, before it was predicted at {}", measured.date, entry.date),
        "what was measured first is a comparison (plumbline compare), not a prediction");
  return write_output(entry.path, TRY(model::read_text_file(entry.path)) + calibrate::ledger_toml(measured));
}

model::Result<int> score_ledger(const ValidateArguments& arguments) {
  if (!arguments.cases.empty())
    return model::wrong_input("--ledger", fmt::format("'{}' is a case, not a ledger", arguments.cases.front()),
                              "give cases or --ledger [FOLDER]");
  if (!arguments.add.empty()) TRY(add_measurement(arguments));
  const auto data = TRY(data_folder());
  const bool shipped = *arguments.ledger == shipped_ledger;
  const auto entries = TRY(calibrate::read_ledger(shipped ? data + "/ledger" : *arguments.ledger));
  TRY(arguments.outputs.write({{"--json", [&] { return reports::ledger_json(entries); }},
                               {"--csv", [&] { return reports::ledger_csv(entries); }}}));
  return arguments.outputs.to_stdout() ? 0 : printed(reports::ledger_table(entries));
}

// Whether a row counts. Errors of a datasheet's rates are those of that profile. Nothing that is measured of models of
// DeepSeek may enter the interval of DeepSeek-V3's step. The memory of rows that hold other tensors than a plan can
// state does not count: its error is one of the reading.
bool counts(const calibrate::ComparedStep& compared) {
  return compared.prediction_error() && !compared.profile.ends_with("-datasheet") &&
         !compared.step.model_type.starts_with("deepseek");
}

void add_rows(const calibrate::ComparedStep& compared, std::vector<calibrate::LeftRow>& rows) {
  const auto add = [&](calibrate::LeftOf of, double measured, double predicted, const sim::DrawnSpread& drawn) {
    rows.push_back(
        {of, compared.step.set, compared.kind, compared.step.hardware, std::log(measured / predicted), drawn});
  };
  add(calibrate::LeftOf::time, *compared.step.seconds, *compared.predicted, compared.ranges.drawn);
  if (compared.memory_error() && !compared.missing_tensors)
    add(calibrate::LeftOf::memory, *compared.step.memory_bytes, *compared.comparable_bytes, {});
}

void add_rows(const calibrate::ComparedServing& compared, std::vector<calibrate::LeftRow>& rows) {
  for (const calibrate::ComparedFigure& figure : compared.figures)
    if (const auto of = calibrate::left_of_name(figure.name); of && figure.range)
      rows.push_back({*of, compared.row.set, compared.kind, compared.row.hardware,
                      std::log(figure.published / figure.predicted), figure.drawn});
}

// Returns the statistics of the rows that count.
std::vector<calibrate::LeftCell> left_cells(const reports::ValidationOutcome& outcome) {
  std::vector<calibrate::LeftRow> rows;
  for (const calibrate::StepComparison& comparison : outcome.steps)
    for (const calibrate::ComparedStep& compared : comparison.steps)
      if (comparison.definition.intervals && counts(compared)) add_rows(compared, rows);
  for (const calibrate::ServingComparison& comparison : outcome.serving)
    for (const calibrate::ComparedServing& compared : comparison.rows) add_rows(compared, rows);
  return calibrate::left_cells(rows);
}

model::Result<int> run(const ValidateArguments& arguments) {
  const Patience patience;
  if (arguments.ledger) return score_ledger(arguments);

  Interrupt interrupt(Interrupt::Kept::nothing);
  const auto outcome = TRY([&] {
    WatchedBar bar("cases", interrupt);
    return validate_cases(arguments.cases, bar.watch());
  }());
  if (!outcome.complete && arguments.outputs.given("--residuals"))
    return model::interrupted("--residuals", "stopped before all cases were there, on which the statistics rest");
  const calibrate::IntervalScores intervals = calibrate::interval_scores(outcome.steps);
  TRY(arguments.outputs.write({{"--json", [&] { return reports::validation_json(outcome); }},
                               {"--csv", [&] { return reports::validation_csv(outcome); }},
                               {"--svg", [&] { return reports::interval_chart_svg(intervals); }},
                               {"--residuals", [&] { return calibrate::left_cells_csv(left_cells(outcome)); }}}));
  int exit_code = 0;
  bool first = true;
  const auto show = [&](const std::string& name, bool holds, const std::string& table) -> model::Result<void> {
    TRY(arguments.outputs.print((first ? "" : "\n") + table));
    first = false;
    if (holds) return {};
    exit_code = tolerance_exit;
    fmt::print(stderr, "plumbline: tolerance exceeded: {}\n", name);
    return {};
  };
  for (const calibrate::EvaluatedCase& row : outcome.figures)
    TRY(show(row.definition.name, row.holds(), reports::validation_table(row)));
  for (const calibrate::StepComparison& row : outcome.steps)
    TRY(show(row.definition.name, row.holds(), reports::step_table(row)));
  if (!intervals.scores.empty()) TRY(show("intervals", intervals.holds(), reports::interval_table(intervals)));
  for (const calibrate::ComponentComparison& row : outcome.components)
    TRY(show(row.definition.name, row.holds(), reports::component_table(row)));
  for (const calibrate::ServingComparison& row : outcome.serving)
    TRY(show(row.definition.name, row.holds(), reports::serving_table(row)));
  if (outcome.complete) return exit_code;
  fmt::print(stderr, "plumbline: stopped: the cases that were not finished are left out\n");
  return interrupted_exit();
}

}  // namespace

model::Result<reports::ValidationOutcome> validate_cases(const std::vector<std::string>& names,
                                                         const sim::Watch& watch) {
  const auto files = TRY(wanted_files(names));
  InputsReader reader;
  calibrate::CaseRuns runs(
      [&](const std::string& plan, const std::string& profile) { return reader.load(plan, {}, profile); });
  reports::ValidationOutcome outcome;
  const auto add = [&](const std::string& file, const sim::Watch& rows) -> model::Result<void> {
    if (calibrate::is_step_case(file)) {
      outcome.steps.push_back(TRY(compare_case_steps(file, rows)));
    } else if (calibrate::is_serving_case(file)) {
      outcome.serving.push_back(TRY(compare_case_serving(file, rows)));
    } else if (calibrate::is_component_case(file)) {
      const auto definition = TRY(calibrate::load_component_case(file));
      calibrate::ProfileMaker maker(TRY(recipe_folders()));
      outcome.components.push_back(TRY(calibrate::compare_components(definition, maker)));
    } else {
      const auto definition = TRY(read_case(file));
      outcome.figures.push_back(TRY(runs.evaluate(definition)));
    }
    return {};
  };
  for (std::size_t i = 0; i < files.size() && outcome.complete; ++i) {
    const auto added = add(files[i], watch.of_part(i, files.size()));
    if (!added && added.error().kind != model::ErrorKind::interrupted) return tl::unexpected(added.error());
    if (watch.on_progress) watch.on_progress(i + 1, files.size());
    outcome.complete = added && (i + 1 == files.size() || !watch.stops());
  }
  return outcome;
}

void add_validate(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("validate", "Compare predictions with published and measured figures");
  const auto arguments = std::make_shared<ValidateArguments>();
  verb->add_option("CASES", arguments->cases, "Case files, or names of shipped cases (default: all shipped)");
  arguments->outputs.add(*verb, "--json", "Write the comparison as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write the rows of all tables as CSV to a file, or - for stdout");
  arguments->outputs.add(*verb, "--svg", "Draw where measured steps lie in their intervals, to a file or -");
  arguments->outputs.add(*verb, "--residuals",
                         "Write the statistics of measured steps over their predictions, on which intervals rest, as "
                         "CSV to a file, or - for stdout; all shipped cases make the shipped ones");
  arguments->outputs.add_page(*verb);
  verb->add_option("--ledger", arguments->ledger,
                   "Score predictions that were made before their measurement: a folder or an entry")
      ->expected(0, 1)
      ->default_str(shipped_ledger);
  verb->add_option("--add", arguments->add,
                   "A result of `plumbline run` that measures the entry of --ledger; it is added to the entry")
      ->needs("--ledger");
  verb->add_option("--source", arguments->source, "Who measured it, where, and what else ran there")->needs("--add");
  verb->footer(
      "Every figure is predicted with each profile of its case. Exit code 3 when the last one, the plan's own,\n"
      "misses a tolerance, or intervals of steps cover too few or too many of the measured ones.\n\n"
      "Examples:\n"
      "  plumbline validate\n"
      "  plumbline validate deepseek-v3-2048xh800 --json -\n"
      "  plumbline validate published-steps\n"
      "  plumbline validate development-steps --svg intervals.svg\n"
      "  plumbline validate --residuals residuals.csv\n"
      "  plumbline validate components\n"
      "  plumbline validate serving\n"
      "  plumbline validate my-cluster-case.toml\n"
      "  plumbline validate --ledger ledger\n"
      "  plumbline validate --ledger ledger/2026-11-23-my-plan-h100.toml --add run.json --source \"quiet node\"");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

}  // namespace plumbline::cli
