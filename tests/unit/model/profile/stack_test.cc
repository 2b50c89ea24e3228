#include "model/profile/stack.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/plan/software.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

using tests::expect_error;
using tests::TemporaryDirectory;

std::string setting(const std::string& key, const std::string& value) {
  return "[[setting]]\nkey = \"" + key + "\"\nvalue = " + value + "\nkind = \"published\"\nsource = \"file.py\"\n";
}

std::string has(const std::string& key, const std::string& values) {
  return "[[has]]\nkey = \"" + key + "\"\nvalues = " + values + "\nkind = \"published\"\nsource = \"file.py\"\n";
}

const std::string fitted = R"(value = 2, unit = "us", kind = "fitted", source = "s")";

TEST(Stack, HasConstantsAndSettingsOfThoseThatItExtends) {
  const TemporaryDirectory folder;
  folder.write("base.toml", "gemm.ramp = { " + fitted + R"(, rows = ["bloom", "mpt"] })" + "\nkernel.launch_gap = { " +
                                fitted + " }\n" + setting("attention.kernel", "\"unfused\"") +
                                setting("overlap.prefetch", "3"));
  const auto path = folder.write("mine.toml",
                                 "name = \"own\"\ndescription = \"d\"\nextends = \"base\"\n[kernel]\nlaunch_gap = { "
                                 "value = 9, unit = \"us\", kind = \"measured\", source = \"trace\" }\n" +
                                     setting("attention.kernel", "\"fused\""));
  const auto stack = load_stack(path.string());
  ASSERT_TRUE(stack) << to_string(stack.error());
  EXPECT_EQ(stack->name, "own");
  ASSERT_EQ(stack->parameters.size(), 2u);
  EXPECT_EQ(stack->parameters[0].rows, (std::vector<std::string>{"bloom", "mpt"}));
  EXPECT_EQ(stack->parameters[0].stack, "own");
  EXPECT_DOUBLE_EQ(stack->parameters[1].value, 9);
  ASSERT_EQ(stack->settings.size(), 2u);
  EXPECT_EQ(stack->settings[0].value, "'fused'");
  EXPECT_EQ(stack->settings[1].key, "overlap.prefetch");
}

// Without the rows of bloom the constant of the base stands, and one that no base has is missing.
TEST(Stack, LeavesOutWhatRestsOnAHeldOutSet) {
  const TemporaryDirectory folder;
  folder.write("base.toml", "gemm.ramp = { value = 1, unit = \"us\", kind = \"assumed\", source = \"s\" }\n");
  const auto path =
      folder.write("mine.toml", "extends = \"base\"\ngemm.ramp = { " + fitted + R"(, rows = ["bloom", "mpt"] })" +
                                    "\nkernel.launch_gap = { " + fitted + R"(, rows = ["bloom"] })" + "\n");
  EXPECT_EQ(load_stack(path.string())->parameters.size(), 2u);
  EXPECT_EQ(load_stack(path.string(), "", "zb")->parameters.size(), 2u);
  const auto without = load_stack(path.string(), "", "bloom").value();
  ASSERT_EQ(without.parameters.size(), 1u);
  EXPECT_EQ(without.parameters[0].name, "gemm.ramp");
  EXPECT_DOUBLE_EQ(without.parameters[0].value, 1);
}

TEST(Stack, ErrorsNameTheirPlace) {
  const TemporaryDirectory folder;
  const auto refused = [&](const std::string& text, int line, const std::string& key, const std::string& word) {
    const std::string path = folder.write("s.toml", text).string();
    const auto stack = load_stack(path);
    ASSERT_FALSE(stack) << text;
    expect_error(stack.error(), ErrorKind::input, path, line, key, word);
  };
  refused("gemm.rampp = { " + fitted + " }\n", 1, "gemm.rampp", "gemm.ramp");
  refused(setting("attention.kernal", "\"fused\""), 1, "attention.kernal", "attention.kernel");
  refused(setting("attention.kernel", "\"fussed\""), 1, "attention.kernel", "fused");
  refused(setting("overlap.prefetch", "true"), 1, "overlap.prefetch", "integer");
  refused(setting("cluster.gpus", "8"), 1, "cluster.gpus", "belongs into the plan");
  refused(setting("inference.concurrency", "8"), 1, "inference.concurrency", "belongs into the plan");
  refused(setting("stack.name", "\"a\""), 1, "stack.name", "belongs into the plan");
  refused(setting("loss.kernel", "\"fused\"") + setting("loss.kernel", "\"fused\""), 6, "loss.kernel", "twice");
  refused("[[setting]]\nkeys = \"a\"\n", 2, "setting.keys", "'key'");
  refused("[setting]\nkey = \"a\"\n", 1, "setting", "[[setting]]");
  refused("[[setting]]\nkey = \"loss.kernel\"\nkind = \"assumed\"\nsource = \"s\"\n", 1, "loss.kernel", "value");
  refused(setting("search.schedule", "[\"1f1b\"]"), 1, "search.schedule", "belongs into the plan");
  refused(has("stack.dispatcher", "[\"alltoall\", \"deepeep\"]"), 1, "stack.dispatcher", "deepep");
  refused(has("precision.gemm", "[\"fp9\"]"), 1, "precision.gemm", "fp8");
  refused(has("parallelism.zero_stage", "[4]"), 1, "parallelism.zero_stage", "at most 3");
  refused(has("parallelism.zero_stage", "1"), 1, "parallelism.zero_stage", "list");
  refused(has("parallelism.zero_stage", "[]"), 1, "parallelism.zero_stage", "list");
  refused(has("schedule.kinds", "[\"1f1b\"]"), 1, "schedule.kinds", "schedule.kind");
  refused(has("rules", "[\"whole-batchs\"]"), 1, "rules", "whole-batches");
  refused(has("rules", "\"whole-batches\""), 1, "rules", "list");
  refused(has("cluster.gpus", "[8]"), 1, "cluster.gpus", "belongs into the plan");
  refused(has("loss.kernel", "[\"fused\"]") + has("loss.kernel", "[\"fused\"]"), 6, "loss.kernel", "twice");
  refused("[[has]]\nkey = \"loss.kernel\"\nvalue = [\"fused\"]\n", 3, "has.value", "'values'");
  refused("[[has]]\nkey = \"loss.kernel\"\nkind = \"assumed\"\nsource = \"s\"\n", 1, "loss.kernel", "values");
  refused("name = \"none\"\n", 0, "name", "another name");
  refused(R"(gemm.ramp = { value = 1, unit = "us", kind = "assumed", source = "s", rows = ["a"] })", 1,
          "gemm.ramp.rows", "fitted");
}

TEST(Stack, RowsAreNoPartOfAProfile) {
  const TemporaryDirectory folder;
  const auto path = folder.write("p.toml", "gemm.ramp = { " + fitted + R"(, rows = ["a"] })");
  expect_error(load_profile(path.string()).error(), ErrorKind::input, path.string(), 1, "gemm.ramp.rows", "unknown");
}

constexpr std::string_view plan_text =
    "[model]\nconfig = \"m.json\"\n[cluster]\ntopology = \"t\"\ngpus = 1\n[batch]\nsequence_length = 1\n"
    "micro_batch_size = 1\nglobal_batch_size = 1\n[loss]\nkernel = \"fused\"\n";

TEST(Stack, SetsWhatThePlanDoesNotGive) {
  const TemporaryDirectory folder;
  const auto path =
      folder.write("old.toml", setting("attention.kernel", "\"unfused\"") + setting("loss.kernel", "\"unfused\"") +
                                   setting("overlap.gradient_reduce", "false"));
  const auto stack = load_stack(path.string()).value();
  Plan plan = read_plan(plan_text, "plan.toml", {"overlap.gradient_reduce=true"}).value();
  ASSERT_TRUE(apply_stack(stack, {}, plan));
  EXPECT_EQ(plan.attention.kernel, "unfused");
  EXPECT_EQ(plan.loss.kernel, "fused");
  EXPECT_TRUE(plan.overlap.gradient_reduce);
  EXPECT_EQ(plan.stack.name, "old");
  const std::string text = to_toml(plan);
  EXPECT_NE(text.find("kernel = \"unfused\"  # stack old\n"), std::string::npos);
  EXPECT_NE(text.find("name = \"old\"  # the profile's\n"), std::string::npos);
  const auto again = read_plan(text, "again.toml", {});
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(again->attention.kernel, "unfused");
}

// A library of kernels that a device lacks is one that its profile has no constants of.
TEST(Stack, SetsOnlyWhatTheProfileHasTheConstantFor) {
  const TemporaryDirectory folder;
  const std::string needs = "needs = \"attention.cudnn.forward_rate\"\n";
  const auto stack =
      load_stack(folder.write("new.toml", setting("attention.kernel", "\"cudnn\"") + needs).string()).value();
  const Parameter rate{.name = "attention.cudnn.forward_rate"};
  Plan with = read_plan(plan_text, "plan.toml", {}).value(), without = with;
  ASSERT_TRUE(apply_stack(stack, Profile("p", "", {rate}), with));
  EXPECT_EQ(with.attention.kernel, "cudnn");
  ASSERT_TRUE(apply_stack(stack, {}, without));
  EXPECT_EQ(without.attention.kernel, "fused");
  const auto wrong = folder.write(
      "wrong.toml", setting("attention.kernel", "\"cudnn\"") + "needs = \"attention.cudn.forward_rate\"\n");
  expect_error(load_stack(wrong.string()).error(), ErrorKind::input, wrong.string(), 1, "setting.needs",
               "attention.cudnn.forward_rate");
}

// The format that a plan names is one that the software computes in another one where the profile has its rate. What
// else runs is not replaced, and a search finds that the software does not have it.
TEST(Stack, RunsAnotherValueInsteadOfWhatThePlanGives) {
  const TemporaryDirectory folder;
  const std::string instead = "instead_of = \"fp8\"\nneeds = \"gemm.mxfp8.k_time\"\n";
  const auto path = folder.write("te.toml", setting("precision.gemm", "\"mxfp8\"") + instead +
                                                setting("precision.experts", "\"mxfp8\"") + instead +
                                                has("precision.gemm", "[\"bf16\", \"fp8\", \"mxfp8\"]"));
  const auto stack = load_stack(path.string()).value();
  const Profile blackwell("p", "", {Parameter{.name = "gemm.mxfp8.k_time"}});
  const auto applied = [&](const Profile& profile, const std::vector<std::string>& changes) {
    Plan plan = read_plan(plan_text, "plan.toml", changes).value();
    EXPECT_TRUE(apply_stack(stack, profile, plan));
    return plan;
  };
  const Plan plan = applied(blackwell, {"precision.gemm=fp8"});
  EXPECT_EQ(plan.precision.gemm, Precision::mxfp8);
  EXPECT_FALSE(plan.precision.experts);
  EXPECT_NE(to_toml(plan).find("gemm = \"mxfp8\"  # stack te instead of fp8\n"), std::string::npos);
  EXPECT_EQ(software_replacements(plan),
            std::vector<std::string>{"stack te runs precision.gemm fp8 as mxfp8 on this GPU"});
  EXPECT_TRUE(software_warnings(plan).empty());
  EXPECT_FALSE(software_has(plan, "precision.gemm", "fp8"));
  EXPECT_EQ(applied(blackwell, {"precision.experts=fp8"}).precision.experts, Precision::mxfp8);
  const Plan hopper = applied({}, {"precision.gemm=fp8"}), unscaled = applied(blackwell, {});
  EXPECT_EQ(hopper.precision.gemm, Precision::fp8);
  EXPECT_TRUE(software_has(hopper, "precision.gemm", "fp8"));
  EXPECT_TRUE(software_replacements(hopper).empty());
  EXPECT_EQ(unscaled.precision.gemm, Precision::bf16);
  const auto wrong = folder.write("wrong.toml", setting("precision.gemm", "\"mxfp8\"") + "instead_of = \"fp9\"\n");
  expect_error(load_stack(wrong.string()).error(), ErrorKind::input, wrong.string(), 1, "precision.gemm", "fp8");
}

// Returns the sentences about a plan with these changes and the software of a stack.
std::vector<std::string> warnings(const Stack& stack, const std::vector<std::string>& changes) {
  Plan plan = read_plan(plan_text, "plan.toml", changes).value();
  EXPECT_TRUE(apply_stack(stack, {}, plan));
  return software_warnings(plan);
}

TEST(Stack, WarnsOfWhatTheSoftwareDoesNotHave) {
  const TemporaryDirectory folder;
  const auto path = folder.write(
      "old.toml", has("schedule.kind", "[\"1f1b\", \"interleaved\"]") + has("stack.dispatcher", "[\"alltoall\"]") +
                      has("parallelism.zero_stage", "[0, 1]") + has("precision.gemm", "[\"bf16\", \"fp8_tensor\"]"));
  const auto stack = load_stack(path.string()).value();
  const auto one = [&](const std::string& expected, const std::vector<std::string>& changes) {
    EXPECT_EQ(warnings(stack, changes), std::vector<std::string>{expected});
  };
  EXPECT_TRUE(warnings(stack, {}).empty());
  const std::string dualpipe = "schedule.kind=dualpipe", stages = "parallelism.pipeline=4";
  one("stack old has no schedule.kind dualpipe: it has 1f1b, interleaved", {dualpipe, stages});
  EXPECT_TRUE(warnings(stack, {dualpipe}).empty());
  EXPECT_TRUE(warnings(stack, {"schedule.kind=interleaved", stages}).empty());
  one("stack old has no stack.dispatcher deepep: it has alltoall", {"parallelism.expert=8"});
  EXPECT_TRUE(warnings(stack, {"parallelism.expert=8", "stack.dispatcher=alltoall"}).empty());
  one("stack old has no parallelism.zero_stage 3: it has 0, 1", {"parallelism.zero_stage=3"});
  one("stack old has no precision.gemm mxfp8: it has bf16, fp8_tensor", {"precision.gemm=mxfp8"});
  one("stack old has no precision.experts mxfp8: it has bf16, fp8_tensor", {"precision.experts=mxfp8"});
  EXPECT_EQ(warnings(stack, {"precision.gemm=fp16", "parallelism.zero_stage=2"}).size(), 2U);
}

TEST(Stack, WarnsOfSmsForADispatcherThatTakesNone) {
  const auto sentences = [](const std::vector<std::string>& changes) {
    return dispatcher_warnings(read_plan(plan_text, "plan.toml", changes).value());
  };
  const std::string experts = "parallelism.expert=8", collective = "stack.dispatcher=alltoall";
  const std::string sms = "overlap.communication_sms=8";
  EXPECT_TRUE(sentences({collective, sms}).empty());
  EXPECT_TRUE(sentences({experts, collective, "overlap.communication_sms=0"}).empty());
  EXPECT_TRUE(sentences({experts, "stack.dispatcher=deepep", sms}).empty());
  ASSERT_EQ(sentences({experts, collective, sms}).size(), 1U);
  EXPECT_NE(sentences({experts, collective, sms}).front().find("the 8 SMs are those of another"), std::string::npos);
}

TEST(Stack, ReplacesAListOfTheStackThatItExtends) {
  const TemporaryDirectory folder;
  folder.write("base.toml", has("parallelism.zero_stage", "[0, 1]") + has("precision.gemm", "[\"bf16\"]"));
  const auto path = folder.write("mine.toml", "extends = \"base\"\n" + has("parallelism.zero_stage", "[0, 1, 2, 3]"));
  const auto stack = load_stack(path.string()).value();
  ASSERT_EQ(stack.has.size(), 2U);
  EXPECT_TRUE(warnings(stack, {"parallelism.zero_stage=3"}).empty());
  EXPECT_EQ(warnings(stack, {"precision.gemm=fp16"}),
            std::vector<std::string>{"stack mine has no precision.gemm fp16: it has bf16"});
}

// A fork without a rule of the software that it is made from lists what it keeps, which may be none.
TEST(Stack, HasRulesThatAForkLifts) {
  const TemporaryDirectory folder;
  folder.write("base.toml", has("rules", "[\"whole-batches\"]"));
  const auto path = folder.write("fork.toml", "extends = \"base\"\n" + has("rules", "[]"));
  Plan plan = read_plan(plan_text, "plan.toml", {}).value();
  ASSERT_TRUE(apply_stack(load_stack((folder.path() / "base.toml").string()).value(), {}, plan));
  EXPECT_TRUE(software_has(plan, std::string(rules_key), "whole-batches"));
  ASSERT_TRUE(apply_stack(load_stack(path.string()).value(), {}, plan));
  EXPECT_FALSE(software_has(plan, std::string(rules_key), "whole-batches"));
  EXPECT_TRUE(software_warnings(plan).empty());
}

TEST(Stack, StandsInForTheOneThatItExtendsOnItsDevices) {
  const TemporaryDirectory folder;
  folder.write("base.toml", has("rules", "[]"));
  const auto stack =
      load_stack(folder.write("old.toml", "extends = \"base\"\ndevices = [\"a100*\"]\n").string()).value();
  EXPECT_EQ(stack.extends, "base");
  EXPECT_TRUE(stack.stands_in_on("a100-sxm-40gb"));
  EXPECT_FALSE(stack.stands_in_on("a800-sxm"));
  EXPECT_FALSE(load_stack((folder.path() / "base.toml").string())->stands_in_on("a100-sxm"));
  const auto alone = folder.write("alone.toml", "devices = [\"a100*\"]\n");
  expect_error(load_stack(alone.string()).error(), ErrorKind::input, alone.string(), 1, "devices", "extends none");
}

TEST(Stack, IsTheDefaultOfItsModelsAlone) {
  const TemporaryDirectory folder;
  const std::string models = "models = [\"deepseek*\"]\n";
  const auto stack = load_stack(folder.write("own.toml", models + "other_models = \"base\"\n").string()).value();
  EXPECT_TRUE(stack.is_of("deepseek_v3"));
  EXPECT_FALSE(stack.is_of("qwen3_moe"));
  EXPECT_EQ(stack.other_models, "base");
  EXPECT_TRUE(load_stack(folder.write("base.toml", has("rules", "[]")).string())->is_of("qwen3_moe"));
  const auto alone = folder.write("alone.toml", models);
  expect_error(load_stack(alone.string()).error(), ErrorKind::input, alone.string(), 1, "other_models", "give both");
}

// What is computed again where a plan names nothing; other policies name nothing.
TEST(Stack, NamesWhatSelectiveRecomputationIs) {
  const TemporaryDirectory folder;
  const auto path = folder.write("old.toml", setting("recompute.operators", "[\"core_attention\"]"));
  const auto stack = load_stack(path.string()).value();
  const auto operators = [&](const std::vector<std::string>& changes) {
    Plan plan = read_plan(plan_text, "plan.toml", changes).value();
    EXPECT_TRUE(apply_stack(stack, {}, plan));
    return plan.recompute.operators;
  };
  EXPECT_EQ(operators({"recompute.policy=selective"}), std::vector<std::string>{"core_attention"});
  EXPECT_EQ(operators({"recompute.policy=selective", "recompute.operators=[\"mlp\"]"}),
            std::vector<std::string>{"mlp"});
  EXPECT_TRUE(operators({"recompute.policy=full"}).empty());
}

// Another stack of the same plan leaves nothing of the first.
TEST(Stack, ListsHoldForThePlanUntilTheNextStack) {
  const TemporaryDirectory folder;
  const auto path = folder.write("old.toml", has("precision.gemm", "[\"bf16\"]"));
  Plan plan = read_plan(plan_text, "plan.toml", {}).value();
  ASSERT_TRUE(apply_stack(load_stack(path.string()).value(), {}, plan));
  EXPECT_TRUE(software_has(plan, "precision.gemm", "bf16"));
  EXPECT_FALSE(software_has(plan, "precision.gemm", "fp8"));
  EXPECT_TRUE(software_has(plan, "schedule.kind", "dualpipe"));
  ASSERT_TRUE(apply_stack({}, {}, plan));
  EXPECT_TRUE(software_has(plan, "precision.gemm", "fp8"));
}

TEST(Stack, ConstantsReplaceThoseOfTheProfile) {
  const TemporaryDirectory folder;
  const auto path = folder.write("s.toml", "gemm.ramp = { " + fitted + " }\npermute.map = { " + fitted + " }\n");
  folder.write("p.toml",
               "stack = \"s.toml\"\ngemm.ramp = { value = 1, unit = \"us\", kind = \"assumed\", source = "
               "\"p\" }\nkernel.launch_gap = { " +
                   fitted + " }\n");
  folder.write("q.toml", "extends = \"p\"\n");
  const auto profile = load_profile((folder.path() / "q.toml").string()).value();
  EXPECT_EQ(profile.stack(), path.string());
  const Profile both = with_stack(profile, load_stack(path.string()).value());
  EXPECT_EQ(both.stack(), "s");
  ASSERT_EQ(both.parameters().size(), 3u);
  const Parameter& ramp = both.parameters()[both.find("gemm.ramp").value()];
  EXPECT_DOUBLE_EQ(ramp.value, 2);
  EXPECT_EQ(ramp.stack, "s");
  EXPECT_EQ(both.parameters()[both.find("kernel.launch_gap").value()].stack, "");
}

}  // namespace
}  // namespace plumbline::model
