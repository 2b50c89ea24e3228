// Reads the shipped classes of kernels and files of that form.
#include "calibrate/import/kernel_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "tests/support/inputs.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using tests::shipped_kernel_classes;

TEST(KernelClasses, EveryClassOfThePublishedProfileIsKnown) {
  const auto chunk =
      read_chunk(tests::shipped("calibrate/published/h800_dualpipe_chunk.csv"), shipped_kernel_classes());
  ASSERT_TRUE(chunk);
  for (const model::Kernel& kernel : chunk->kernels)
    EXPECT_NE(shipped_kernel_classes().named(kernel.class_name), nullptr) << kernel.class_name;
  const std::map<std::string, std::string> rows = {
      {"gemm_fp8", "GEMM"},          {"grouped_gemm_fp8", "GEMM"},
      {"gemm_bf16", "GEMM"},         {"gemm_fp8_wgrad", "weight-gradient GEMM"},
      {"attn_fwd", "attention"},     {"gemm_fp8_wgrad_grouped", "weight-gradient GEMM"},
      {"attn_bwd", "attention"},     {"attn_bwd_aux", "attention"},
      {"rmsnorm_fwd", "norm"},       {"rmsnorm_bwd", "norm"},
      {"quant_cast", "cast"},        {"scale_transpose", "transpose"},
      {"swiglu", "swiglu"},          {"weight_transpose", "transpose"},
      {"permute", "permute"},        {"copy", "copy"},
      {"rotary", "rotary"},          {"memcpy_memset", "copy"},
      {"router_topk", "router"},     {"elementwise", "elementwise"},
      {"notify", "notify"},          {"dispatch_kernel", "dispatch"},
      {"combine_kernel", "combine"}, {"layout", "layout"},
      {"nobody knows", "other"}};
  for (const auto& [name, row] : rows) EXPECT_EQ(shipped_kernel_classes().compare_row(name), row) << name;
}

// The table's origins are public sources of kernels.
TEST(KernelClasses, NamesOfPublicSources) {
  std::ifstream table(tests::shipped("tests/data/kernel_names.tsv"));
  std::set<std::string> names;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos) << line;
    const std::string name = line.substr(tab + 1);
    const KernelClass* found = shipped_kernel_classes().find(name);
    EXPECT_EQ(found == nullptr ? "no class" : found->name, line.substr(0, tab)) << name;
    EXPECT_TRUE(names.insert(name).second) << name << " appears twice";
  }
  EXPECT_GE(names.size(), 300U);
  EXPECT_EQ(shipped_kernel_classes().find("what nobody knows"), nullptr);
}

TEST(KernelClasses, EndlessNamesAreLookedAtFromTheirBeginning) {
  const std::string endless(1 << 20, 'a');
  EXPECT_EQ(shipped_kernel_classes().find(endless), nullptr);
  const KernelClass* found = shipped_kernel_classes().find("void deep_gemm::fp8_wgrad_gemm_kernel<" + endless);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "gemm_fp8_wgrad");
}

TEST(KernelClasses, Annotations) {
  const auto says = [](const std::string& name) {
    const PhaseAnnotation* found = shipped_kernel_classes().annotation(name);
    return found == nullptr ? "" : found->phase + " " + found->section + (found->descending ? " descending" : "");
  };
  EXPECT_EQ(says("attn(F)"), "F attention");
  EXPECT_EQ(says("mlp(F)"), "F mlp");
  EXPECT_EQ(says("dispatch(F)"), "F dispatch");
  EXPECT_EQ(says("combine(F)"), "F combine");
  EXPECT_EQ(says("attn(B)"), "B attention descending");
  EXPECT_EQ(says("mlp(B)"), "B mlp descending");
  EXPECT_EQ(says("dispatch(B)"), "B dispatch descending");
  EXPECT_EQ(says("combine(B)"), "B combine descending");
  EXPECT_EQ(says("attn(W)"), "W attention descending");
  EXPECT_EQ(says("mlp(W)"), "W mlp descending");
  for (const char* name : {"forward", "## forward ##", "forward_step", "Forward 3", "0F1"}) EXPECT_EQ(says(name), "F ");
  for (const char* name : {"backward", "## backward ##", "backward_step", "Backward 3", "0B1"})
    EXPECT_EQ(says(name), "B ");
  for (const char* name :
       {"ProfilerStep#3", "1F1B", "FSDP::pre_forward", "Optimizer.step#AdamW.step", "nccl:all_reduce"})
    EXPECT_EQ(says(name), "") << name;
}

TEST(KernelClasses, WrongFilesAreRefusedWithTheLine) {
  const std::string rows = "rows = [\"GEMM\"]\n";
  const std::string phase = "[[phase]]\nphase = \"F\"\npatterns = [\"f\"]\n";
  const auto a_class = [](const std::string& patterns, const std::string& row = "GEMM") {
    return "[[class]]\nname = \"a\"\ncompare = \"" + row + "\"\n" + patterns + "\n";
  };
  const auto with = [&](const std::string& patterns) { return rows + a_class("patterns = " + patterns) + phase; };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"rows = [", "k.toml:1"},
      {"row = 1\n", "rows: required key is missing"},
      {rows + a_class("pattern = [\"x\"]\npatterns = [\"x\"]") + phase,
       "k.toml:5: class.pattern: unknown key (did you mean 'patterns'?"},
      {rows + phase, "class: required key is missing"},
      {rows + "class = 1\n" + phase, "class: expected a list of tables (write each as [[class]])"},
      {rows + a_class("patterns = [\"x\"]", "GEM") + phase,
       "k.toml:2: class.compare: 'GEM' is not known (did you mean 'GEMM'?"},
      {with("[\"(x\"]"), "k.toml:2: class.patterns: '(x' is no regular expression"},
      {with("[\"(a+)+b\"]"), "k.toml:2: class.patterns: '(a+)+b' repeats a group that repeats already"},
      {with("[\"((x[a-z]*)y){2,9}\"]"), "repeats a group that repeats already"},
      {with("[\"" + std::string(300, '(') + "\"]"), "a pattern has more than 256 characters"},
      {with("[]"), "k.toml:5: class.patterns: expected a list of strings"},
      {rows + a_class("patterns = [\"x\"]") + a_class("patterns = [\"y\"]") + phase,
       "k.toml:6: class.name: 'a' appears twice"},
      {rows + a_class("patterns = [\"x\"]") + "[[phase]]\nphase = \"Q\"\npatterns = [\"f\"]\n",
       "k.toml:6: phase.phase: 'Q' is not known"},
  };
  const tests::TemporaryDirectory folder;
  for (const auto& [text, expected] : cases) {
    const auto classes = load_kernel_classes(folder.write("k.toml", text));
    ASSERT_FALSE(classes) << text;
    EXPECT_THAT(model::to_string(classes.error()), testing::HasSubstr(expected));
  }
}

TEST(KernelClasses, LayersThatAnnotationsSpan) {
  const auto layer = [](const char* name) {
    const LayerAnnotation found = shipped_kernel_classes().layer(name);
    const auto number = [](std::optional<int> value) { return value ? std::to_string(*value) : "-"; };
    return found.counted ? "counted" : number(found.forward) + " " + number(found.backward);
  };
  EXPECT_EQ(layer("FSDP::pre_forward (layers.3)"), "3 3");
  EXPECT_EQ(layer("transformer.h.12"), "12 12");
  EXPECT_EQ(layer("layer_3f-layer_12b"), "3 12");
  EXPECT_EQ(layer("layer_3f"), "3 -");
  EXPECT_EQ(layer("layer_12b"), "- 12");
  EXPECT_EQ(layer("TransformerLayer"), "counted");
  EXPECT_EQ(layer("megatron.core.transformer.transformer_layer._forward_mlp.mlp"), "counted");
  EXPECT_EQ(layer("forward_step"), "- -");
}

}  // namespace
}  // namespace plumbline::calibrate
