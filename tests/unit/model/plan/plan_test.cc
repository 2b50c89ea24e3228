#include "model/plan/plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/plan/alternative.h"
#include "model/plan/plan_fields.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

using tests::expect_error;
using tests::shipped;

// The smallest plan has ten lines; appended text starts on line 11.
const std::string minimal_text = R"([model]
config = "m.json"
[cluster]
topology = "h800-rail-fat-tree"
gpus = 64
[batch]
sequence_length = 4096
micro_batch_size = 1
global_batch_size = 256
# end of what is required
)";

Plan load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const tests::TemporaryDirectory folder;
  const auto plan = load_plan(folder.write("plan.toml", text).string(), overrides);
  EXPECT_TRUE(plan) << to_string(plan.error());
  return plan.value_or(Plan{});
}

// Expects every field to be equal, phases included; only the files may differ.
void expect_same(const Plan& a, const Plan& b) {
  EXPECT_EQ(to_toml(a), to_toml(b));
  ASSERT_EQ(a.run.phases.size(), b.run.phases.size());
  EXPECT_EQ(a.run.tokens, b.run.tokens);
  EXPECT_EQ(a.overlap.gradient_bucket_bytes, b.overlap.gradient_bucket_bytes);
  EXPECT_EQ(a.schedule.layers_per_stage, b.schedule.layers_per_stage);
}

TEST(Plan, AcceptanceIsANumberOrAListByPosition) {
  const std::vector<std::string> one = {"inference.acceptance=0.6"}, many = {"inference.acceptance=[0.8, 0.7]"};
  EXPECT_FALSE(load(minimal_text, {"inference.speculative_tokens=1"}).inference.acceptance);
  EXPECT_EQ(load(minimal_text, one).inference.acceptance, (AcceptanceShares{{0.6}}));
  EXPECT_EQ(load(minimal_text, many).inference.acceptance, (AcceptanceShares{{0.8, 0.7}}));
  for (const auto& overrides : {one, many}) {
    const Plan plan = load(minimal_text + "[inference]\n", overrides);
    EXPECT_EQ(load(to_toml(plan)).inference, plan.inference);
  }
  for (const std::string value : {"0", "1.5", "[0.8, 0]", "[]", "\"most\""}) {
    const auto plan = read_plan(minimal_text, "p.toml", {"inference.acceptance=" + value});
    ASSERT_FALSE(plan) << value;
    EXPECT_EQ(plan.error().key, "inference.acceptance");
  }
}

TEST(Plan, ANicHasGigabits) {
  EXPECT_EQ(load(minimal_text, {"cluster.nic_gbps=1e6"}).cluster.nic_gbps, 1e6);
  expect_error(read_plan(minimal_text, "p.toml", {"cluster.nic_gbps=400e9"}), ErrorKind::input, "--set", 0,
               "cluster.nic_gbps", "at most 1e+06");
}

TEST(Plan, ABackgroundIsANumberOrATableOfTiers) {
  const Plan one = load(minimal_text, {"cluster.background=0.25"});
  EXPECT_EQ(one.cluster.background, (TierShares{{"nic", 0.25}, {"leaf", 0.25}, {"spine", 0.25}}));
  const Plan by_tier = load(minimal_text, {"cluster.background={ leaf = 0.3, spine = 0 }"});
  EXPECT_EQ(by_tier.cluster.background, (TierShares{{"leaf", 0.3}, {"spine", 0}}));
  expect_same(load(to_toml(by_tier)), by_tier);
  const auto refused = [](const std::string& value, const std::string& text) {
    const auto plan = read_plan(minimal_text, "p.toml", {"cluster.background=" + value});
    ASSERT_FALSE(plan) << value;
    expect_error(plan.error(), ErrorKind::input, "--set", 0, "cluster.background", text);
  };
  refused("1.0", "below 1");
  refused("-0.1", "must not be negative");
  refused("{ leafs = 0.1 }", "did you mean 'leaf'?");
  refused("\"much\"", "a number or a table");
}

TEST(Plan, AWordMayStandForCudaGraphs) {
  EXPECT_EQ(load(minimal_text, {"stack.graphs=partial"}).stack.graphs,
            (std::vector<std::string>{"attn", "moe_router", "moe_preprocess"}));
  EXPECT_EQ(load(minimal_text, {"stack.graphs=full"}).stack.graphs, std::vector<std::string>{"full_iteration"});
  EXPECT_TRUE(load(minimal_text, {"stack.graphs=none"}).stack.graphs.empty());
  expect_error(read_plan(minimal_text, "p.toml", {"stack.graphs=partly"}), ErrorKind::input, "--set", 0, "stack.graphs",
               "partial");
}

TEST(Plan, PrintedPlanReadsBackTheSame) {
  for (const char* example : {"examples/deepseek-v3-2048xh800.toml", "examples/llama-3-8b-64xh800.toml"}) {
    const auto plan = load_plan(shipped(example), {});
    ASSERT_TRUE(plan) << to_string(plan.error());
    expect_same(*plan, load(to_toml(*plan)));
  }
}

TEST(Plan, PrintedPlanKeepsAwkwardTextAndNumbers) {
  Plan plan = load(minimal_text);
  plan.model.config = "a \"quoted\" \\ path\twith\ncontrol \x7f letters and \xc3\xa9.json";
  plan.cluster.nic_gbps = 0.1 + 0.2;
  plan.routing.max_nodes_per_token = 4;
  plan.run.tokens = 1e20;
  plan.run.phases.push_back({"x", 1.0 / 3.0, "s"});
  const Plan back = load(to_toml(plan));
  EXPECT_EQ(back.model.config, plan.model.config);
  EXPECT_EQ(back.cluster.nic_gbps, plan.cluster.nic_gbps);
  EXPECT_EQ(back.run.phases.at(0).gpu_hours, 1.0 / 3.0);
  expect_same(plan, back);
}

TEST(Plan, PrintsEveryKey) {
  const std::string rollout =
      "[inference]\n[rollout]\nprompts = 2\nanswers = 1\nprompt_tokens = 48\nanswer_tokens = 1000\n"
      "answer_tokens_sd = 100\nmax_answer_tokens = 2000\n";
  const Plan plan = load(minimal_text + rollout, {"batch.global_batch_size=64"});
  const std::string text = to_toml(plan);
  visit_fields(plan, [&](std::string_view key, const auto&) {
    const std::string leaf(key.substr(plan_section(key).size() + 1));
    EXPECT_NE(text.find(leaf + " "), std::string::npos) << key;
  });
  EXPECT_NE(text.find("# tokens is not set\n"), std::string::npos);
  EXPECT_NE(text.find("gradient_bucket_bytes = 40000000.0\n"), std::string::npos);
}

TEST(Plan, PrintedPlanForcesNoBalanceThatNobodyStated) {
  EXPECT_NE(to_toml(load(minimal_text)).find("# imbalance is not set\n"), std::string::npos);
  const std::string stated = to_toml(load(minimal_text, {"routing.imbalance=0"}));
  EXPECT_NE(stated.find("\nimbalance = 0.0\n"), std::string::npos);
  EXPECT_TRUE(load(stated).places.contains("routing.imbalance"));
}

TEST(Plan, ThatServesNeedsNoBatchAndHasPoolsOfItsOwn) {
  const std::string text =
      "[model]\nconfig = \"m.json\"\n[cluster]\ntopology = \"t\"\ngpus = 8\n"
      "[inference]\nconcurrency = 0\n[inference.decode]\ngpus = 6\n";
  const Plan plan = load(text, {"inference.prefill.expert=2"});
  EXPECT_TRUE(plan.inference.given);
  EXPECT_EQ(plan.inference.concurrency, 0);
  EXPECT_EQ(plan.inference.decode.gpus, 6);
  EXPECT_EQ(plan.inference.prefill.expert, 2);
  EXPECT_EQ(plan.inference.prefill.gpus, std::nullopt);
  const std::string printed = to_toml(plan);
  EXPECT_NE(printed.find("\n[inference.decode]\ngpus = 6\n"), std::string::npos) << printed;
  EXPECT_EQ(printed.find("[batch]"), std::string::npos);
  expect_same(plan, load(printed));
  EXPECT_EQ(to_toml(load(minimal_text)).find("[inference"), std::string::npos);
}

TEST(Plan, ReadsWhatASearchMayTry) {
  const Plan plan = load(minimal_text, {"search.tensor=[1, 2]", "search.sequence=true", "search.pipeline=8",
                                        "search.schedule=dualpipe", "search.recompute=[\"none\", \"half\"]",
                                        "search.split=ends-1", "search.communication_sms=[0, 20]"});
  EXPECT_EQ(plan.search.tensor, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(plan.search.sequence, std::vector<bool>{true});
  EXPECT_EQ(plan.search.pipeline, std::vector<std::int64_t>{8});
  EXPECT_EQ(plan.search.schedule, std::vector<std::string>{"dualpipe"});
  EXPECT_EQ(plan.search.recompute, (std::vector<std::string>{"none", "half"}));
  EXPECT_EQ(plan.search.split, std::vector<std::string>{"ends-1"});
  EXPECT_TRUE(plan.search.expert.empty());
  expect_same(plan, load(to_toml(plan)));
  const auto refusal = [](const std::string& change) {
    const auto read = read_plan(minimal_text, "p.toml", {change});
    return read ? "" : to_string(read.error());
  };
  EXPECT_NE(refusal("search.schedule=dualpip").find("did you mean 'dualpipe'?"), std::string::npos);
  EXPECT_NE(refusal("search.split=last1").find("did you mean 'last-1'?"), std::string::npos);
  EXPECT_NE(refusal("search.zero_stage=4").find("at most 3"), std::string::npos);
  EXPECT_NE(refusal("search.tensors=2").find("did you mean 'search.tensor'?"), std::string::npos);
}

TEST(Plan, ReadsCampaigns) {
  const Plan plan =
      load(minimal_text +
               "[campaign]\nreliability = \"h100-llama3\"\ncheckpoint = \"neighbour\"\nspare_nodes = 3\n"
               "start = \"2028-02-29\"\n[[campaign.phase]]\nname = \"ramp\"\nshare = 0.1\nglobal_batch_size = 8\n"
               "[[campaign.phase]]\nname = \"rest\"\nsequence_length = 9\n",
           {"run.goodput=campaign", "campaign.elastic=true", "campaign.deadline=2028-03-01", "campaign.restart_s=0",
            "campaign.storage_gbps=800"});
  EXPECT_EQ(plan.campaign.reliability, "h100-llama3");
  EXPECT_EQ(plan.campaign.checkpoint, "neighbour");
  EXPECT_EQ(plan.campaign.checkpoint_interval_s, 0);
  EXPECT_EQ(plan.campaign.spare_nodes, 3);
  EXPECT_EQ(plan.campaign.deadline, "2028-03-01");  // a date of TOML
  EXPECT_TRUE(plan.campaign.elastic);
  EXPECT_EQ(plan.campaign.restart_s, 0);
  EXPECT_FALSE(plan.campaign.detect_s);
  EXPECT_EQ(plan.run.goodput, ConfigValue("campaign"));
  const std::vector<CampaignPhaseKeys> phases = {{"ramp", {}, 0.1, 8, {}}, {"rest", {}, {}, {}, 9}};
  EXPECT_EQ(plan.campaign.phases, phases);
  EXPECT_EQ(load(to_toml(plan)).campaign.phases, phases);
  expect_same(plan, load(to_toml(plan)));
  EXPECT_EQ(number_of(*load(minimal_text, {"run.goodput=1"}).run.goodput), 1);
}

TEST(Plan, OverridesTakeTomlValuesAndBareWords) {
  const Plan plan =
      load(minimal_text,
           {"parallelism.pipeline=8", "schedule.kind=gpipe", "precision.gemm=fp8", "schedule.layers_per_stage=[1, 2]",
            "cluster.topology=\"my cluster\"", "overlap.gradient_reduce=false", "run.tokens=1e12",
            "parallelism.pipeline=4", "run.phase=[{name = \"a\", gpu_hours = 3, source = \"b\"}]",
            "cluster.device=h100-sxm", "attention.kernel=unfused", "overlap.sm_policy=dynamic",
            "overlap.communication_kernels=hybrid-ep", "routing.rows_per_rank=[3, 0]"});
  EXPECT_EQ(plan.parallelism.pipeline, 4);  // the last one counts
  EXPECT_EQ(plan.schedule.kind, "gpipe");
  EXPECT_EQ(plan.precision.gemm, Precision::fp8);
  EXPECT_EQ(plan.schedule.layers_per_stage.counts, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(plan.cluster.topology, "my cluster");
  EXPECT_FALSE(plan.overlap.gradient_reduce);
  EXPECT_DOUBLE_EQ(plan.run.tokens.value(), 1e12);
  EXPECT_EQ(plan.run.phases.at(0).name, "a");
  EXPECT_EQ(plan.cluster.device.value(), "h100-sxm");
  EXPECT_EQ(plan.attention.kernel, "unfused");
  EXPECT_EQ(plan.overlap.sm_policy, "dynamic");
  EXPECT_EQ(plan.overlap.communication_kernels, "hybrid-ep");
  EXPECT_EQ(plan.routing.rows_per_rank, (std::vector<std::int64_t>{3, 0}));  // a rank may have none
  expect_same(plan, load(to_toml(plan)));
}

TEST(Plan, ChangesOfAReadPlanAreItsOverrides) {
  const std::vector<std::string> changes = {"parallelism.tensor=4", "schedule.kind=dualpipe", "precision.gemm=\"fp8\"",
                                            "schedule.layers_per_stage=[2, 3]", "parallelism.tensor=2"};
  Plan plan = load(minimal_text);
  ASSERT_TRUE(change_plan(changes, plan));
  expect_same(plan, load(minimal_text, changes));
  EXPECT_EQ(plan.places.at("parallelism.tensor").file, "--set");
}

TEST(Plan, WrongChangesOfAReadPlanAreInputErrors) {
  Plan plan = load(minimal_text);
  expect_error(change_plan({"parallelism.tensor=four"}, plan), ErrorKind::input, "--set", 0, "parallelism.tensor",
               "expected an integer");
  expect_error(change_plan({"parallelism.tensr=4"}, plan), ErrorKind::input, "", 0, "--set", "a key that no plan has");
  EXPECT_FALSE(change_plan({"parallelism.tensor"}, plan));
}

TEST(Plan, OverrideMaySupplyARequiredKey) {
  const std::string without_gpus =
      "model.config = 'm'\ncluster.topology = 't'\n[batch]\nsequence_length = 1\n"
      "micro_batch_size = 1\nglobal_batch_size = 1\n";
  EXPECT_EQ(load(without_gpus, {"cluster.gpus=8"}).cluster.gpus, 8);
}

struct BadPlan {
  const char* what;
  std::string text;
  int line;
  const char* key;
  const char* says;
};

class BadPlanFile : public testing::TestWithParam<BadPlan> {};

TEST_P(BadPlanFile, IsAnInputErrorAtItsPlace) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("plan.toml", GetParam().text).string();
  const auto plan = load_plan(path, {});
  ASSERT_FALSE(plan);
  expect_error(plan.error(), ErrorKind::input, path, GetParam().line, GetParam().key, GetParam().says);
}

BadPlan appended(const char* what, const std::string& section, const std::string& entry, const char* key,
                 const char* says) {
  return {what, minimal_text + "[" + section + "]\n" + entry + "\n", 12, key, says};
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadPlanFile,
    testing::Values(
        appended("unknown_key", "parallelism", "pipelin = 2", "parallelism.pipelin", "'parallelism.pipeline'"),
        appended("key_of_another_section", "schedule", "pipeline = 2", "schedule.pipeline", "'parallelism.pipeline'"),
        appended("unlike_any_key", "run", "xyzzy = 2", "run.xyzzy", "plumbline show key run lists its keys"),
        BadPlan{"empty", "# nothing\n", 0, "", "the plan is empty"},
        BadPlan{"unknown_section", minimal_text + "[paralelism]\npipeline = 2\n", 11, "paralelism", "'parallelism'"},
        BadPlan{"key_without_section", "gpus = 3\n" + minimal_text, 1, "gpus", "'cluster.gpus'"},
        BadPlan{"section_is_a_value", "routing = 3\n" + minimal_text, 1, "routing", "[routing]"},
        appended("text_for_integer", "parallelism", "pipeline = \"2\"", "parallelism.pipeline", "found a string"),
        appended("fraction_for_integer", "parallelism", "pipeline = 2.0", "parallelism.pipeline", "an integer"),
        appended("integer_for_flag", "overlap", "gradient_reduce = 1", "overlap.gradient_reduce", "true or false"),
        appended("integer_for_text", "schedule", "kind = 1", "schedule.kind", "expected a string"),
        appended("value_for_list", "schedule", "layers_per_stage = 4", "schedule.layers_per_stage", "a list"),
        appended("text_in_list", "schedule", "layers_per_stage = [\"4\"]", "schedule.layers_per_stage", "an integer"),
        appended("zero_degree", "parallelism", "expert = 0", "parallelism.expert", "at least 1"),
        appended("negative_degree", "parallelism", "tensor = -1", "parallelism.tensor", "found -1"),
        appended("absurd_degree", "parallelism", "tensor = 9223372036854775807", "parallelism.tensor", "at most"),
        appended("negative_layers", "schedule", "layers_per_stage = [4, -1]", "schedule.layers_per_stage",
                 "at least 0"),
        appended("zero_stage", "parallelism", "zero_stage = 4", "parallelism.zero_stage", "at most 3"),
        appended("negative_sms", "overlap", "communication_sms = -1", "overlap.communication_sms", "at least 0"),
        appended("attention_kernel", "attention", "kernel = \"fuzed\"", "attention.kernel", "'fused'"),
        appended("sm_policy", "overlap", "sm_policy = \"dinamic\"", "overlap.sm_policy", "'dynamic'"),
        appended("kernels", "overlap", "communication_kernels = \"\"", "overlap.communication_kernels", "empty"),
        appended("negative_rows", "routing", "rows_per_rank = [1, -1]", "routing.rows_per_rank", "at least 0"),
        appended("no_bucket", "overlap", "gradient_bucket_bytes = 0", "overlap.gradient_bucket_bytes",
                 "greater than 0"),
        appended("negative_imbalance", "routing", "imbalance = -0.1", "routing.imbalance", "not be negative"),
        appended("not_a_number", "routing", "imbalance = nan", "routing.imbalance", "finite"),
        appended("more_than_all", "offload", "activations = 1.5", "offload.activations", "at most 1"),
        appended("negative_price", "run", "price_usd_per_gpu_hour = -2", "run.price_usd_per_gpu_hour", "negative"),
        appended("lease", "run", "ownership = \"purchased\"", "run.ownership", "'purchase'"),
        appended("used_twice", "run", "utilisation = 1.1", "run.utilisation", "at most 1"),
        appended("free_cooling", "run", "pue = 0.9", "run.pue", "at least 1"),
        appended("no_years", "run", "depreciation_years = 0", "run.depreciation_years", "greater than 0"),
        appended("paid_to_burn", "run", "electricity_usd_per_kwh = -0.1", "run.electricity_usd_per_kwh", "negative"),
        appended("goodput_word", "run", "goodput = \"campain\"", "run.goodput", "'campaign'"),
        appended("goodput_flag", "run", "goodput = true", "run.goodput", "a number or"),
        appended("no_goodput", "run", "goodput = 0", "run.goodput", "greater than 0"),
        appended("more_goodput", "run", "goodput = 1.5", "run.goodput", "at most 1"),
        appended("checkpoint", "campaign", "checkpoint = \"async\"", "campaign.checkpoint", "asynchronous"),
        appended("storage", "campaign", "checkpoint_storage = \"disk\"", "campaign.checkpoint_storage", "ssd"),
        appended("no_storage", "campaign", "storage_gbps = 0", "campaign.storage_gbps", "greater than 0"),
        appended("spares", "campaign", "spare_nodes = -1", "campaign.spare_nodes", "at least 0"),
        appended("no_date", "campaign", "start = \"2027-02-29\"", "campaign.start", "is not a date"),
        appended("deadline", "campaign", "deadline = \"60d\"", "campaign.deadline", "2026-12-01"),
        BadPlan{"campaign_phase", minimal_text + "[[campaign.phase]]\nname = \"a\"\ntoken = 2\n", 11, "campaign.phase",
                "'tokens'"},
        BadPlan{"phase_share", minimal_text + "[[campaign.phase]]\nname = \"a\"\nshare = 2\n", 11, "campaign.phase",
                "at most 1"},
        BadPlan{"phase_without_name", minimal_text + "[[campaign.phase]]\nshare = 0.5\n", 11, "campaign.phase",
                "lacks 'name'"},
        appended("no_tokens", "run", "tokens = 0", "run.tokens", "greater than 0"),
        appended("many_tokens", "run", "tokens = 1e300", "run.tokens", "at most 1e+20"),
        appended("dear", "run", "price_usd_per_gpu_hour = 1e300", "run.price_usd_per_gpu_hour", "at most 1e+06"),
        appended("policy", "recompute", "policy = \"selectiv\"", "recompute.policy", "'selective'"),
        appended("operator", "recompute", "operators = [\"swiglu\", \"rms_norm\"]", "recompute.operators", "'rmsnorm'"),
        appended("precision", "precision", "gemm = \"bf61\"", "precision.gemm", "'bf16'"),
        appended("precision_type", "precision", "gemm = 8", "precision.gemm", "fp8"),
        appended("schedule", "schedule", "kind = \"dualpip\"", "schedule.kind", "'dualpipe'"),
        appended("phase_shape", "run", "phase = 3", "run.phase", "[[run.phase]]"),
        appended("phases", "run", "phases = 3", "run.phases", "'run.phase'"),
        BadPlan{"phase_lacks", minimal_text + "[[run.phase]]\nname = \"a\"\n", 11, "run.phase", "lacks 'gpu_hours'"},
        BadPlan{"phase_key", minimal_text + "[[run.phase]]\nname = \"a\"\ngpu_hour = 2\n", 11, "run.phase",
                "'gpu_hours'"},
        BadPlan{"phase_negative", minimal_text + "[[run.phase]]\nname = \"a\"\ngpu_hours = -2\nsource = \"s\"\n", 11,
                "run.phase", "gpu_hours"},
        BadPlan{"syntax", "[model]\nconfig = \n", 2, "", "TOML"},
        BadPlan{"missing", "[model]\nconfig = \"m\"\n", 0, "cluster.topology", "add 'topology = ...' under [cluster]"}),
    [](const auto& parameter) { return std::string(parameter.param.what); });

TEST(Plan, MissingFileIsAnInputError) {
  const auto plan = load_plan("/nowhere/plan.toml", {});
  ASSERT_FALSE(plan);
  expect_error(plan.error(), ErrorKind::input, "/nowhere/plan.toml", 0, "", "no such file");
}

struct BadOverride {
  const char* what;
  const char* text;
  const char* key;
  const char* says;
};

class BadOverrides : public testing::TestWithParam<BadOverride> {};

TEST_P(BadOverrides, AreInputErrorsOfTheCommandLine) {
  const tests::TemporaryDirectory folder;
  expect_error(load_plan(folder.write("plan.toml", minimal_text).string(), {GetParam().text}), ErrorKind::input,
               "--set", 0, GetParam().key, GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadOverrides,
    testing::Values(BadOverride{"unknown_key", "parallelism.pipelin=8", "parallelism.pipelin",
                                "'parallelism.pipeline'"},
                    BadOverride{"leaf_only", "gpus=8", "gpus", "'cluster.gpus'"},
                    BadOverride{"no_value", "parallelism.pipeline", "", "KEY=VALUE"},
                    BadOverride{"no_key", "=8", "", "KEY=VALUE"},
                    BadOverride{"empty_value", "cluster.device=", "cluster.device", "not a TOML value"},
                    BadOverride{"type", "parallelism.pipeline=eight", "parallelism.pipeline", "an integer"},
                    BadOverride{"range", "parallelism.pipeline=0", "parallelism.pipeline", "at least 1"},
                    BadOverride{"broken_list", "schedule.layers_per_stage=[1, 2", "schedule.layers_per_stage", "TOML"},
                    BadOverride{"two_lines", "parallelism.pipeline=8\nx=1", "parallelism.pipeline", "TOML"}),
    [](const auto& parameter) { return std::string(parameter.param.what); });

TEST(Plan, ModelKeysAddToTheConfig) {
  const Plan plan =
      load(minimal_text, {"model.n_routed_experts=512", "model.rms_norm_eps=1e-5", "model.tie_word_embeddings=true",
                          "model.scoring_func=sigmoid", "model.attn_config.alibi=false"});
  EXPECT_EQ(plan.model.config, "m.json");
  const ConfigOverrides expected = {{"attn_config.alibi", false},
                                    {"n_routed_experts", std::int64_t{512}},
                                    {"rms_norm_eps", 1e-5},
                                    {"scoring_func", std::string("sigmoid")},
                                    {"tie_word_embeddings", true}};
  EXPECT_EQ(plan.model.overrides, expected);
  const Plan again = load(to_toml(plan));
  EXPECT_EQ(again.model.overrides, expected);
  expect_same(again, plan);
}

TEST(Plan, AnUnknownModelKeyIsAnErrorWithTheNearest) {
  const auto plan = read_plan(minimal_text, "plan.toml", {"model.n_routed_expert=512"});
  ASSERT_FALSE(plan);
  expect_error(plan.error(), ErrorKind::input, "--set", 0, "model.n_routed_expert",
               "did you mean 'model.n_routed_experts'?");
  const auto list = read_plan(minimal_text, "plan.toml", {"model.n_routed_experts=[1]"});
  ASSERT_FALSE(list);
  expect_error(list.error(), ErrorKind::input, "--set", 0, "model.n_routed_experts", "found a list");
}

}  // namespace
}  // namespace plumbline::model
