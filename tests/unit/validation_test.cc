#include "cli/validation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/cases.h"

namespace plumbline::cli {
namespace {

using calibrate::Figure;
using calibrate::ValidationCase;

ValidationCase two_figures() {
  ValidationCase definition;
  definition.name = "a case";
  definition.plan = "a-plan";
  definition.profiles = {"low", "high"};
  definition.naive_mfu = 0.4;
  definition.naive_source = "assumed";
  definition.figures = {Figure{"step.time_s", "step time", "s", 20.0, 1, 0.1, "a paper"},
                        Figure{"step.bubble_s", "bubble", "s", 2.0, 1, std::nullopt, "a paper"}};
  return definition;
}

model::StepResult step_of(double seconds) {
  model::StepResult result;
  result.step.time_s = seconds;
  return result;
}

TEST(Evaluation, HoldsByTheLastProfileAlone) {
  // 19 of 20 is within 10 %, 15 is not; the bubble is unknown and has no tolerance.
  const EvaluatedCase good = evaluate(two_figures(), {step_of(15), step_of(19)}, step_of(22));
  EXPECT_TRUE(good.holds());
  EXPECT_EQ(good.figures[0].naive, 22);
  EXPECT_EQ(good.figures[1].predicted[1], std::nullopt);
  EXPECT_FALSE(evaluate(two_figures(), {step_of(19), step_of(15)}, step_of(22)).holds());
}

TEST(Evaluation, AToleranceWithoutAPredictionIsExceeded) {
  ValidationCase definition = two_figures();
  definition.figures[1].tolerance = 0.5;
  EXPECT_FALSE(evaluate(definition, {step_of(19), step_of(19)}, step_of(22)).holds());
}

TEST(Evaluation, TableSaysWhatMatters) {
  const std::string text = validation_table(evaluate(two_figures(), {step_of(15), step_of(19)}, step_of(22)));
  for (const char* part : {"a case", "15.00  -25.0%", "19.00   -5.0%", "MFU 40 %", "+10.0%", "within", "a paper"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Evaluation, JsonHasNullForWhatIsUnknown) {
  const auto json =
      nlohmann::json::parse(validation_json({evaluate(two_figures(), {step_of(15), step_of(25)}, step_of(22))}));
  EXPECT_FALSE(json["passed"].get<bool>());
  const auto& figures = json["cases"][0]["figures"];
  EXPECT_EQ(figures[0]["predicted"]["high"], 25);
  EXPECT_EQ(figures[0]["error"]["high"], 0.25);
  EXPECT_EQ(figures[0]["within_tolerance"], false);
  EXPECT_TRUE(figures[1]["predicted"]["high"].is_null());
  EXPECT_TRUE(figures[1]["within_tolerance"].is_null());
}

TEST(Comparisons, BelongToThePlanOfTheirName) {
  const std::vector<ValidationCase> cases = {two_figures()};
  const auto found = comparisons(cases, "somewhere/a-plan.toml", step_of(19));
  ASSERT_EQ(found.size(), 1u);  // the bubble is not known
  EXPECT_EQ(found[0].name, "step time");
  EXPECT_EQ(found[0].predicted, 19);
  EXPECT_EQ(found[0].published, 20);
  EXPECT_TRUE(comparisons(cases, "somewhere/another-plan.toml", step_of(19)).empty());
}

}  // namespace
}  // namespace plumbline::cli
