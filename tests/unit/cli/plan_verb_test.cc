#include "cli/plan/plan_verb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/data.h"
#include "cli/deadline.h"
#include "cli/inputs.h"
#include "model/architecture/architecture.h"
#include "model/architecture/load_architecture.h"
#include "model/base/text_file.h"
#include "reports/text/plan/plan_report.h"
#include "sim/search/cluster_option.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

using model::ErrorKind;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;
using tests::expect_error;

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
  EXPECT_EQ(whole_name("h20", {Shipped::topology}).value(), "h20-hgx");  // h200-hgx begins with it, too
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

TEST(Deadline, ADateCountsFromTheFirstDayOfThePlan) {
  model::Plan plan;
  plan.campaign.start = "2026-12-01";
  const auto first = first_day(plan, "2026-12-31");
  EXPECT_EQ(days_until("--deadline", "2026-12-31", first).value(), 30);
  EXPECT_EQ(days_until("--deadline", "8w", first).value(), 56);
  expect_error(days_until("--deadline", "2026-12-01", first), ErrorKind::input, "--deadline",
               "2026-12-01 is not after the start, 2026-12-01");
}

TEST(Deadline, ADurationNeedsNoFirstDay) {
  EXPECT_FALSE(first_day({}, "60d"));
  EXPECT_TRUE(first_day({}, "2026-12-31"));  // today
  EXPECT_EQ(days_until("--finish-by", "36h", std::nullopt).value(), 1.5);
  expect_error(days_until("--finish-by", "90days", std::nullopt), ErrorKind::input, "--finish-by",
               "'90days' is neither a date nor a duration");
  // A century has 36,525 days; 1440 minutes are a day.
  EXPECT_EQ(days_until("--finish-by", "36525d", std::nullopt).value(), 36525);
  EXPECT_EQ(days_until("--finish-by", "1min", std::nullopt).value(), 1.0 / 1440);
  for (const char* text : {"36526d", "1e300d", "0.5min", "1e-300d"})
    expect_error(days_until("--finish-by", text, std::nullopt), ErrorKind::input, "--finish-by", "60d");
  expect_error(days_until("--deadline", "2299-01-01", first_day({}, "2299-01-01")), ErrorKind::input, "--deadline",
               "60d");
}

TEST(Deadline, ATrainingHasAStepAtLeast) {
  SearchRequest request;
  request.plan.plan = "llama-3-8b";
  request.offers = {"h100-dgx:8"};
  request.tokens = "5";  // a step of the default recipe has 32 sequences of 4,096 tokens
  const auto recipe = find_recipe(request);
  ASSERT_TRUE(recipe) << to_string(recipe.error());
  auto options = load_options(request, *recipe, Purpose::training);
  ASSERT_TRUE(options) << to_string(options.error());
  const auto answer = find_plans(request, *recipe, std::move(*options), sim::local_tasks(), [] { return true; });
  expect_error(answer, ErrorKind::input, "--tokens", "5 tokens are less than a step, which has 131,072");
  request.tokens = "14.8T";
  EXPECT_EQ(overrides_of(request).value(), std::vector<std::string>{"run.tokens=1.48e+13"});
}

TEST(Data, AModelWhereAPlanIsWantedIsAnsweredWithWhatMakesOne) {
  expect_error(resolve(Shipped::plan, "qwen3-235b"), ErrorKind::input, "", "'qwen3-235b' is a model, not a plan");
}

// Trains 8 G parameters on H100 of 80 GB: parameters in BF16, gradients, master weights and moments in FP32 take 144
// GB, without what the optimizer holds 48 GB.
sim::ClusterOption searched_with(const std::string& offer, std::vector<std::string> overrides, double host_bytes,
                                 double gpu_bytes = 0) {
  SearchRequest request;
  request.plan.plan = "llama-3-8b";
  request.offers = {offer};
  request.plan.overrides = std::move(overrides);
  sim::ClusterOption option = load_options(request, find_recipe(request).value(), Purpose::training).value().front();
  option.inputs.cluster.device.host_memory = model::Bytes(host_bytes);
  if (gpu_bytes > 0) option.inputs.cluster.device.memory = model::Bytes(gpu_bytes);
  sim::SearchOptions options;
  options.top = 1;
  options.breadth = sim::Breadth::quick;
  EXPECT_TRUE(sim::search_with_remedies(option, options));
  return option;
}

sim::ClusterOption searched(const std::string& offer, const std::string& remedies, double host_bytes = 2e12,
                            const std::string& tokens = "") {
  std::vector<std::string> overrides;
  if (!remedies.empty()) overrides.push_back("search.remedies=" + remedies);
  if (!tokens.empty()) overrides.push_back("run.tokens=" + tokens);
  return searched_with(offer, std::move(overrides), host_bytes);
}

TEST(Remedies, AreTriedWhereNothingFits) {
  const sim::ClusterOption option = searched("h100-dgx:1", "");
  ASSERT_FALSE(option.plans.empty());
  EXPECT_TRUE(option.plans.front().plan.offload.optimizer);
  EXPECT_EQ(option.plans.front().plan.offload.activations, 0);
  EXPECT_THAT(option.notes, Contains("no plan fits in memory without offload.optimizer=true"));
}

TEST(Remedies, AreTakenBackWhereTheHostsCannotHoldThem) {
  // Master weights, moments and gradients of the update are 128 GB.
  const sim::ClusterOption option = searched("h100-dgx:1", "offload_optimizer", 100e9);
  EXPECT_TRUE(option.plans.empty());
  EXPECT_THAT(option.notes, Contains("the hosts do not hold what offload.optimizer=true puts there"));
  EXPECT_THAT(option.notes, testing::Not(Contains(testing::HasSubstr("no plan fits"))));
}

// With moments in BF16 the host holds 96 GB, which it does; the GPU alone would still hold 112.
TEST(Remedies, ThatHostsRefusedAreTriedAgainWithNarrowerStates) {
  const sim::ClusterOption option = searched("h100-dgx:1", R"(["offload_optimizer", "bf16_moments"])", 160e9);
  ASSERT_FALSE(option.plans.empty());
  EXPECT_TRUE(option.plans.front().plan.offload.optimizer);
  EXPECT_EQ(option.plans.front().plan.precision.optimizer_moments, model::Precision::bf16);
  EXPECT_THAT(option.notes, Contains("no plan fits in memory without offload.optimizer=true, "
                                     "precision.optimizer_moments=bf16"));
}

// Without what the optimizer holds 48 GB stay of states, with gradients in BF16 32: activations may stay, too.
TEST(Remedies, OffloadNothingThatLaterOnesMakeNeedless) {
  const sim::ClusterOption option = searched_with(
      "h100-dgx:1", {R"(search.remedies=["offload_optimizer", "offload_activations", "bf16_gradients"])"}, 2e12, 54e9);
  ASSERT_FALSE(option.plans.empty());
  const model::Plan& plan = option.plans.front().plan;
  EXPECT_TRUE(plan.offload.optimizer);
  EXPECT_EQ(plan.offload.activations, 0);
  EXPECT_EQ(plan.precision.gradients, model::Precision::bf16);
  EXPECT_THAT(option.notes, Contains("no plan fits in memory without offload.optimizer=true, "
                                     "precision.gradients=bf16"));
}

// A host of a capacity holds 128.5 GB with (capacity / 128.5 GB - 1) / 0.5.
TEST(Remedies, APlanIsAsSureAsGpuAndHostTogether) {
  const std::vector<std::string> offloaded = {"offload.optimizer=true", "search.remedies=none"};
  constexpr double ample = 200e9;  // of the GPU
  const sim::ClusterOption edge = searched_with("h100-dgx:1", offloaded, 160e9, ample);
  EXPECT_TRUE(edge.search.best.empty());
  EXPECT_TRUE(edge.plans.empty());
  double surest = 0;
  for (const sim::RankedPlan& plan : edge.edge) surest = std::max(surest, plan.result.memory.fits_probability.value());
  EXPECT_LE(surest, 0.491);
  EXPECT_GE(surest, 0.45);
  const sim::ClusterOption sure = searched_with("h100-dgx:1", offloaded, 200e9, ample);
  EXPECT_FALSE(sure.plans.empty());
  const sim::ClusterOption none = searched_with("h100-dgx:1", offloaded, 130e9, ample);  // holds it with 2 %
  EXPECT_TRUE(none.plans.empty());
  EXPECT_TRUE(none.search.edge.empty());
  EXPECT_THAT(none.search.removed, Contains(testing::Field(&sim::Removed::rule, sim::host_rule)));
}

TEST(Remedies, OfAFineTuningEndWithStatesInBf16) {
  // No host holds anything; gradients and moments in BF16 leave 12 bytes a parameter, 96 GB of 150.
  const sim::ClusterOption pretraining = searched("h200-hgx:1", "", 1e9),
                           tuning = searched("h200-hgx:1", "", 1e9, "1e8");
  EXPECT_TRUE(pretraining.plans.empty());
  ASSERT_FALSE(tuning.plans.empty());
  const model::Plan& plan = tuning.plans.front().plan;
  EXPECT_EQ(plan.precision.gradients, model::Precision::bf16);
  EXPECT_EQ(plan.precision.optimizer_moments, model::Precision::bf16);
  EXPECT_EQ(plan.precision.master_weights, model::Precision::fp32);
  EXPECT_FALSE(plan.offload.optimizer);
}

TEST(Remedies, LeavePlansAloneThatFit) {
  const sim::ClusterOption option = searched("h100-dgx:8", "");
  ASSERT_FALSE(option.plans.empty());
  EXPECT_FALSE(option.plans.front().plan.offload.optimizer);
}

TEST(Remedies, AreThoseOfThePlan) {
  const sim::ClusterOption none = searched("h100-dgx:1", "none");
  EXPECT_TRUE(none.plans.empty());
  EXPECT_THAT(none.notes, testing::Not(Contains(testing::HasSubstr("no plan fits"))));
  // 112 GB do not fit either.
  const sim::ClusterOption narrow = searched("h100-dgx:1", "bf16_moments");
  EXPECT_TRUE(narrow.plans.empty());
  EXPECT_THAT(narrow.notes, Contains("no plan fits in memory with precision.optimizer_moments=bf16"));
}

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
