#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/data.h"
#include "cli/plan/plan_verb.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

using testing::HasSubstr;

SearchRequest offered(std::vector<std::string> offers) {
  SearchRequest request;
  request.plan.plan = "llama-3-8b";
  request.offers = std::move(offers);
  return request;
}

model::Result<std::vector<sim::ClusterOption>> options_of(const SearchRequest& request) {
  const auto recipe = find_recipe(request);
  if (!recipe) return tl::unexpected(recipe.error());
  return load_options(request, *recipe, Purpose::training);
}

TEST(Offers, AreClustersWithTheirPrice) {
  const auto options = options_of(offered({"h200:16@2.60", "h100-dgx:8"}));
  ASSERT_TRUE(options) << to_string(options.error());
  ASSERT_EQ(options->size(), 2u);
  const sim::ClusterOption& first = options->front();
  EXPECT_EQ(first.cluster, "h200-hgx");
  EXPECT_EQ(first.gpus, 16);
  EXPECT_EQ(first.inputs.plan.cluster.topology, "h200-hgx");
  EXPECT_THAT(first.notes, testing::Contains("given as 'h200'"));
  const auto price = sim::price_of(first).value;
  ASSERT_TRUE(price);
  EXPECT_EQ(price->value, 2.6);
  EXPECT_EQ(price->low, 2.6);
  EXPECT_EQ(price->high, 2.6);
  EXPECT_EQ(price->source, "offered");
  EXPECT_EQ(price->kind, "stated");
  EXPECT_FALSE(options->back().offered_usd);
  EXPECT_NE(sim::price_of(options->back()).value->source, "offered");
}

TEST(Offers, AttentionIsInSixteenBitsWhereItsFormatIsNotKnown) {
  const SearchRequest request = offered({"h800-rail-fat-tree:16", "a100-dgx:16"});
  auto recipe = find_recipe(request);
  ASSERT_TRUE(recipe) << to_string(recipe.error());
  recipe->text = "precision.attention = \"fp8\"\n" + recipe->text;
  const auto options = load_options(request, *recipe, Purpose::training);
  ASSERT_TRUE(options) << to_string(options.error());
  ASSERT_EQ(options->size(), 2u);
  for (const sim::ClusterOption& option : *options) {
    EXPECT_EQ(option.inputs.plan.precision.attention, "bf16");
    const std::string& profile = option.inputs.profile.name();
    EXPECT_THAT(option.notes, testing::Contains("precision.attention is bf16: profile " + profile + " has no fp8"));
  }
}

// As `plan -o` writes it.
TEST(Offers, AStackThatIsTheDefaultOfAnotherClusterIsThisOnesDefault) {
  const SearchRequest request = offered({"h800-multi-rail:16"});
  const auto shipped = find_recipe(request);
  ASSERT_TRUE(shipped) << to_string(shipped.error());
  const auto stack_with = [&](const std::string& stack) {
    sim::Recipe recipe = *shipped;
    recipe.text += "[cluster]\ntopology = \"h100-dgx\"\ngpus = 16\n" + stack;
    auto options = load_options(request, recipe, Purpose::training);
    EXPECT_TRUE(options) << to_string(options.error());
    return std::move(options->front());
  };
  const std::string own = stack_with("").inputs.profile.stack();
  InputsReader reader;
  const auto there = model::read_plan(shipped->text, shipped->path, {"cluster.topology=h100-dgx", "cluster.gpus=16"});
  const std::string default_there = reader.of_plan(there.value()).value().profile.stack();
  ASSERT_NE(default_there, own);
  EXPECT_EQ(stack_with("[stack]\nname = \"" + default_there + "\"\n").inputs.profile.stack(), own);
  const auto stated = stack_with("[stack]\nname = \"deepspeed\"\n");
  EXPECT_EQ(stated.inputs.plan.stack.name, "deepspeed");
  EXPECT_THAT(stated.notes, testing::Contains("stack.name stays deepspeed, as the plan states it"));
}

// DeepSpeed has GEMMs in 16 and 32 bits.
TEST(Offers, FormatsThatTheSoftwareLacksAreInSixteenBits) {
  SearchRequest request = offered({"h200-hgx:512"});
  request.plan.plan = "deepseek-v3";
  auto recipe = find_recipe(request);
  ASSERT_TRUE(recipe) << to_string(recipe.error());
  recipe->text += "[stack]\nname = \"deepspeed\"\n";
  const auto options = load_options(request, *recipe, Purpose::training);
  ASSERT_TRUE(options) << to_string(options.error());
  const sim::ClusterOption& option = options->front();
  EXPECT_EQ(option.inputs.plan.precision.gemm, model::Precision::bf16);
  EXPECT_THAT(option.notes, testing::Contains("precision.gemm is bf16: stack deepspeed has no fp8"));
}

// DeepSeek's own software is that of the GPUs that it ran on.
TEST(Offers, SoftwareOfAModelIsThatOfItsGpusAlone) {
  SearchRequest request = offered({"h800-rail-fat-tree:512", "h200-hgx:512"});
  request.plan.plan = "deepseek-v3";
  const auto options = options_of(request);
  ASSERT_TRUE(options) << to_string(options.error());
  ASSERT_EQ(options->size(), 2u);
  EXPECT_EQ(options->front().inputs.plan.stack.name, "deepseek-v3");
  EXPECT_EQ(options->back().inputs.plan.stack.name, "megatron-core-2025");
}

TEST(Offers, NameAnUnknownCluster) {
  const auto unknown = options_of(offered({"h200-hxg:512@2.60"}));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().key, "--offer");
  EXPECT_THAT(unknown.error().message, HasSubstr("'h200-hxg'"));
  EXPECT_THAT(unknown.error().hint, HasSubstr("did you mean 'h200-hgx'?"));
}

TEST(Offers, ExcludeKeysThatTheyGive) {
  for (const char* change : {"run.price_usd_per_gpu_hour=2", "run.ownership=purchase", "cluster.gpus=8"}) {
    SearchRequest request = offered({"h200-hgx:16@2.60"});
    request.plan.overrides = {change};
    const auto twice = options_of(request);
    ASSERT_FALSE(twice) << change;
    EXPECT_EQ(twice.error().key, "--set");
    EXPECT_THAT(twice.error().message, HasSubstr(change));
  }
}

TEST(WholeNames, AreThoseThatAloneBeginWithTheText) {
  EXPECT_EQ(whole_name("h200", {Shipped::topology}).value(), "h200-hgx");
  EXPECT_EQ(whole_name("qwen3-235b", {Shipped::model, Shipped::plan}).value(), "qwen3-235b-a22b");
  EXPECT_EQ(whole_name("llama-3-405b", {Shipped::model, Shipped::plan}).value(), "llama-3-405b");
  EXPECT_EQ(whole_name("h200-hxg", {Shipped::topology}).value(), "h200-hxg");
  EXPECT_EQ(whole_name("", {Shipped::topology}).value(), "");
  const auto several = whole_name("h800", {Shipped::topology});
  ASSERT_FALSE(several);
  EXPECT_THAT(several.error().message, HasSubstr("'h800'"));
  EXPECT_EQ(several.error().hint, "give one of them in full: h800-multi-rail, h800-rail-fat-tree");
}

TEST(WholeNames, StandForTheirBeginnings) {
  SearchRequest request = offered({"h200-hgx:16"});
  request.plan.plan = "qwen3-235b";
  const auto recipe = find_recipe(request);
  ASSERT_TRUE(recipe) << to_string(recipe.error());
  EXPECT_EQ(recipe->name, "qwen3-235b-a22b");
  EXPECT_THAT(recipe->stated, testing::Contains("'qwen3-235b' is qwen3-235b-a22b"));
  EXPECT_EQ(find_topology("h200", {})->cluster.name, "h200-hgx");
  EXPECT_TRUE(resolve_model("", "qwen3-235b"));
}

// A plan that is written in another folder is read with the files that lie next to the first one.
TEST(PlanFile, NamesItsFilesByWholePaths) {
  const tests::TemporaryDirectory folder;
  model::Plan plan;
  plan.file = (folder.path() / "plan.toml").string();
  plan.model.config = "llama-3-8b";
  plan.cluster.topology = "h100-dgx";
  plan.cluster.profile = "scaled:h800";
  plan.cluster.device = "my-gpu.toml";
  plan.schedule.kind = "file:orders/mine.csv";
  const std::string device = folder.write("my-gpu.toml", ""), order = folder.write("orders/mine.csv", "");
  const auto text = plan_file(plan);
  ASSERT_TRUE(text) << to_string(text.error());
  for (const char* line : {"topology = \"h100-dgx\"", "profile = \"scaled:h800\""}) EXPECT_THAT(*text, HasSubstr(line));
  EXPECT_THAT(*text, HasSubstr("device = \"" + device + "\""));
  EXPECT_THAT(*text, HasSubstr("kind = \"file:" + order + "\""));
}

}  // namespace
}  // namespace plumbline::cli
