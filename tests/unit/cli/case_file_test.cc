#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "real/measure/kernel_case/kernel_case.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

using tests::expect_error;

std::vector<std::string> texts(const std::vector<KernelCase>& cases) {
  std::vector<std::string> lines;
  for (const KernelCase& value : cases) lines.push_back(to_line(value));
  return lines;
}

class CaseFile : public testing::Test {
 protected:
  model::Result<std::vector<KernelCase>> read(const std::string& name, const std::string& text) {
    path_ = folder_.write(name, text).string();
    return read_case_file(path_);
  }
  void expect_refused(const std::string& name, const std::string& text, int line, const std::string& key,
                      const std::string& what) {
    const auto lines = read(name, text);
    ASSERT_FALSE(lines) << text;
    expect_error(lines.error(), model::ErrorKind::input, path_, line, key, what);
  }

  const tests::TemporaryDirectory folder_;
  std::string path_;
};

TEST_F(CaseFile, ReadsTables) {
  const auto lines = read("a.toml",
                          "[[case]]\nop = \"gemm\"\nk = 512\nm = 128\nn = 256\nphase = \"F\"\nformat = \"bf16\"\n"
                          "[[case]]\nop = \"launch\"\n");
  ASSERT_TRUE(lines) << to_string(lines.error());
  EXPECT_THAT(texts(*lines), testing::ElementsAre("gemm phase=F format=bf16 m=128 n=256 k=512", "launch"));
}

TEST_F(CaseFile, ReadsLines) {
  const auto lines = read("a.cases", "# two cases\nlaunch\n\t\r\ncopy bytes=1024  # small\r\n");
  ASSERT_TRUE(lines) << to_string(lines.error());
  EXPECT_THAT(texts(*lines), testing::ElementsAre("launch", "copy bytes=1024"));
}

TEST_F(CaseFile, ALineListsValues) {
  const auto lines = read("a.cases", "gemm phase=F format=bf16 m=8,16 n=24,32 k=8\n");
  ASSERT_TRUE(lines) << to_string(lines.error());
  EXPECT_THAT(texts(*lines),
              testing::ElementsAre("gemm phase=F format=bf16 m=8 n=24 k=8", "gemm phase=F format=bf16 m=8 n=32 k=8",
                                   "gemm phase=F format=bf16 m=16 n=24 k=8", "gemm phase=F format=bf16 m=16 n=32 k=8"));
}

// y[m,n] = x[m,k] w[n,k]^T; dx[m,k] is summed over n, dw[n,k] over m.
TEST_F(CaseFile, NamesStandForShapes) {
  const auto lines = read("a.cases",
                          "shape gemm name=a/x m=8 n=16 k=24 groups=2\nshape gemm name=a/y m=8 n=8 k=8\n"
                          "shape rmsnorm name=a/z rows=4 columns=8\n"
                          "gemm phase=I,W name=a/x format=bf16 m=32\ngemm name=a/* phase=F format=bf16\n"
                          "partition name=a/z ctas=0\nrmsnorm name=a/x rows=1 columns=8\n");
  ASSERT_TRUE(lines) << to_string(lines.error());
  EXPECT_THAT(texts(*lines), testing::ElementsAre("gemm name=a/x phase=I format=bf16 m=32 n=24 k=16 groups=2",
                                                  "gemm name=a/x phase=W format=bf16 m=16 n=24 k=32 groups=2",
                                                  "gemm name=a/x phase=F format=bf16 m=8 n=16 k=24 groups=2",
                                                  "gemm name=a/y phase=F format=bf16 m=8 n=8 k=8",
                                                  "partition name=a/z kernel=rmsnorm ctas=0 rows=4 columns=8",
                                                  "rmsnorm name=a/x rows=1 columns=8"));
}

TEST_F(CaseFile, ErrorsNameFileAndLine) {
  expect_refused("a.cases", "launch\ncopy bytes=16,\n", 2, "", "bytes = '' is no whole number");
  expect_refused("a.cases", "gemm name=a/* phase=F format=bf16\n", 1, "", "gemm needs m=");
  expect_refused("a.cases", "launch\nlift bytes=3\n", 2, "", "'lift' is no operation");
  expect_refused("a.toml", "[[case]]\nop = \"launch\"\n[[case]]\nop = \"copy\"\n", 3, "case", "copy needs bytes=");
  expect_refused("a.toml", "[[case]]\nbytes = 16\n", 1, "case.op", "required key is missing");
  expect_refused("a.toml", "[[case]]\nop = \"copy\"\nbytes = 1.5\n", 3, "case.bytes", "a whole number or one word");
  expect_refused("a.toml", "[[case]]\nop = \"launch\"\nname = \"a b\"\n", 3, "case.name", "a whole number or one word");
  expect_refused("a.toml", "[[cases]]\nop = \"launch\"\n", 1, "cases", "unknown key");
  expect_refused("a.toml", "case = 3\n", 1, "case", "a list of tables");
  expect_refused("a.toml", "[[case]\n", 1, "", "");
  expect_refused("a.toml", "# nothing\n", 0, "case", "holds no case");
  expect_refused("a.txt", "launch\n", 0, "", "ends in .toml or .cases");
}

TEST_F(CaseFile, ShippedOnesRead) {
  EXPECT_EQ(read_case_file(tests::shipped("real/cuda/cases/deepseek-v3.toml")).value().size(), 12U);
  EXPECT_GT(read_case_file(tests::shipped("real/cuda/cases/smoke.cases")).value().size(), 15U);
  EXPECT_GT(read_case_file(tests::shipped("real/cuda/cases/decode.cases")).value().size(), 60U);
  EXPECT_GT(read_case_file(tests::shipped("real/cuda/cases/power.cases")).value().size(), 15U);
}

class BuiltInSweep : public testing::Test {
 protected:
  // Returns the index of the first case whose line contains this part.
  std::size_t first(const std::string& part) const {
    const auto found = std::ranges::find_if(
        sweep_, [&](const KernelCase& value) { return to_line(value).find(part) != std::string::npos; });
    EXPECT_NE(found, sweep_.end()) << part;
    return static_cast<std::size_t>(found - sweep_.begin());
  }

  const std::vector<KernelCase> sweep_ = read_case_file(tests::shipped("real/cuda/cases/sweep.cases")).value();
};

TEST_F(BuiltInSweep, HasEachCaseOnceAndEveryKindOfThem) {
  std::set<std::string> lines;
  std::map<std::string, int> kinds, formats;
  for (const KernelCase& value : sweep_) {
    const std::string line = to_line(value);
    EXPECT_TRUE(lines.insert(line).second) << line;
    EXPECT_EQ(to_line(parse_kernel_case(line).value()), line);
    ++kinds[value.op];
    if (value.op == "gemm") ++formats[value.phase + value.format];
  }
  for (const char* kind :
       {"gemm", "attention", "rmsnorm", "swiglu", "quantise", "permute", "adamw", "copy", "host_to_device", "launch",
        "graph", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "partition"})
    EXPECT_GT(kinds[kind], 0) << kind;
  EXPECT_EQ(formats.size(), 9U);  // three phases in three formats
}

TEST_F(BuiltInSweep, ThePartitionRunsFrom0To48WithAndWithoutATarget) {
  std::set<std::int64_t> with, without;
  for (const KernelCase& value : sweep_) {
    if (value.kernel != "gemm" || value.copy_gbps >= 0 || value.copy_to == "host" || value.by == "green") continue;
    (value.target_sms == KernelCase::others ? with : without).insert(value.ctas);
  }
  EXPECT_EQ(without, std::set<std::int64_t>({0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48}));
  without.erase(0);  // without a target
  EXPECT_EQ(with, without);
}

TEST_F(BuiltInSweep, TheMostValuableComeFirst) {
  EXPECT_EQ(sweep_.front().op, "launch");
  EXPECT_LT(first("deepseek-v3/q_b phase=F format=fp8_block"), first("deepseek-v3/q_b phase=W format=fp8_block"));
  EXPECT_LT(first("partition"), first("llama-3-70b"));
  EXPECT_LT(first("name=deepseek-v3/q_b kernel=gemm ctas=20"), first("name=deepseek-v3/q_b kernel=gemm ctas=44"));
}

}  // namespace
}  // namespace plumbline::real
