#include "cli/detail/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/cost/work.h"
#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "model/program/program.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "tests/support/step_inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

using Extents = std::vector<std::pair<std::string, std::int64_t>>;

StepProgram program_of(const std::string& plan_name) {
  const sim::Inputs inputs = tests::step_inputs(plan_name, "h800");
  const Layout layout = make_layout(inputs.plan, inputs.architecture).value();
  return compile(inputs.plan, inputs.architecture, layout).value();
}

class DeepSeekShapes : public testing::Test {
 protected:
  const StepProgram program_ = program_of(tests::deepseek_plan);
  const KernelShapes shapes_ = kernel_shapes(program_);

  // Returns how often the shape runs; 0 when it is missing.
  std::int64_t count(const std::string& op, const std::string& phase, const std::string& format,
                     const Extents& extents) const {
    const auto found = std::ranges::find_if(shapes_.shapes, [&](const KernelShape& s) {
      return s.op == op && s.phase == phase && s.format == format && s.extents == extents;
    });
    return found == shapes_.shapes.end() ? 0 : found->count;
  }
};

TEST_F(DeepSeekShapes, HaveTheGemmsOfTheModel) {
  // There are 61 layers and the one of multi-token prediction; 58 + 1 of them have experts, 3 are dense.
  EXPECT_EQ(count("gemm", "F", "fp8_block", {{"m", 4096}, {"n", 1536}, {"k", 7168}, {"groups", 1}}), 62);
  EXPECT_EQ(count("gemm", "I", "fp8_block", {{"m", 4096}, {"n", 7168}, {"k", 1536}, {"groups", 1}}), 62);
  EXPECT_EQ(count("gemm", "W", "fp8_block", {{"m", 1536}, {"n", 7168}, {"k", 4096}, {"groups", 1}}), 62);
  EXPECT_EQ(count("gemm", "F", "fp8_block", {{"m", 4096}, {"n", 36864}, {"k", 7168}, {"groups", 1}}), 3);
  // 4096 tokens * 8 experts / 4 experts on a rank of 64 = 8192 rows per expert.
  EXPECT_EQ(count("gemm", "F", "fp8_block", {{"m", 8192}, {"n", 4096}, {"k", 7168}, {"groups", 4}}), 59);
  EXPECT_EQ(count("gemm", "F", "bf16", {{"m", 4096}, {"n", 256}, {"k", 7168}, {"groups", 1}}), 59);
}

TEST_F(DeepSeekShapes, HaveTheMemoryBoundKernels) {
  EXPECT_GT(count("rmsnorm", "", "", {{"rows", 4096}, {"columns", 7168}}), 0);
  EXPECT_GT(count("swiglu", "", "", {{"rows", 32768}, {"columns", 2048}}), 0);
  EXPECT_GT(count("quantise", "", "", {{"rows", 4096}, {"columns", 16384}}), 0);
  // 32768 rows of 4096 * 7.5 received tokens: one copy each, to the nearest.
  EXPECT_EQ(count("permute", "", "", {{"rows", 32768}, {"columns", 7168}, {"top_k", 1}}), 59);
  EXPECT_TRUE(std::ranges::any_of(shapes_.shapes, [](const KernelShape& s) { return s.op == "adamw"; }));
  EXPECT_TRUE(shapes_.others.contains("attention"));
}

TEST_F(DeepSeekShapes, AreEachThereOnce) {
  for (auto shape = shapes_.shapes.begin(); shape != shapes_.shapes.end(); ++shape) {
    const auto same = std::find_if(shape + 1, shapes_.shapes.end(), [&](const KernelShape& other) {
      return shape->op == other.op && shape->phase == other.phase && shape->format == other.format &&
             shape->extents == other.extents;
    });
    EXPECT_EQ(same, shapes_.shapes.end()) << shape->name;
  }
}

// Returns the FLOPs of all GEMMs of all stages, from the graph itself.
double gemm_flops(const StepProgram& program) {
  double total = 0;
  for (const Stage& stage : program.stages) {
    for (const std::uint16_t block : program.stage_kinds[stage.kind].blocks) {
      for (const Operator& op : program.blocks[block].operators) {
        const bool gemm = op.kind == OperatorKind::matmul || op.kind == OperatorKind::grouped_matmul;
        if (gemm) total += flops(program.blocks[block], op, 1, false).value();
      }
    }
  }
  return total;
}

// Returns the FLOPs of a GEMM once, and 0 for other operators.
double flops_of(const KernelShape& shape) {
  double gemm = shape.op == "gemm" ? 2 : 0;
  for (const auto& extent : shape.extents) gemm *= static_cast<double>(extent.second);
  return gemm;
}

TEST(Shapes, SumToTheFlopsOfTheGraph) {
  for (const std::string& plan : {tests::deepseek_plan, tests::llama_plan}) {
    const StepProgram program = program_of(plan);
    double total = 0;
    for (const KernelShape& shape : kernel_shapes(program).shapes)
      total += static_cast<double>(shape.count) * flops_of(shape);
    EXPECT_GT(total, 0);
    EXPECT_DOUBLE_EQ(total, gemm_flops(program)) << plan;
  }
}

TEST_F(DeepSeekShapes, AreCasesThatCanBeMeasured) {
  const std::string text = cli::shapes_text(shapes_, "deepseek-v3");
  const tests::TemporaryDirectory folder;
  const auto cases = real::read_case_file(folder.write("shapes.cases", text).string());
  ASSERT_TRUE(cases) << to_string(cases.error());
  // One cast has 576 columns, which the measured kernel does not accept: a comment gives the reason.
  EXPECT_EQ(cases->size() + 1, shapes_.shapes.size());
  EXPECT_NE(text.find("columns=576  # 62 per micro-batch; not measured: columns must be a multiple of 128"),
            std::string::npos);
  double total = 0;
  for (const KernelShape& shape : shapes_.shapes) total += flops_of(shape);
  double of_cases = 0;
  for (const real::KernelCase& value : *cases) of_cases += subjects_of(value).front().flops;
  EXPECT_DOUBLE_EQ(of_cases, total);
}

TEST(Shapes, AModelAloneTakesThePlansDefaults) {
  const auto text = cli::show_shapes(tests::shipped("examples/models/llama-3-8b.json"), 2048, {});
  ASSERT_TRUE(text) << to_string(text.error());
  // Query, key and value together: 4096 + 2 * 8 * 128 columns.
  EXPECT_NE(text->find("gemm name=llama-3-8b/qkv phase=F format=bf16 m=2048 n=6144 k=4096  # 32"), std::string::npos)
      << *text;
  const auto fp8 = cli::show_shapes(tests::shipped("examples/models/llama-3-8b.json"), 2048, {"precision.gemm=fp8"});
  ASSERT_TRUE(fp8) << to_string(fp8.error());
  EXPECT_NE(fp8->find("phase=F format=fp8_block m=2048 n=6144 k=4096"), std::string::npos);
  const auto wrong = cli::show_shapes(tests::shipped("examples/models/llama-3-8b.json"), 2048, {"precision.gem=fp8"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::input);
}

}  // namespace
}  // namespace plumbline::model
