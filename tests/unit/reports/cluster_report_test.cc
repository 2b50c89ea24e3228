#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/json/json.h"
#include "reports/json/read_json.h"
#include "reports/text/step/summary.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

model::StepResult cluster_result() {
  model::StepResult result = support::example_result();
  result.fidelity = "cluster";
  result.cluster = model::ClusterSpread{.gpus = 2048,
                                        .seeds = 4,
                                        .step_s = {19.5, 20, 20.5},
                                        .mean_step_s = 20,
                                        .even_step_s = 19,
                                        .compute_s = {16, 16.5, 17},
                                        .wait_s = {2, 2.5, 3},
                                        .rank_wait_s = {2, 3, 2.5},
                                        .bubble = {{"slow ranks", -0.25, 0.5}, {"schedule", 2.3, 2.3}},
                                        .events = 123456,
                                        .priors = {"speed of GPUs <0.5 %>"}};
  return result;
}

const std::vector<Comparison> published = {{"bubble", "s", 2.05, 2.06, "a table", ""}};

TEST(ClusterReport, SaysWhatWasDrawnAndWhatItCosts) {
  const std::string text = summary(cluster_result(), support::example_plan(), published);
  tests::expect_parts(
      text, {"Every GPU of the cluster", "Mean of 4 drawn fleets of 2,048 GPUs, slot by slot", "19.50 to 20.50 s",
             "alike 19.00 s", "slow ranks", "-0.250 s", "0.500 s", "2.050 s", "published", "2.060 s",
             "rank 0 wait least (2.000 s), those of rank 1 most (3.000 s)", "<0.5 %>"});
  EXPECT_LE(tests::longest_line(text), terminal_width) << text;
}

TEST(ClusterReport, IsReadBackFromJson) {
  const std::string text = to_json(cluster_result(), support::example_plan());
  const auto stored = read_result(text, "result.json");
  ASSERT_TRUE(stored.has_value()) << stored.error().message;
  ASSERT_TRUE(stored->result.cluster.has_value());
  EXPECT_EQ(to_json(stored->result, support::example_plan()).find("\"cluster\": null"), std::string::npos);
  const model::ClusterSpread read = *stored->result.cluster, written = *cluster_result().cluster;
  EXPECT_EQ(read.step_s, written.step_s);
  EXPECT_EQ(read.rank_wait_s, written.rank_wait_s);
  EXPECT_EQ(read.events, written.events);
  EXPECT_EQ(read.priors, written.priors);
  ASSERT_EQ(read.bubble.size(), 2u);
  EXPECT_EQ(read.bubble[0].cause, "slow ranks");
  EXPECT_EQ(read.bubble[0].step_s, 0.5);
  const auto without = nlohmann::json::parse(to_json(support::example_result(), support::example_plan()));
  EXPECT_TRUE(without["cluster"].is_null());
}

TEST(ClusterReport, HasRowsInCsv) {
  const std::string csv = to_csv(cluster_result());
  tests::expect_parts(csv, {"cluster.step_s.p90,20.5,s", "cluster.rank_wait_s.1,3,s",
                            "cluster.bubble.slow ranks.seconds,-0.25,s", "cluster.seeds,4,1"});
}

}  // namespace
}  // namespace plumbline::reports
