#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/inputs.h"
#include "model/architecture/architecture.h"
#include "model/architecture/load_architecture.h"
#include "model/base/text_file.h"
#include "reports/text/plan/plan_report.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

using testing::Contains;
using testing::StartsWith;

TEST(Recipe, TokensSequenceAndBatchFollowFromTheParameters) {
  // 7e9 parameters: 140e9 tokens; 4 Mi tokens are 1,024 sequences of 4,096.
  const sim::DefaultRecipe small = sim::default_recipe(7e9, 7e9, 0, {64});
  EXPECT_EQ(small.sequence_length, 4096);
  EXPECT_EQ(small.global_batch_size, 1024);
  EXPECT_DOUBLE_EQ(small.tokens, 140e9);
  // Above 100e9 in all: 16 Mi tokens; tokens by what one token uses; at most the model's positions.
  const sim::DefaultRecipe large = sim::default_recipe(600e9, 30e9, 2048, {64, 4096});
  EXPECT_EQ(large.sequence_length, 2048);
  EXPECT_EQ(large.global_batch_size, 8192);
  EXPECT_DOUBLE_EQ(large.tokens, 600e9);
  EXPECT_EQ(sim::default_recipe(7e9, 7e9, 131072, {64}).sequence_length, 4096);
}

TEST(Recipe, TheBatchIsDivisibleAmongAllSizes) {
  // 96 = 3 * 32, 40 = 5 * 8: odd part 15; 1,024 / 15 = 68.3, nearest power of two 64: 960 sequences.
  EXPECT_EQ(sim::default_recipe(7e9, 7e9, 0, {96, 40}).global_batch_size, 960);
  // An odd part above the batch is the batch.
  EXPECT_EQ(sim::default_recipe(7e9, 7e9, 0, {100003}).global_batch_size, 100003);
}

TEST(Recipe, AShortTrainingHasSmallBatches) {
  // A thousandth of 200e6 tokens are 48.8 sequences of 4,096; of 140e9 it is more than 4 Mi tokens.
  const sim::DefaultRecipe tuning = sim::default_recipe(7e9, 7e9, 0, {64}, 200e6);
  EXPECT_EQ(tuning.global_batch_size, 64);
  EXPECT_DOUBLE_EQ(tuning.tokens, 200e6);
  EXPECT_EQ(sim::default_recipe(7e9, 7e9, 0, {64}, 140e9).global_batch_size, 1024);
  // A thousandth of 5e6 is a sequence; 32 they are at least.
  EXPECT_EQ(sim::default_recipe(7e9, 7e9, 0, {64}, 5e6).global_batch_size, 32);
}

class ShippedRecipes : public testing::TestWithParam<std::string> {};

TEST_P(ShippedRecipes, IsAPlanWithoutAClusterWithThePublishedValues) {
  const std::string path = tests::shipped("examples/recipes/" + GetParam() + ".toml");
  const std::string text = model::read_text_file(path).value();
  EXPECT_NE(text.find("\n# Published: "), std::string::npos);
  const auto alone = model::read_plan(text, path, {});
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().key, "cluster.topology");
  const auto plan = model::read_plan(text, path, {"cluster.topology=h100-dgx", "cluster.gpus=64"});
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->model.config, "models/" + GetParam() + ".json");
  EXPECT_TRUE(plan->run.tokens);
  EXPECT_FALSE(plan->places.contains("run.price_usd_per_gpu_hour"));
  for (const auto& [key, place] : plan->places) EXPECT_FALSE(key.starts_with("parallelism.")) << key;
  EXPECT_TRUE(model::load_architecture(tests::shipped("examples/" + plan->model.config)));
}

INSTANTIATE_TEST_SUITE_P(Shipped, ShippedRecipes,
                         testing::ValuesIn(model::names_in_folder(tests::shipped("examples/recipes"), ".toml")),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Recipe, AFileOfAModelGetsTheDefaultsAndReportsThem) {
  const auto recipe = find_recipe(tests::shipped("examples/models/mixtral-8x7b.json"), {64});
  ASSERT_TRUE(recipe);
  EXPECT_EQ(recipe->name, "mixtral-8x7b");
  EXPECT_THAT(reports::assumptions(*recipe, {}), Contains(StartsWith("assumed: sequences of 4,096")));
  EXPECT_THAT(reports::assumptions(*recipe, {}), Contains(StartsWith("assumed: tokens choose their experts evenly")));
  const auto plan = model::read_plan(recipe->text, recipe->path, {"cluster.topology=h100-dgx", "cluster.gpus=64"});
  ASSERT_TRUE(plan) << to_string(plan.error());
  // 12.88e9 of Mixtral's 46.7e9 parameters are used per token (its model card: 12.9), less the token table of which a
  // token takes one row, 32,000 * 4,096 = 0.13e9.
  EXPECT_NEAR(plan->run.tokens.value(), 20 * (12.88e9 - 0.131e9), 20 * 0.01e9);
}

TEST(Recipe, APlanFileIsItself) {
  const auto recipe = find_recipe(tests::shipped("examples/llama-3-8b-64xh800.toml"), {});
  ASSERT_TRUE(recipe);
  EXPECT_EQ(recipe->name, "llama-3-8b-64xh800");
  EXPECT_THAT(reports::assumptions(*recipe, {}), testing::IsEmpty());
}

TEST(Recipe, AFileThatIsNoModelIsAnInputError) {
  const tests::TemporaryDirectory folder;
  folder.write("broken.json", "{");
  const auto recipe = find_recipe((folder.path() / "broken.json").string(), {});
  ASSERT_FALSE(recipe);
  EXPECT_EQ(recipe.error().kind, model::ErrorKind::input);
  EXPECT_THAT(recipe.error().file, testing::Not(testing::IsEmpty()));
}

}  // namespace
}  // namespace plumbline::cli
