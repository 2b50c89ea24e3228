#include "cli/make_profiles.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/residuals/left_cells.h"
#include "calibrate/validate/step_case.h"
#include "calibrate/validate/step_comparison.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "reports/text/compare/held_out_text.h"

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

// Whether a row counts. Errors of a datasheet's rates are those of that profile. Nothing that is measured of models of
// DeepSeek may enter the interval of DeepSeek-V3's step.
bool counts(const calibrate::ComparedStep& compared) {
  return compared.prediction_error() && !compared.profile.ends_with("-datasheet") &&
         !compared.step.model_type.starts_with("deepseek");
}

// Adds the rows that count.
void add_rows(const calibrate::StepComparison& comparison, std::vector<calibrate::LeftRow>& rows) {
  for (const calibrate::ComparedStep& compared : comparison.steps) {
    if (!counts(compared)) continue;
    calibrate::LeftRow row{compared.step.set, compared.kind, compared.step.hardware};
    row.time = std::log(*compared.step.seconds / *compared.predicted);
    if (compared.memory_error()) row.memory = std::log(*compared.step.memory_bytes / *compared.comparable_bytes);
    row.drawn_mean = compared.ranges.drawn_mean;
    row.drawn_variance = compared.ranges.drawn_variance;
    rows.push_back(row);
  }
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

model::Result<void> make_residuals(const std::string& out) {
  std::vector<calibrate::LeftRow> rows;
  const auto files = TRY(shipped_case_files());
  for (const std::string& file : files) {
    if (!calibrate::is_step_case(file)) continue;
    const auto comparison = TRY(compare_case_steps(file));
    add_rows(comparison, rows);
  }
  const auto cells = calibrate::left_cells(rows);
  const std::string path = out.empty() ? TRY(data_folder()) + "/residuals.csv" : out;
  TRY(write_output(path, calibrate::left_cells_csv(cells)));
  fmt::print(path == "-" ? stderr : stdout, "{} steps in {} cells, {}\n", rows.size(), cells.size(), path);
  return {};
}

}  // namespace plumbline::cli
