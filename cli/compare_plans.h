// Plans and results side by side, and where the step time of each differs from another's.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/comparison_subjects.h"
#include "model/waterfall.h"

namespace plumbline::cli {

enum class Against { first, previous };

struct PlanComparison {
  struct Difference {
    std::size_t from = 0, to = 0;  // positions in `subjects`
    model::Waterfall waterfall;
  };
  std::vector<ComparisonSubject> subjects;
  std::vector<Difference> differences;  // between subjects with a result; the others are passed over
  Against against = Against::first;
  bool same_tokens = true;  // a step of each trains on as many tokens
};

PlanComparison compare_plans(std::vector<ComparisonSubject> subjects, Against against, model::WaterfallDetail detail);

std::string subject_letter(std::size_t index);  // A, B, ... Z, 27, 28, ...

std::string plan_comparison_text(const PlanComparison& comparison, bool colour);
std::string plan_comparison_json(const PlanComparison& comparison);
std::string plan_comparison_svg(const PlanComparison& comparison);

}  // namespace plumbline::cli
