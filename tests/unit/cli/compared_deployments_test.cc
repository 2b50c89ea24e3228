// Deployments among the subjects of a comparison.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/answers.h"
#include "cli/inputs_reader.h"

namespace plumbline::cli {
namespace {

SubjectRequest without_intervals(std::vector<std::string> subjects) {
  SubjectRequest request;
  request.subjects = std::move(subjects);
  request.fidelity = sim::Fidelity::closed_form;
  return request;
}

TEST(ComparedDeployments, AreThoseOfServe) {
  SubjectRequest request = without_intervals({"llama-3-70b-8xh100"});
  request.clusters = {"h100-dgx", "h200-hgx"};
  const auto subjects = comparison_subjects(request);
  ASSERT_TRUE(subjects) << to_string(subjects.error());
  ASSERT_EQ(subjects->size(), 2U);
  InputsReader reader(Purpose::serving);
  const auto alone = predict_deployment(reader.load("llama-3-70b-8xh100", {}).value(), std::nullopt);
  ASSERT_TRUE(subjects->front().serving && subjects->back().serving);
  EXPECT_EQ(subjects->front().serving->tpot_s, alone->tpot_s);
  EXPECT_GT(subjects->front().result->memory.capacity_bytes, 0);
  // An H200 has 141 GB where an H100 has 80.
  EXPECT_GT(subjects->back().serving->most_concurrency, alone->most_concurrency);
}

TEST(ComparedDeployments, AreNotComparedWithSteps) {
  const auto subjects = comparison_subjects(without_intervals({"llama-3-70b-8xh100", "llama-3-8b-64xh800"}));
  ASSERT_FALSE(subjects);
  EXPECT_EQ(subjects.error().kind, model::ErrorKind::input);
  EXPECT_THAT(subjects.error().message, testing::HasSubstr("trains"));
}

}  // namespace
}  // namespace plumbline::cli
