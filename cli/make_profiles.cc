#include "cli/make_profiles.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "calibrate/fit/stack_fit.h"
#include "calibrate/measurement/csv_table.h"
#include "calibrate/validate/step_case.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "model/base/text.h"
#include "reports/text/compare/validation_report.h"
#include "reports/text/inputs/measurements_text.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

model::Result<void> make_one(calibrate::ProfileMaker& maker, const std::string& name, const std::string& out) {
  const calibrate::MadeProfile& made = *TRY(maker.make(name));
  TRY(write_output(out, made.text));
  FILE* stream = out == "-" ? stderr : stdout;
  fmt::print(stream, "{}: {} constants, {}\n", name, made.constants.size(), out);
  for (const std::string& note : made.notes) fmt::print(stream, "  {}\n", note);
  fmt::print(stream, "{}", reports::held_out_text(name, made.held_out));
  return {};
}

using calibrate::MeasuredStep;
using calibrate::PublishedStep;

// Returns the hardware that a cell names: "h100-dgx" or "h100-dgx:h100-torch".
calibrate::StepHardware hardware_of(const std::string& cell) {
  const std::size_t colon = cell.find(':');
  return {cell, cell.substr(0, colon), colon == std::string::npos ? "" : cell.substr(colon + 1), "", {}};
}

model::Result<MeasuredStep> measured_step(const PublishedStep& step, const std::string& extends, InputsReader& reader) {
  if (const auto lacking = step.lacking(); !lacking.empty() || !step.seconds)
    return model::wrong_input(step.id, fmt::format("the row lacks {}", fmt::join(lacking, ", ")), "fill in its cells");
  calibrate::StepCase definition;
  definition.hardware = {hardware_of(step.hardware)};
  auto made = TRY(calibrate::step_plan(step, definition));
  if (!extends.empty()) made.plan.stack.name = extends;
  auto inputs = TRY(reader.of_plan(made.plan));
  return MeasuredStep{step.id, step.set, std::move(inputs), *step.seconds};
}

// Reads a table of published steps, or one whose columns are a plan, by path or name, and its measured step.
model::Result<std::vector<MeasuredStep>> measured_steps(const std::string& path, const std::string& extends) {
  InputsReader reader;
  std::vector<MeasuredStep> rows;
  const auto table = TRY(calibrate::CsvTable::read(path, {}));
  if (table.has("id") || !table.has("plan")) {
    const auto steps = TRY(calibrate::read_published_steps(path));
    for (const PublishedStep& step : steps) rows.push_back(TRY(measured_step(step, extends, reader)));
    return rows;
  }
  TRY(calibrate::CsvTable::read(path, {"plan", "step_s"}));
  std::vector<std::string> changes;
  if (!extends.empty()) changes.push_back("stack.name=" + model::toml_string(extends));
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& plan = table.text(row, "plan");
    const double seconds = TRY(table.positive(row, "step_s"));
    rows.push_back({plan, "own", TRY(reader.load(plan, changes)), seconds});
  }
  return rows;
}

}  // namespace

model::Result<calibrate::RecipeFolders> recipe_folders() {
  const fs::path root = TRY(data_folder());
  return calibrate::RecipeFolders{.recipes = (root / "recipes").string(),
                                  .profiles = (root / "profiles").string(),
                                  .components = (root / "published/components").string(),
                                  .measured = (root / "measured").string(),
                                  .devices = (root / "topologies/devices").string()};
}

model::Result<void> make_profiles(const std::string& name, const std::string& out) {
  const auto folders = TRY(recipe_folders());
  calibrate::ProfileMaker maker(folders);
  if (name != "all") return make_one(maker, name, out.empty() ? folders.profiles + "/" + name + ".toml" : out);
  for (const std::string& each : maker.names())
    TRY(make_one(maker, each, (fs::path(out.empty() ? folders.profiles : out) / (each + ".toml")).string()));
  return {};
}

model::Result<void> make_stack(const std::string& steps, const std::string& out, const std::string& extends,
                               const std::string& csv) {
  const auto rows = TRY(measured_steps(steps, extends));
  const auto fit = TRY(calibrate::fit_stack(rows));
  const std::string base = rows.front().inputs.profile.stack();
  const std::string name = out == "-" ? "mine" : fs::path(out).stem().string();
  const std::string source = fs::path(steps).filename().string();
  TRY(write_output(out, calibrate::stack_text(name, base, fit, source)));
  if (!csv.empty()) TRY(write_output(csv, reports::stack_fit_csv(fit)));
  fmt::print(out == "-" || csv == "-" ? stderr : stdout, "{}", reports::stack_fit_text(fit, base));
  return {};
}

}  // namespace plumbline::cli
