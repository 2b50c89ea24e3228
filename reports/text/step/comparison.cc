#include "reports/text/step/comparison.h"

#include <filesystem>
#include <optional>

#include "calibrate/validate/case_evaluation.h"

namespace plumbline::reports {

std::vector<Comparison> comparisons(const std::vector<calibrate::ValidationCase>& cases, const std::string& plan_file,
                                    const model::StepResult& result) {
  const std::string plan = std::filesystem::path(plan_file).stem().string();
  std::vector<Comparison> found;
  for (const calibrate::ValidationCase& published : cases) {
    if (published.plan != plan) continue;
    for (const calibrate::Figure& figure : published.figures) {
      if (const std::optional<double> value = calibrate::predicted(figure, {.step = &result}))
        found.push_back({figure.name, figure.unit, *value, figure.value, figure.source});
    }
  }
  return found;
}

}  // namespace plumbline::reports
