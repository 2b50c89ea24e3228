// The table of a plan's keys: every key has a line, and what it states is what the reader does.
#include "model/plan/plan_key_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/plan/plan.h"

namespace plumbline::tests {
namespace {

using namespace model;

constexpr const char* kTableText =
    "[model]\nconfig = \"m.json\"\n[cluster]\ntopology = \"t\"\ngpus = 64\n"
    "[batch]\nsequence_length = 4096\nmicro_batch_size = 1\nglobal_batch_size = 256\n";

// Keys of [rollout] belong to a plan with engines, whose batch follows: 1,024 samples of 1,024 tokens.
constexpr const char* kRolloutText =
    "[inference]\n[rollout]\nprompts = 1024\nanswers = 1\nprompt_tokens = 24\nanswer_tokens = 1000\n"
    "answer_tokens_sd = 100\nmax_answer_tokens = 2000\n";

std::string table_text(const std::string& key) {
  return std::string(kTableText) + (key.starts_with("rollout.") ? kRolloutText : "");
}

PlanKey table_key(const std::string& name) {
  const auto keys = find_plan_keys(name);
  EXPECT_TRUE(keys && keys->size() == 1) << name;
  return keys && !keys->empty() ? keys->front() : PlanKey{};
}

TEST(PlanKeyTable, HasEveryKeyWithMeaningTypeAndVersion) {
  std::vector<std::string> names;
  for (const PlanKey& key : plan_key_table()) {
    EXPECT_TRUE(key.meaning.ends_with('.')) << key.name;
    EXPECT_FALSE(key.type.empty()) << key.name;
    EXPECT_FALSE(key.since.empty()) << key.name;
    EXPECT_EQ(key.default_value.empty(), key.alias) << key.name;
    EXPECT_EQ(std::ranges::count(names, key.name), 0) << key.name;
    names.push_back(key.name);
  }
  for (const std::string& key : plan_keys()) {
    const bool other = (key.starts_with("model.") && key != "model.config") || key.ends_with(".phase");
    EXPECT_EQ(std::ranges::count(names, key), other ? 0 : 1) << key;
  }
}

TEST(PlanKeyTable, StatesDefaultsAndRangesOfTheReader) {
  EXPECT_EQ(table_key("cluster.gpus").default_value, "required");
  EXPECT_EQ(table_key("overlap.gradient_bucket_bytes").default_value, "40000000.0");
  EXPECT_EQ(table_key("parallelism.zero_stage").allowed, "0 to 3");
  EXPECT_EQ(table_key("cluster.background").allowed, "at least 0, below 1");
  EXPECT_EQ(table_key("recompute.policy").allowed, "one of none, selective, full");
  EXPECT_EQ(table_key("search.zero_stage").type, "list of integers");
  EXPECT_EQ(table_key("precision.gemm").words.front(), "fp8");
}

TEST(PlanKeyTable, ListsWordsThatTheReaderTakes) {
  for (const PlanKey& key : plan_key_table()) {
    if (key.alias || key.name.find(".phase.") != std::string::npos) continue;
    for (const std::string& word : key.words) {
      const bool list = key.type.starts_with("list of words");
      std::vector<std::string> overrides = {key.name + "=" + (list ? "[\"" + word + "\"]" : word)};
      if (key.name == "rollout.placement" && word != "colocated") overrides.emplace_back("rollout.gpus=8");
      const auto plan = read_plan(table_text(key.name), "p.toml", overrides);
      EXPECT_TRUE(plan) << to_string(plan.error());
    }
    const bool refuses = key.words.empty() || !read_plan(table_text(key.name), "p.toml", {key.name + "=no-such-word"});
    EXPECT_TRUE(refuses) << key.name;
  }
}

TEST(PlanKeyTable, FindsKeysSectionsAndLastParts) {
  EXPECT_EQ(find_plan_keys("batch")->size(), 5u);
  EXPECT_EQ(find_plan_keys("fsdp")->front().name, "parallelism.fsdp");
  EXPECT_EQ(find_plan_keys("tensor")->size(), 6u);  // of parallelism, overlap, search, both pools and rollouts
  EXPECT_EQ(find_plan_keys("model.hidden_size")->size(), 1u);
  EXPECT_THAT(to_string(find_plan_keys("parallelism.tensr").error()),
              testing::HasSubstr("did you mean 'parallelism.tensor'?"));
  EXPECT_THAT(plan_key_hint("parallelism"), testing::HasSubstr("plumbline show key parallelism lists its keys"));
  // A section that is there is not what was meant.
  EXPECT_THAT(to_string(find_plan_keys("inference.prompt").error()),
              testing::HasSubstr("plumbline show key inference lists its keys"));
  EXPECT_THAT(to_string(find_plan_keys("parallelism.sequence_length").error()),
              testing::HasSubstr("did you mean 'batch.sequence_length'?"));
}

}  // namespace
}  // namespace plumbline::tests
