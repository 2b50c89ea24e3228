#include "real/measure/kernel_case/kernel_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "real/measure/kernel_case/case_sweep.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

// The form of a kernel's case and of its records.

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

// A sweep of cases on a made-up machine: cases skipped, postponed and written, and its end.

// Every sample takes a millisecond.
class SteadyRunner final : public Runner {
 public:
  SteadyRunner(std::size_t subjects, int samples) : subjects_(subjects), samples_(samples) {}
  model::Result<std::vector<Sample>> round(std::size_t /*number*/) override {
    std::vector<Sample> samples;
    for (std::size_t subject = 0; subject < subjects_; ++subject)
      for (int i = 0; i < samples_; ++i) samples.push_back({subject, 1e-3});
    return samples;
  }
  Findings findings(std::size_t subject) const override { return {.note = "subject " + std::to_string(subject)}; }

 private:
  std::size_t subjects_;
  int samples_;
};

class MadeUpMachine final : public CaseMachine {
 public:
  std::string device() const override { return "made up"; }
  int sms() const override { return 4; }
  std::string environment() const override { return "{}"; }
  bool lost() const override { return lost_; }
  model::Result<std::unique_ptr<Runner>> prepare(const KernelCase& what, int samples) override {
    prepared_.push_back(to_line(what));
    const auto failure = failures_.find(to_line(what));
    if (failure == failures_.end()) return std::make_unique<SteadyRunner>(subjects_of(what).size(), samples);
    lost_ = failure->second == "lost";
    return tl::unexpected(model::Error{model::ErrorKind::infeasible, failure->second});
  }

  std::map<std::string, std::string> failures_;
  std::vector<std::string> prepared_;

 private:
  bool lost_ = false;
};

std::vector<KernelCase> cases_of(const std::vector<std::string>& lines) {
  std::vector<KernelCase> cases;
  for (const std::string& line : lines) cases.push_back(parse_kernel_case(line).value());
  return cases;
}

class CaseSweep : public testing::Test {
 protected:
  SweepSummary sweep(const std::vector<std::string>& lines, std::optional<double> budget_s = std::nullopt) {
    const auto journal = Journal::open(path_, machine_.device()).value();
    Budget budget(budget_s, [] { return 0.0; });
    options_.floor_s = [](const KernelCase&) { return 0.0; };
    const CaseRecords records = {
        [](const KernelCase& what, const Series& series, const Findings& findings) {
          return R"({"kind":"measurement","device":"made up","case":")" + to_line(what) + R"(","cache":")" +
                 series.subject.cache + R"(","variant":")" + series.subject.variant + R"(","samples":)" +
                 std::to_string(series.seconds.size()) + R"(,"note":")" + findings.note + "\"}\n";
        },
        [](const KernelCase& what, const std::string& reason) {
          return R"({"kind":"failure","device":"made up","case":")" + to_line(what) + R"(","reason":")" + reason +
                 "\"}\n";
        }};
    return measure_cases(cases_of(lines), machine_, *journal, budget, records, options_,
                         [this](const std::string& line) { said_.push_back(line); });
  }
  std::string file() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const tests::TemporaryDirectory folder_;
  const std::string path_ = folder_.path() / "records.jsonl";
  MadeUpMachine machine_;
  SweepOptions options_;
  std::vector<std::string> said_;
};

TEST_F(CaseSweep, WritesEachVariantWithItsSamplesAndFindings) {
  const SweepSummary summary = sweep({"copy bytes=1000000000"});
  EXPECT_EQ(summary.measured, 1);
  EXPECT_EQ(summary.end, SweepEnd::done);
  EXPECT_THAT(file(), testing::HasSubstr(R"("variant":"kernel","samples":30,"note":"subject 0")"));
  EXPECT_THAT(file(), testing::HasSubstr(R"("variant":"driver","samples":30,"note":"subject 1")"));
  // The copy moves 2e9 bytes in a millisecond.
  EXPECT_THAT(said_, testing::ElementsAre(
                         "copy bytes=1000000000: cold kernel 1000.0 us, 2000 GB/s; cold driver 1000.0 us, 2000 "
                         "GB/s"));
}

TEST_F(CaseSweep, ContinuesFromWhatIsThere) {
  sweep({"launch"});
  const SweepSummary summary = sweep({"launch", "graph nodes=2"});
  EXPECT_EQ(summary.skipped, 1);
  EXPECT_EQ(summary.measured, 1);
  EXPECT_THAT(machine_.prepared_, testing::ElementsAre("launch", "graph nodes=2"));
}

TEST_F(CaseSweep, RepeatsWhatFailedOnlyWhenAskedTo) {
  machine_.failures_["launch"] = "wrong numbers";
  EXPECT_EQ(sweep({"launch"}).failed, 1);
  EXPECT_THAT(file(), testing::HasSubstr(R"("reason":"wrong numbers")"));
  EXPECT_EQ(sweep({"launch"}).skipped, 1);
  machine_.failures_.clear();
  options_.retry = true;
  EXPECT_EQ(sweep({"launch"}).measured, 1);
}

TEST_F(CaseSweep, EndsWhereTheDeviceIsLostAndThenPassesOverTheCase) {
  machine_.failures_["graph nodes=2"] = "lost";
  const std::vector<std::string> lines = {"launch", "graph nodes=2", "graph nodes=3"};
  const SweepSummary summary = sweep(lines);
  EXPECT_EQ(summary.end, SweepEnd::device_lost);
  EXPECT_EQ(summary.measured + summary.failed, 2);
  EXPECT_THAT(file(), testing::HasSubstr("(the device context is lost)"));
  const SweepSummary rest = sweep(lines);
  EXPECT_EQ(rest.skipped, 2);
  EXPECT_EQ(rest.measured, 1);
}

TEST_F(CaseSweep, PassesOverWhatDoesNotFitIntoTheBudget) {
  const SweepSummary summary = sweep({"gemm phase=F format=bf16 m=64 n=64 k=64 soak=5", "launch"}, 1.0);
  EXPECT_EQ(summary.postponed, 1);
  EXPECT_EQ(summary.measured, 1);
  EXPECT_EQ(summary.end, SweepEnd::out_of_time);
}

// Each rank waits for the others, so none may leave out a case.
TEST_F(CaseSweep, RanksInStepMeasureEverythingAndOneOfThemWrites) {
  sweep({"launch"});
  const std::string before = file();
  options_.in_step = true;
  options_.writes = false;
  EXPECT_EQ(sweep({"launch", "graph nodes=2"}, 0.001).measured, 2);
  EXPECT_EQ(file(), before);
}

TEST_F(CaseSweep, EndsAfterTheCaseThatIsInterrupted) {
  options_.interrupted = [this] { return !machine_.prepared_.empty(); };
  const SweepSummary summary = sweep({"launch", "graph nodes=2"});
  EXPECT_EQ(summary.measured, 1);
  EXPECT_EQ(summary.end, SweepEnd::interrupted);
}

}  // namespace
}  // namespace plumbline::real
