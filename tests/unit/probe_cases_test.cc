// The case format of the GPU probe, its built-in sweep and the work of a case.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "real/cuda/probe/case.h"
#include "real/cuda/probe/dry_run.h"
#include "real/cuda/probe/group_rows.h"
#include "real/cuda/probe/options.h"
#include "real/cuda/probe/sweep.h"
#include "real/cuda/probe/work.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real::cuda {
namespace {

using testing::HasSubstr;

Case parsed(const std::string& line) {
  const ParsedCase result = parse_case(line);
  EXPECT_EQ(result.error, "") << line;
  return result.value;
}

TEST(ProbeCases, ReadsEveryKeyOfAProduct) {
  const Case value = parsed(
      "gemm name=deepseek-v3/q_b phase=W format=fp8_tensor m=4096 n=24576 k=1536 groups=4 fast_accumulation=1 soak=2 "
      "target_sms=112");
  EXPECT_EQ(value.op, "gemm");
  EXPECT_EQ(value.name, "deepseek-v3/q_b");
  EXPECT_EQ(value.phase, "W");
  EXPECT_EQ(value.format, "fp8_tensor");
  EXPECT_EQ(std::vector<std::int64_t>(
                {value.m, value.n, value.k, value.groups, value.fast_accumulation, value.soak, value.target_sms}),
            std::vector<std::int64_t>({4096, 24576, 1536, 4, 1, 2, 112}));
}

TEST(ProbeCases, APartitionTakesTheKeysOfItsKernel) {
  const Case value = parsed("partition kernel=rmsnorm ctas=20 copy_gbps=50 copy_to=host rows=64 columns=512");
  EXPECT_EQ(value.operation(), "rmsnorm");
  EXPECT_EQ(value.ctas, 20);
  EXPECT_EQ(value.copy_gbps, 50);
  EXPECT_EQ(value.copy_to, "host");
  EXPECT_EQ(value.rows, 64);
}

TEST(ProbeCases, TheCanonicalLineReadsBackToItself) {
  for (const Case& value : built_in_sweep()) {
    const std::string line = to_line(value);
    EXPECT_EQ(to_line(parsed(line)), line);
  }
}

TEST(ProbeCases, DefaultsAreLeftOutAndTheOrderOfKeysDoesNotMatter) {
  EXPECT_EQ(to_line(parsed("gemm k=16 n=32 m=48 groups=1 format=bf16 phase=F")),
            "gemm phase=F format=bf16 m=48 n=32 k=16");
  // Required keys stay even where they are zero.
  EXPECT_EQ(to_line(parsed("partition ctas=0 kernel=adamw elements=8 copy_gbps=-1")),
            "partition kernel=adamw ctas=0 elements=8");
}

TEST(ProbeCases, MistakesAreNamedWithTheirLine) {
  const std::map<std::string, std::string> mistakes = {
      {"gem m=1", "a.cases:2: 'gem' is no operation"},
      {"copy", "copy needs bytes="},
      {"copy bytes=16 bytes=32", "'bytes' is given twice"},
      {"copy bytes", "'bytes' is not key=value"},
      {"copy bytes=1k", "bytes = '1k' is no whole number"},
      {"copy bytes=0", "bytes = 0 is outside 16 to"},
      {"copy bytes=24", "bytes must be a multiple of 16"},
      {"copy bytes=16 rows=4", "copy has no key 'rows'"},
      {"rmsnorm rows=1 columns=12", "columns must be a multiple of 8"},
      {"rmsnorm rows=1 columns=32776", "at most 16384 columns"},
      {"quantise rows=1 columns=64", "columns must be a multiple of 128"},
      {"gemm phase=X format=bf16 m=8 n=8 k=8", "'X' is no phase"},
      {"gemm phase=F format=fp8_block m=8 n=16 k=16", "multiples of 16"},
      {"gemm phase=F format=bf16 m=8 n=8 k=8 fast_accumulation=1", "fast_accumulation is a choice of fp8_tensor"},
      {"partition kernel=copy ctas=4 bytes=16", "partition needs a kernel="},
      {"partition ctas=4", "partition needs a kernel="},
      {"partition kernel=rmsnorm ctas=0 by=green rows=8 columns=8", "by=green needs ctas of at least 1"},
      {"partition kernel=rmsnorm ctas=8 by=hand rows=8 columns=8", "'hand' is no by"},
      {"gemm phase=F format=bf16 m=128 n=8 k=8 rows_by=zipf", "rows_by=zipf needs several groups"},
      {"gemm phase=W format=bf16 m=128 n=8 k=8 groups=2 rows_by=zipf", "rows that are a multiple of 128"},
      {"gemm phase=W format=bf16 m=8 n=8 k=8 groups=2 way=grouped", "way=grouped is for bf16 in phases F and I"},
      {"gemm phase=F format=fp8_block m=16 n=16 k=16 way=grouped", "way=grouped is for bf16 in phases F and I"},
      {"graph", "graph needs nodes="},
      {"attention phase=W format=bf16 length=8 heads=1 qk_dim=8 v_dim=8", "'W' is no phase"},
      {"attention phase=F format=fp8_block length=8 heads=1 qk_dim=8 v_dim=8", "'fp8_block' is no format"},
      {"attention phase=F format=bf16 length=8 heads=6 kv_heads=4 qk_dim=8 v_dim=8", "a multiple of kv_heads"},
      {"attention phase=F format=bf16 length=8 heads=6 qk_dim=8 v_dim=12", "must be multiples of 8"},
      {"graph nodes=0", "nodes = 0 is outside 1 to"},
      {"all_reduce bytes=48 ranks=8", "whole FP32 numbers for each of the ranks"},
  };
  for (const auto& [line, expected] : mistakes) {
    const ParsedCases result = parse_cases("# first line\n" + line + "\n", "a.cases");
    EXPECT_THAT(result.error, HasSubstr("a.cases:2: "));
    EXPECT_THAT(result.error, HasSubstr(expected));
  }
}

TEST(ProbeCases, CommentsAndEmptyLinesAreSkipped) {
  const ParsedCases result = parse_cases("\n  # all\nlaunch  # why\n\t\r\ncopy bytes=32\r\n", "a");
  ASSERT_EQ(result.error, "");
  ASSERT_EQ(result.values.size(), 2u);
  EXPECT_EQ(result.values[1].bytes, 32);
}

TEST(ProbeCases, ShippedCaseFilesAreSound) {
  const ParsedCases smoke = load_cases(PLUMBLINE_SOURCE_DIR "/real/cuda/cases/smoke.cases");
  EXPECT_EQ(smoke.error, "");
  EXPECT_GT(smoke.values.size(), 15u);
  EXPECT_THAT(load_cases("/nowhere/a.cases").error, HasSubstr("/nowhere/a.cases: cannot be read"));
}

TEST(ProbeSweep, HasEachCaseOnceAndEveryKindOfThem) {
  std::set<std::string> lines;
  std::map<std::string, int> kinds, formats;
  for (const Case& value : built_in_sweep()) {
    EXPECT_TRUE(lines.insert(to_line(value)).second) << to_line(value);
    ++kinds[value.op];
    if (value.op == "gemm") ++formats[value.phase + value.format];
  }
  for (const char* kind :
       {"gemm", "attention", "rmsnorm", "swiglu", "quantise", "permute", "adamw", "copy", "host_to_device", "launch",
        "graph", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "partition"}) {
    EXPECT_GT(kinds[kind], 0) << kind;
  }
  EXPECT_EQ(formats.size(), 9u);  // three phases in three formats
}

TEST(ProbeSweep, ThePartitionRunsFrom0To48WithAndWithoutATarget) {
  std::set<std::int64_t> with, without;
  for (const Case& value : built_in_sweep(132)) {
    if (value.op != "partition" || value.kernel != "gemm" || value.copy_gbps >= 0 || value.copy_to == "host") continue;
    if (value.by == "green") continue;
    (value.target_sms > 0 ? with : without).insert(value.ctas);
    EXPECT_EQ(value.target_sms, value.target_sms > 0 ? 132 - value.ctas : 0);
  }
  EXPECT_EQ(without, std::set<std::int64_t>({0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48}));
  without.erase(0);  // nothing is taken away: no target
  EXPECT_EQ(with, without);
}

TEST(ProbeSweep, SeveralRanksMeasureTheirCollectives) {
  ProbeOptions options;
  const ParsedCases cases = chosen_cases(options, 132, 6);
  ASSERT_EQ(cases.values.size(), 12u);  // four operations in three sizes
  for (const Case& value : cases.values) {
    EXPECT_EQ(value.ranks, 6);
    EXPECT_EQ(parse_case(to_line(value)).error, "");
  }
}

TEST(ProbeCases, RowsOfGroups) {
  EXPECT_EQ(group_rows(parsed("gemm phase=F format=bf16 m=64 n=8 k=8 groups=3")),
            std::vector<std::int64_t>({64, 64, 64}));
  // 32 blocks of 128, four of them one each; of the other 28 by 12 : 6 : 4 : 3 the groups get 13.44, 6.72, 4.48 and
  // 3.36, rounded down, and the two that are left go to the largest.
  EXPECT_EQ(group_rows(parsed("gemm phase=W format=bf16 m=8 n=8 k=1024 groups=4 rows_by=zipf")),
            std::vector<std::int64_t>({15 * 128, 8 * 128, 5 * 128, 4 * 128}));
  for (const std::int64_t groups : {2, 5, 32, 256}) {
    Case value = parsed("gemm phase=F format=fp8_block m=128 n=16 k=16 groups=2 rows_by=zipf");
    value.groups = groups;
    for (value.m = 128; value.m <= 1024; value.m += 128) {
      const std::vector<std::int64_t> rows = group_rows(value);
      EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), value.m * groups);
      EXPECT_TRUE(std::is_sorted(rows.rbegin(), rows.rend()));
      EXPECT_GE(rows.back(), 128);
    }
  }
}

TEST(ProbeSweep, TheMostValuableComeFirst) {
  const std::vector<Case> sweep = built_in_sweep();
  const auto first = [&](const std::string& part) {
    const auto found = std::find_if(sweep.begin(), sweep.end(),
                                    [&](const Case& value) { return to_line(value).find(part) != std::string::npos; });
    EXPECT_NE(found, sweep.end()) << part;
    return found;
  };
  EXPECT_EQ(sweep.front().op, "launch");
  EXPECT_LT(first("deepseek-v3/q_b phase=F format=fp8_block"), first("deepseek-v3/q_b phase=W format=fp8_block"));
  EXPECT_LT(first("partition"), first("llama-3-70b"));
  EXPECT_LT(first("name=deepseek-v3/q_b kernel=gemm ctas=20"), first("name=deepseek-v3/q_b kernel=gemm ctas=44"));
}

TEST(ProbeWork, FlopsAndBytesOfProducts) {
  // 2 * 4096 * 24576 * 1536; BF16: (4096*1536 + 24576*1536 + 4096*24576) * 2 bytes.
  const Work bf16 = work_of(parsed("gemm phase=F format=bf16 m=4096 n=24576 k=1536"));
  EXPECT_DOUBLE_EQ(bf16.flops, 309237645312.0);
  EXPECT_DOUBLE_EQ(bf16.bytes, 2.0 * (6291456 + 37748736 + 100663296));
  // FP8 operands of one byte; scales per row and 12 blocks, and 192 * 12 blocks of 128 x 128, four bytes each.
  const Work block = work_of(parsed("gemm phase=F format=fp8_block m=4096 n=24576 k=1536"));
  EXPECT_DOUBLE_EQ(block.bytes, 6291456 + 37748736 + 2.0 * 100663296 + 4.0 * (4096 * 12 + 192 * 12));
  // The weight gradient reads and writes FP32: 8 bytes per entry; all of it four times in four groups.
  const Work gradient = work_of(parsed("gemm phase=W format=bf16 m=128 n=256 k=512 groups=4"));
  EXPECT_DOUBLE_EQ(gradient.flops, 4 * 2.0 * 128 * 256 * 512);
  EXPECT_DOUBLE_EQ(gradient.bytes, 4 * (2.0 * (128 * 512 + 256 * 512) + 8.0 * 128 * 256));
}

TEST(ProbeWork, BytesOfMemoryBoundKernels) {
  EXPECT_DOUBLE_EQ(work_of(parsed("rmsnorm rows=10 columns=128")).bytes, 10 * 128 * 4 + 128 * 2);
  EXPECT_DOUBLE_EQ(work_of(parsed("swiglu rows=10 columns=128")).bytes, 10 * 128 * 6);
  EXPECT_DOUBLE_EQ(work_of(parsed("quantise rows=10 columns=128")).bytes, 10 * 128 * 3 + 10 * 4);
  // 10 rows read, 80 written, 80 indices.
  EXPECT_DOUBLE_EQ(work_of(parsed("permute rows=10 columns=128 top_k=8")).bytes, 90 * 128 * 2 + 80 * 4);
  EXPECT_DOUBLE_EQ(work_of(parsed("adamw elements=1000")).bytes, 22000);
  EXPECT_DOUBLE_EQ(work_of(parsed("copy bytes=1024")).bytes, 2048);  // read and written
}

TEST(ProbeWork, AttentionSeesHalfOfAllPairs) {
  const std::string line = " format=bf16 sequences=2 length=100 heads=4 kv_heads=2 qk_dim=24 v_dim=16";
  const Work forward = work_of(parsed("attention phase=F" + line));
  const Work backward = work_of(parsed("attention phase=B" + line));
  // 2 sequences, 4 heads, 5000 pairs each; a multiply-add is two.
  EXPECT_DOUBLE_EQ(forward.flops, 2 * 4 * 5000 * 2.0 * (24 + 16));
  EXPECT_DOUBLE_EQ(backward.flops, 2 * 4 * 5000 * 2.0 * (3 * 24 + 2 * 16));
  const double queries = 200 * 4 * 24, keys = 200 * 2 * 24, values = 200 * 2 * 16, outputs = 200 * 4 * 16;
  EXPECT_DOUBLE_EQ(forward.bytes, 2 * (queries + keys + values + outputs) + 4 * 200 * 4);
  EXPECT_DOUBLE_EQ(backward.bytes, 2 * (2 * queries + 2 * keys + 2 * values + 2 * outputs) + 4 * 200 * 4);
}

TEST(ProbeWork, TheFloorIsTheLargerOfTwoTimes) {
  const DevicePeak peak = {"test", 100, 200, 1000, 50};  // TFLOP/s, TFLOP/s, GB/s, GB/s
  // 2 * 1024^3 FLOP / 100e12 per second = 21.47 us; 6 MiB / 1e12 = 6.29 us.
  EXPECT_NEAR(floor_us(parsed("gemm phase=F format=bf16 m=1024 n=1024 k=1024"), peak), 21.4748, 1e-4);
  EXPECT_NEAR(floor_us(parsed("gemm phase=F format=fp8_tensor m=1024 n=1024 k=1024"), peak), 10.7374, 1e-4);
  EXPECT_NEAR(floor_us(parsed("copy bytes=1000000000"), peak), 2000, 1e-9);
  EXPECT_NEAR(floor_us(parsed("host_to_device bytes=1000000000"), peak), 20000, 1e-9);
  EXPECT_EQ(floor_us(parsed("launch"), peak), 0);
  EXPECT_LT(floor_us(parsed("gemm phase=F format=fp8_tensor m=64 n=64 k=64"), *find_peak("NVIDIA A100-SXM4-80GB")), 0);
}

TEST(ProbeWork, ADeviceIsFoundByItsName) {
  EXPECT_EQ(find_peak("NVIDIA H200")->name, "h200");
  EXPECT_EQ(find_peak("NVIDIA H20")->name, "h20");
  EXPECT_EQ(find_peak("NVIDIA H100 80GB HBM3")->memory_gbps, 3350);
  EXPECT_EQ(find_peak("Radeon"), nullptr);
}

TEST(ProbeOptionsTest, DryRunListsEveryCaseWithItsFloor) {
  const std::vector<Case> cases = {parsed("copy bytes=1073741824"),
                                   parsed("gemm phase=F format=bf16 m=8192 n=8192 k=8192")};
  const std::string table = dry_run_table(cases, *find_peak("h200"));
  // 2^31 bytes / 4.8 TB/s = 447.4 us; 2^40 FLOP / 989 TFLOP/s = 1112 us.
  EXPECT_THAT(table, HasSubstr("2147      447.4  memory  copy bytes=1073741824\n"));
  EXPECT_THAT(table, HasSubstr("1100      402.7       1112  compute gemm phase=F"));
  EXPECT_THAT(
      table,
      HasSubstr("2 cases; the sum of the floors is 1.56 ms on h200 (datasheet rates); measuring takes about 0:01 min"));
}

TEST(ProbeOptionsTest, ReadsTheCommandLine) {
  const ParsedOptions parsed_options = parse_options(
      {"--out", "a.jsonl", "--budget=8m", "--only", "gemm", "--samples", "40", "--lib-dir", "/x", "--strict"});
  ASSERT_EQ(parsed_options.error, "");
  EXPECT_EQ(parsed_options.value.out, "a.jsonl");
  EXPECT_EQ(parsed_options.value.budget_seconds, 480);
  EXPECT_EQ(parsed_options.value.samples, 40);
  EXPECT_TRUE(parsed_options.value.strict);
  const ParsedCases only = chosen_cases(parsed_options.value, 132);
  EXPECT_TRUE(std::all_of(only.values.begin(), only.values.end(), [](const Case& c) { return c.op == "gemm"; }));
  EXPECT_FALSE(parsed_options.value.device.has_value());
  EXPECT_EQ(parse_options({"--dry-run", "--device", "3", "--rendezvous", "/x"}).value.device, 3);
  EXPECT_THAT(parse_options({}).error, HasSubstr("--out FILE is needed"));
  EXPECT_THAT(parse_options({"--budget", "soon", "--out", "a"}).error, HasSubstr("--budget does not take 'soon'"));
  EXPECT_THAT(parse_options({"--samples", "5", "--out", "a"}).error, HasSubstr("--samples does not take '5'"));
  EXPECT_THAT(parse_options({"--fast", "yes"}).error, HasSubstr("unknown option --fast"));
  EXPECT_THAT(parse_options({"--device-peak", "tpu", "--dry-run"}).error, HasSubstr("does not take 'tpu'"));
}

}  // namespace
}  // namespace plumbline::real::cuda
