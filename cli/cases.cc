#include "cli/cases.h"

#include <filesystem>
#include <optional>

#include "cli/data.h"

namespace plumbline::cli {

model::Result<std::vector<calibrate::ValidationCase>> shipped_cases() {
  const auto files = shipped_case_files();
  if (!files) return tl::unexpected(files.error());
  std::vector<calibrate::ValidationCase> cases;
  for (const std::string& file : *files) {
    auto loaded = calibrate::load_case(file);
    if (!loaded) return tl::unexpected(loaded.error());
    cases.push_back(std::move(*loaded));
  }
  return cases;
}

std::vector<reports::Comparison> comparisons(const std::vector<calibrate::ValidationCase>& cases,
                                             const std::string& plan_file, const model::StepResult& result) {
  const std::string plan = std::filesystem::path(plan_file).stem().string();
  std::vector<reports::Comparison> found;
  for (const calibrate::ValidationCase& published : cases) {
    if (published.plan != plan) continue;
    for (const calibrate::Figure& figure : published.figures) {
      if (const std::optional<double> value = calibrate::predicted(figure, result))
        found.push_back({figure.name, figure.unit, *value, figure.value, figure.source});
    }
  }
  return found;
}

}  // namespace plumbline::cli
