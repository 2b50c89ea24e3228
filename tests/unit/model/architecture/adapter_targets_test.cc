// The layers next to which adapters lie, by the names of modules.
#include "model/architecture/adapter_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace plumbline::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> targets_of(std::vector<std::string> modules, bool experts) {
  return adapter_targets(std::move(modules), experts).words();
}

TEST(AdapterTargets, AreThoseOfTheModulesNames) {
  EXPECT_THAT(targets_of({"q_proj", "v_proj"}, false), ElementsAre("attention"));
  EXPECT_THAT(targets_of({"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}, false),
              ElementsAre("attention", "mlp"));
  EXPECT_THAT(targets_of({"model.layers.[0-9]+.(mlp|self_attn).(up|down|gate|q|k|v|o)_proj"}, true),
              ElementsAre("attention", "mlp", "experts"));
  EXPECT_THAT(targets_of({"block_sparse_moe.experts.w1"}, true), ElementsAre("mlp", "experts"));
  EXPECT_THAT(targets_of({"lm_head", "embed_tokens"}, true), IsEmpty());
}

TEST(AdapterTargets, OfAPatternAreWhatItNames) {
  EXPECT_THAT(targets_of({"*_proj"}, true), ElementsAre("attention", "mlp", "experts"));
  EXPECT_THAT(targets_of({"model.layers.*.*proj"}, false), ElementsAre("attention", "mlp"));
  EXPECT_THAT(targets_of({"*.self_attn.*_proj"}, false), ElementsAre("attention"));
  EXPECT_THAT(targets_of({"*.mlp.*_proj"}, true), ElementsAre("mlp", "experts"));
  EXPECT_THAT(targets_of({"visual.*_tower", "visual.*", "vision_tower.*_proj"}, false), IsEmpty());
}

TEST(AdapterTargets, OfLatentAttentionAreNoMlp) {
  EXPECT_THAT(targets_of({"linear_q_down_proj", "linear_q_up_proj", "linear_kv_down_proj", "linear_kv_up_proj"}, true),
              ElementsAre("attention"));
  EXPECT_THAT(targets_of({"kv_a_proj_with_mqa", "down_proj"}, false), ElementsAre("attention", "mlp"));
}

// Of a dense model gate is a projection of its MLP; where there are experts it chooses them.
TEST(AdapterTargets, OfARouterAreNoExperts) {
  EXPECT_THAT(targets_of({"linear_qkv", "mlp.router"}, true), ElementsAre("attention"));
  EXPECT_THAT(targets_of({"mlp.gate", "shared_expert_gate", "router"}, true), IsEmpty());
  EXPECT_THAT(targets_of({"gate"}, false), ElementsAre("mlp"));
  EXPECT_THAT(targets_of({"q_proj", "shared_experts.linear_fc1"}, true), ElementsAre("attention", "mlp"));
}

}  // namespace
}  // namespace plumbline::model
