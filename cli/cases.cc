#include "cli/cases.h"

#include <filesystem>
#include <system_error>

#include "calibrate/validate/step_case.h"
#include "cli/data.h"
#include "cli/inputs.h"

namespace plumbline::cli {

namespace {

model::Result<std::string> measurement_of_case(const std::string& case_path, const std::string& name) {
  std::error_code ignored;
  const std::filesystem::path beside = std::filesystem::path(case_path).parent_path() / name;
  if (std::filesystem::is_regular_file(beside, ignored)) return beside.lexically_normal().string();
  return resolve_published(name);
}

}  // namespace

model::Result<calibrate::ValidationCase> read_case(const std::string& path) {
  const auto classes = kernel_classes_file("");
  if (!classes) return tl::unexpected(classes.error());
  return calibrate::load_case(path, {measurement_of_case, *classes});
}

model::Result<std::vector<calibrate::ValidationCase>> shipped_cases() {
  const auto files = shipped_case_files();
  if (!files) return tl::unexpected(files.error());
  std::vector<calibrate::ValidationCase> cases;
  for (const std::string& file : *files) {
    if (calibrate::is_step_case(file)) continue;
    auto loaded = read_case(file);
    if (!loaded) return tl::unexpected(loaded.error());
    cases.push_back(std::move(*loaded));
  }
  return cases;
}

model::Result<calibrate::StepComparison> compare_case_steps(const std::string& path) {
  const auto definition = calibrate::load_step_case(path);
  if (!definition) return tl::unexpected(definition.error());
  const auto table = measurement_of_case(path, definition->table);
  if (!table) return tl::unexpected(table.error());
  const auto steps = calibrate::read_published_steps(*table);
  if (!steps) return tl::unexpected(steps.error());
  InputsReader reader;
  const auto inputs = [&](const model::Plan& plan, const std::string& profile) {
    return reader.of_plan(plan, profile);
  };
  return calibrate::compare_steps(*definition, *steps, inputs, sim::Fidelity::step);
}

}  // namespace plumbline::cli
