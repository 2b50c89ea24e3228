#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/imports.h"

namespace plumbline::model::configurations {
namespace {

using testing::HasSubstr;
using tests::imported, tests::noted;

// Recipes of other sizes are those of one size, given to functions of another file.
TEST(PythonRecipes, FunctionsOfAnotherFileReturnWhatTheyAreGiven) {
  const std::string recipes =
      "from megatron.bridge.perf_recipes.llama.common import *\n\n"
      "def llama3_8b_pretrain_16gpu_config():\n    cfg = llama3_8b_pretrain_config()\n"
      "    cfg.model.tensor_model_parallel_size = 2\n    cfg.model.pipeline_model_parallel_size = 1\n"
      "    cfg.model.context_parallel_size = 1\n    cfg.model.seq_length = 8192\n    cfg.train.micro_batch_size = 1\n"
      "    cfg.train.global_batch_size = 128\n    return cfg\n\n"
      "def llama3_8b_pretrain_8gpu_config():\n"
      "    return _with_global_batch_size(llama3_8b_pretrain_16gpu_config(), 64)\n\n"
      "def llama3_8b_pretrain_32gpu_config():\n    return _tuned(llama3_8b_pretrain_16gpu_config())\n";
  const auto smaller = imported("nemo", recipes, {}, "llama3_8b_pretrain_8gpu_config");
  EXPECT_EQ(smaller.plan.cluster.gpus, 8);
  EXPECT_EQ(smaller.plan.batch.global_batch_size, 64);
  EXPECT_EQ(smaller.plan.parallelism.tensor, 2);
  const auto tuned = imported("nemo", recipes, {}, "llama3_8b_pretrain_32gpu_config");
  EXPECT_EQ(tuned.plan.batch.global_batch_size, 128);
  EXPECT_THAT(noted(tuned), HasSubstr("'_tuned(...)': unknown; it may change the cost"));
}

// 32 layers on 17 stages are two a stage with embedding and head.
TEST(PythonRecipes, LayersThatDivideWithEmbeddingAndHeadCountThem) {
  const std::string recipe =
      "def llama3_8b_pretrain_17gpu_config():\n    cfg = llama3_8b_pretrain_config()\n"
      "    cfg.model.tensor_model_parallel_size = 1\n    cfg.model.pipeline_model_parallel_size = 17\n"
      "    cfg.model.context_parallel_size = 1\n    cfg.model.seq_length = 8192\n"
      "    cfg.model.pipeline_model_parallel_layout = None\n    cfg.train.micro_batch_size = 1\n"
      "    cfg.train.global_batch_size = 64\n    return cfg\n";
  const auto read = imported("nemo", recipe);
  EXPECT_THAT(read.toml, HasSubstr("layers_per_stage = \"even\"")) << "one on the first and on the last stage";
  EXPECT_THAT(noted(read), HasSubstr("32 layers do not divide over 17 stages, 34 do"));
}

}  // namespace
}  // namespace plumbline::model::configurations
