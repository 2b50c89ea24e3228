// The form of a kernel's case and of its records.
#include "real/measure/kernel_case/kernel_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace plumbline::real {
namespace {

KernelCase parsed(const std::string& line) {
  const auto result = parse_kernel_case(line);
  EXPECT_TRUE(result) << line << ": " << result.error().message;
  return result.value();
}

Subject work_of(const std::string& line) { return subjects_of(parsed(line)).front(); }

TEST(KernelCases, ReadsEveryKeyOfAGemm) {
  const KernelCase value = parsed(
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

TEST(KernelCases, APartitionTakesTheKeysOfItsKernel) {
  const KernelCase value = parsed("partition kernel=rmsnorm ctas=20 copy_gbps=50 copy_to=host rows=64 columns=512");
  EXPECT_EQ(value.operation(), "rmsnorm");
  EXPECT_EQ(value.ctas, 20);
  EXPECT_EQ(value.copy_gbps, 50);
  EXPECT_EQ(value.copy_to, "host");
  EXPECT_EQ(value.rows, 64);
}

TEST(KernelCases, DefaultsAreLeftOutAndTheOrderOfKeysDoesNotMatter) {
  EXPECT_EQ(to_line(parsed("gemm k=16 n=32 m=48 groups=1 format=bf16 phase=F")),
            "gemm phase=F format=bf16 m=48 n=32 k=16");
  // Required keys stay even where they are zero.
  EXPECT_EQ(to_line(parsed("partition ctas=0 kernel=adamw elements=8 copy_gbps=-1")),
            "partition kernel=adamw ctas=0 elements=8");
}

TEST(KernelCases, MistakesAreNamed) {
  const std::map<std::string, std::string> mistakes = {
      {"gem m=1", "'gem' is no operation"},
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
      {"cached_attention format=bf16 sequences=1 length=8 heads=2 qk_dim=16 v_dim=8 latent=1", "needs kv_heads=1"},
      {"graph nodes=0", "nodes = 0 is outside 1 to"},
      {"all_reduce bytes=48 ranks=8", "whole FP32 numbers for each of the ranks"},
  };
  for (const auto& [line, expected] : mistakes) {
    const auto result = parse_kernel_case(line);
    ASSERT_FALSE(result) << line;
    EXPECT_THAT(result.error().message, testing::HasSubstr(expected));
  }
}

TEST(KernelCases, RowsOfGroups) {
  EXPECT_EQ(group_rows(parsed("gemm phase=F format=bf16 m=64 n=8 k=8 groups=3")),
            std::vector<std::int64_t>({64, 64, 64}));
  // 32 blocks of 128, four of them one each; of the other 28 by 12 : 6 : 4 : 3 the groups get 13.44, 6.72, 4.48 and
  // 3.36, rounded down, and the largest get the two that are left.
  EXPECT_EQ(group_rows(parsed("gemm phase=W format=bf16 m=8 n=8 k=1024 groups=4 rows_by=zipf")),
            std::vector<std::int64_t>({15 * 128, 8 * 128, 5 * 128, 4 * 128}));
  for (const std::int64_t groups : {2, 5, 32, 256}) {
    KernelCase value = parsed("gemm phase=F format=fp8_block m=128 n=16 k=16 groups=2 rows_by=zipf");
    value.groups = groups;
    for (value.m = 128; value.m <= 1024; value.m += 128) {
      const std::vector<std::int64_t> rows = group_rows(value);
      EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), value.m * groups);
      EXPECT_TRUE(std::is_sorted(rows.rbegin(), rows.rend()));
      EXPECT_GE(rows.back(), 128);
    }
  }
}

TEST(KernelWork, FlopsAndBytesOfGemms) {
  // 2 * 4096 * 24576 * 1536; BF16: (4096*1536 + 24576*1536 + 4096*24576) * 2 bytes.
  const Subject bf16 = work_of("gemm phase=F format=bf16 m=4096 n=24576 k=1536");
  EXPECT_DOUBLE_EQ(bf16.flops, 309237645312.0);
  EXPECT_DOUBLE_EQ(bf16.bytes, 2.0 * (6291456 + 37748736 + 100663296));
  // FP8 operands of one byte; scales per row and 12 blocks, and 192 * 12 blocks of 128 x 128, four bytes each.
  const Subject block = work_of("gemm phase=F format=fp8_block m=4096 n=24576 k=1536");
  EXPECT_DOUBLE_EQ(block.bytes, 6291456 + 37748736 + 2.0 * 100663296 + 4.0 * (4096 * 12 + 192 * 12));
  // The weight gradient reads and writes FP32: 8 bytes per entry; all of it four times in four groups.
  const Subject gradient = work_of("gemm phase=W format=bf16 m=128 n=256 k=512 groups=4");
  EXPECT_DOUBLE_EQ(gradient.flops, 4 * 2.0 * 128 * 256 * 512);
  EXPECT_DOUBLE_EQ(gradient.bytes, 4 * (2.0 * (128 * 512 + 256 * 512) + 8.0 * 128 * 256));
}

TEST(KernelWork, BytesOfMemoryBoundKernels) {
  EXPECT_DOUBLE_EQ(work_of("rmsnorm rows=10 columns=128").bytes, 10 * 128 * 4 + 128 * 2);
  EXPECT_DOUBLE_EQ(work_of("swiglu rows=10 columns=128").bytes, 10 * 128 * 6);
  EXPECT_DOUBLE_EQ(work_of("quantise rows=10 columns=128").bytes, 10 * 128 * 3 + 10 * 4);
  // 10 rows read, 80 written, 80 indices.
  EXPECT_DOUBLE_EQ(work_of("permute rows=10 columns=128 top_k=8").bytes, 90 * 128 * 2 + 80 * 4);
  EXPECT_DOUBLE_EQ(work_of("adamw elements=1000").bytes, 22000);
  EXPECT_DOUBLE_EQ(work_of("copy bytes=1024").bytes, 2048);  // read and written
}

TEST(KernelWork, AttentionSeesHalfOfAllPairs) {
  const std::string line = " format=bf16 sequences=2 length=100 heads=4 kv_heads=2 qk_dim=24 v_dim=16";
  const Subject forward = work_of("attention phase=F" + line);
  const Subject backward = work_of("attention phase=B" + line);
  // 2 sequences, 4 heads, 5000 pairs each; a multiply-add is two.
  EXPECT_DOUBLE_EQ(forward.flops, 2 * 4 * 5000 * 2.0 * (24 + 16));
  EXPECT_DOUBLE_EQ(backward.flops, 2 * 4 * 5000 * 2.0 * (3 * 24 + 2 * 16));
  const double queries = 200 * 4 * 24, keys = 200 * 2 * 24, values = 200 * 2 * 16, outputs = 200 * 4 * 16;
  EXPECT_DOUBLE_EQ(forward.bytes, 2 * (queries + keys + values + outputs) + 4 * 200 * 4);
  EXPECT_DOUBLE_EQ(backward.bytes, 2 * (2 * queries + 2 * keys + 2 * values + 2 * outputs) + 4 * 200 * 4);
}

TEST(KernelWork, DecodeReadsTheCacheOnce) {
  const Subject grouped =
      work_of("cached_attention format=bf16 sequences=3 length=100 heads=8 kv_heads=2 qk_dim=24 v_dim=16");
  EXPECT_DOUBLE_EQ(grouped.flops, 3 * 8 * 100 * 2.0 * (24 + 16));
  EXPECT_DOUBLE_EQ(grouped.bytes, 2.0 * 3 * (100 * 2 * (24 + 16) + 8 * (24 + 16)) + 3 * 4);
  const Subject latent =
      work_of("cached_attention format=bf16 sequences=3 length=100 heads=8 kv_heads=1 qk_dim=24 v_dim=16 latent=1");
  EXPECT_DOUBLE_EQ(latent.flops, grouped.flops);
  EXPECT_DOUBLE_EQ(latent.bytes, 2.0 * 3 * (100 * 24 + 8 * (24 + 16)) + 3 * 4);
}

TEST(KernelWork, BytesOfCollectivesAreThoseOfTheBestAlgorithm) {
  EXPECT_DOUBLE_EQ(work_of("all_reduce bytes=1024 ranks=8").bytes, 1792);
  EXPECT_DOUBLE_EQ(work_of("all_gather bytes=1024 ranks=8").bytes, 896);
  EXPECT_DOUBLE_EQ(work_of("reduce_scatter bytes=1024 ranks=2").bytes, 512);
  EXPECT_DOUBLE_EQ(work_of("all_to_all bytes=1024 ranks=4").bytes, 768);
  for (const char* op : {"all_reduce", "all_gather", "all_to_all"})
    EXPECT_EQ(work_of(std::string(op) + " bytes=1024").bytes, 0);
}

TEST(KernelSubjects, AreOneForEachVariant) {
  const auto variants = [](const std::string& line) {
    std::string words;
    for (const Subject& subject : subjects_of(parsed(line)))
      words += subject.cache + (subject.cache.empty() ? "" : " ") + subject.variant + ", ";
    return words;
  };
  EXPECT_EQ(variants("rmsnorm rows=8 columns=8"), "hot burst, cold burst, ");
  EXPECT_EQ(variants("gemm phase=F format=bf16 m=8 n=8 k=8 soak=2"), "hot sustained, ");
  EXPECT_EQ(variants("rmsnorm rows=8 columns=8 soak=2"), "hot sustained, ");
  EXPECT_EQ(variants("launch"), "host_call, stream_gap, graph_node, round_trip, ");
  EXPECT_EQ(variants("partition kernel=adamw elements=8 ctas=0"), "hot alone, ");
  const std::vector<Subject> both = subjects_of(parsed("partition kernel=adamw elements=8 ctas=20"));
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].communication_sms, 0);
  EXPECT_EQ(both[1].communication_sms, 20);
  EXPECT_EQ(both[1].op, "adamw");
  EXPECT_EQ(both[1].key, "partition kernel=adamw ctas=20 elements=8");
}

}  // namespace
}  // namespace plumbline::real
