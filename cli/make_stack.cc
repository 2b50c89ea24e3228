// plumbline calibrate --stack: the constants of a stack from a user's own measured steps.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/stack_fit.h"
#include "calibrate/validate/step_case.h"
#include "cli/inputs.h"
#include "cli/make_profiles.h"
#include "cli/outputs.h"
#include "reports/text/inputs/measurements_text.h"

namespace plumbline::cli {
namespace {

using calibrate::MeasuredStep;
using calibrate::PublishedStep;
using model::Result;

// Returns the hardware that a cell names: "h100-dgx" or "h100-dgx:h100-torch".
calibrate::StepHardware hardware_of(const std::string& cell) {
  const std::size_t colon = cell.find(':');
  return {cell, cell.substr(0, colon), colon == std::string::npos ? "" : cell.substr(colon + 1), "", {}};
}

Result<MeasuredStep> measured_step(const PublishedStep& step, const std::string& extends, InputsReader& reader) {
  if (const auto lacking = step.lacking(); !lacking.empty() || !step.seconds)
    return model::wrong_input(step.id, fmt::format("the row lacks {}", fmt::join(lacking, ", ")), "fill in its cells");
  calibrate::StepCase definition;
  definition.hardware = {hardware_of(step.hardware)};
  auto made = TRY(calibrate::step_plan(step, definition));
  if (!extends.empty()) made.plan.stack.name = extends;
  auto inputs = TRY(reader.of_plan(made.plan));
  return MeasuredStep{step.id, step.set, std::move(inputs), *step.seconds};
}

}  // namespace

Result<void> make_stack(const std::string& steps, const std::string& out, const std::string& extends,
                        const std::string& csv) {
  const auto table = TRY(calibrate::read_published_steps(steps));
  InputsReader reader;
  std::vector<MeasuredStep> rows;
  for (const PublishedStep& step : table) {
    rows.push_back(TRY(measured_step(step, extends, reader)));
  }
  const auto fit = TRY(calibrate::fit_stack(rows));
  const std::string base = rows.front().inputs.profile.stack();
  const std::string name = out == "-" ? "mine" : std::filesystem::path(out).stem().string();
  const std::string source = std::filesystem::path(steps).filename().string();
  TRY(write_output(out, calibrate::stack_text(name, base, fit, source)));
  if (!csv.empty()) TRY(write_output(csv, reports::stack_fit_csv(fit)));
  fmt::print(out == "-" || csv == "-" ? stderr : stdout, "{}", reports::stack_fit_text(fit, base));
  return {};
}

}  // namespace plumbline::cli
