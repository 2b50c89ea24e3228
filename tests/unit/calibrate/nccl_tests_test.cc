#include <gtest/gtest.h>

#include <string>

#include "calibrate/import/printed_files.h"
#include "calibrate/measurement/measurement.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

const std::string heading =
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   7 on    host-1 device  0 [0x1b] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   8 on    host-2 device  0 [0x1b] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n";
const std::string footer = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5\n";
// 1 MiB in 50 us: 20.97 GB/s.
const std::string table_rows =
    "           0             0     float     sum      -1     5.00    0.00    0.00      0     5.00    0.00    0.00     "
    " 0\n"
    "     1048576        262144     float     sum      -1    50.00   20.97   20.97      0    40.00   26.21   26.21    "
    "N/A\n";

model::Result<Measurements> parse_table(const std::string& text) { return parse_nccl_tests(text, "all.txt"); }

std::string error_of(const std::string& text) {
  const auto parsed = parse_table(text);
  return parsed ? "" : to_string(parsed.error());
}

TEST(NcclTests, RowsBecomeMeasurements) {
  const auto parsed = parse_table(heading + table_rows + footer);
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  ASSERT_EQ(parsed->values.size(), 2u);  // the row of 0 bytes is left out
  const Measurement& out = parsed->values[0];
  EXPECT_EQ(out.op, "all_reduce");
  EXPECT_EQ(out.device, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(out.format, "fp32");
  EXPECT_EQ(out.variant, "out_of_place");
  EXPECT_EQ(out.shape, (Shape{{"bytes", 1048576}, {"ranks", 2}, {"nodes", 2}}));
  EXPECT_DOUBLE_EQ(out.time.p50, 50e-6);
  EXPECT_EQ(parsed->values[1].variant, "in_place");
  EXPECT_DOUBLE_EQ(parsed->values[1].time.p50, 40e-6);
}

TEST(NcclTests, WrongResultsAreNoMeasurement) {
  EXPECT_EQ(
      error_of(heading + "1048576 262144 float sum -1 50.00 20.97 20.97 17 40.00 26.21 26.21 0\n"),
      "all.txt:8: out_of_place: 17 results are wrong (what computes wrongly is no measurement: repair the machine, "
      "or remove the row)");
}

TEST(NcclTests, ACaseIsThereOnce) {
  EXPECT_EQ(error_of(heading + table_rows + table_rows),
            "all.txt:11: all_reduce of 1048576 bytes out_of_place is on line 9, too (a file of measurements has each "
            "case once: import the output of one cycle of one program)");
}

// The second program runs on the first of the two GPUs alone.
TEST(NcclTests, EachHeadingCountsItsOwnRanks) {
  const std::string one = "#  Rank  0 Group  0 Pid   7 on    host-1 device  0 [0x1b] NVIDIA H100 80GB HBM3\n";
  const auto parsed = parse_table(heading + table_rows + one + "1048576 262144 float sum -1 50.00 20.97 0.00 0 40.00 " +
                                  "26.21 0.00 0\n");
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  ASSERT_EQ(parsed->values.size(), 4u);
  EXPECT_EQ(parsed->values[1].shape, (Shape{{"bytes", 1048576}, {"ranks", 2}, {"nodes", 2}}));
  EXPECT_EQ(parsed->values[2].shape, (Shape{{"bytes", 1048576}, {"ranks", 1}, {"nodes", 1}}));
}

// mpirun --tag-output and --timestamp-output, srun -l, pdsh, torchrun, a container's log, and colours.
TEST(NcclTests, WhatLaunchersPutBeforeLinesIsLeftOut) {
  const std::string plain = heading + table_rows + footer;
  const auto expected = parse_table(plain);
  for (const std::string prefix :
       {"[1,0]<stdout>:", " 0: ", "node-1: ", "[rank0]:", "2026-01-31T12:00:00.123456Z ",
        "[2026-01-31 12:00:00,123] [INFO] ", "\x1b[32m",
        "Thu May  7 10:39:20 2020[1,1]<stdout>:", "Thu Dec 17 10:39:20 2026<stdout>:", "worker-0  | "}) {
    std::string decorated;
    for (const std::string_view line : model::lines_of(plain)) decorated += prefix + std::string(line) + "\r\n";
    const auto parsed = parse_table(decorated);
    ASSERT_TRUE(parsed) << prefix << to_string(parsed.error());
    EXPECT_EQ(to_csv(*parsed), to_csv(*expected)) << prefix;
  }
}

// -S 1 of nccl-tests: a time before each row.
TEST(NcclTests, RowsMayHaveATime) {
  std::string timed;
  for (const std::string_view line : model::lines_of(table_rows))
    timed += "2025-10-14 12:34:56  " + std::string(line) + "\n";
  const auto parsed = parse_table(heading + timed + footer), plain = parse_table(heading + table_rows + footer);
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  EXPECT_EQ(to_csv(*parsed), to_csv(*plain));
}

// Two communicators of two ranks: an all-reduce shows it by its bandwidths, a broadcast does not.
TEST(NcclTests, GroupsAreNoRanksOfOneCommunicator) {
  std::string groups;
  for (int rank = 0; rank < 4; ++rank)
    groups += "#  Rank  " + std::to_string(rank) + " Group  " + std::to_string(rank % 2) + " Pid  7 on  host-" +
              std::to_string(rank / 2) + " device  0 [0x1b] NVIDIA H20\n";
  for (const std::string kind : {"sum -1", "none 0"})
    EXPECT_EQ(error_of(groups + "1048576 262144 float " + kind + " 50.00 20.97 20.97 0\n"),
              "all.txt:5: 4 ranks in 2 groups: their communicators ran at the same time (measure one communicator, "
              "without NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK)");
}

TEST(NcclTests, JobsPrintedIntoOneAnotherAreRefused) {
  EXPECT_EQ(error_of(heading + heading + table_rows + table_rows),
            "all.txt:15: 2 jobs printed into one another: 2 ranks on host-1, host-2; 2 ranks on host-1, host-2 (give "
            "each job a file of its own)");
  std::string without_mpi;
  for (const std::string host : {"a", "b", "c"})
    without_mpi += "#  Rank  0 Group  0 Pid  7 on  " + host + " device  0 [0x1b] NVIDIA H100\n";
  EXPECT_EQ(error_of(without_mpi + table_rows),
            "all.txt:4: 3 jobs printed into one another: 1 rank on a; 1 rank on b; 1 rank on c (build nccl-tests with "
            "MPI=1, so that its processes are ranks of one job)");
}

// Of 4 ranks, an all-reduce has 1.5 times the bus bandwidth, and an all-gather 0.75 times.
TEST(NcclTests, RanksAreThoseOfTheBandwidths) {
  EXPECT_NE(error_of(heading + "1048576 262144 float sum -1 50.00 20.97 31.46 0\n")
                .find("all.txt:8: out_of_place: bus over algorithm bandwidth, 1.500, is that of 4 ranks, the heading "
                      "has 2"),
            std::string::npos);
  EXPECT_NE(error_of(heading + "# Collective test starting: all_gather_perf\n" +
                     "1048576 131072 float none -1 50.00 20.97 15.73 0\n")
                .find("is that of 4 ranks, the heading has 2"),
            std::string::npos);
}

// 72 GPUs of a rack are one NVLink domain, on however many hosts.
TEST(NcclTests, HostsOfARackAreOneNode) {
  std::string rack;
  for (int rank = 0; rank < 8; ++rank)
    rack += "#  Rank  " + std::to_string(rank) + " Group  0 Pid  7 on  tray-" + std::to_string(rank / 4) +
            " device  0 [0x1b] NVIDIA GB200\n";
  const auto parsed = parse_table(rack + "1048576 262144 float sum -1 50.00 20.97 36.70 0\n");
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  EXPECT_EQ(parsed->values[0].shape, (Shape{{"bytes", 1048576}, {"ranks", 8}, {"nodes", 1}}));
  EXPECT_EQ(parsed->values[0].note, "mean over the iterations, 2 hosts in NVLink domains of 72 GPUs");
}

TEST(NcclTests, RcclIsReadAlike) {
  const auto parsed =
      parse_table("rccl-tests: Version develop:b0a3841\n# Using devices\n" +
                  std::string("#   Rank  0 Pid  7 on  a device  0 [0000:0c:00.0] AMD Instinct MI300X\n") +
                  "#   Rank  1 Pid  7 on  a device  1 [0000:22:00.0] AMD Instinct MI300X\n" +
                  "1048576 262144 float sum -1 50.00 20.97 20.97 0 40.00 26.21 26.21 0\n");
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  EXPECT_EQ(parsed->values[0].source, "rccl-tests");
  EXPECT_EQ(parsed->values[0].device, "AMD Instinct MI300X");
  EXPECT_EQ(parsed->values[0].shape, (Shape{{"bytes", 1048576}, {"ranks", 2}, {"nodes", 1}}));
}

TEST(NcclTests, WhatIsWrittenIsReadAgain) {
  const auto parsed = parse_table("# nccl-tests version 2.17.6 nccl-headers=22809\n" + heading + table_rows);
  ASSERT_TRUE(parsed);
  for (const auto& [text, path] : {std::pair{to_csv(*parsed), "m.csv"}, std::pair{to_jsonl(*parsed), "m.jsonl"}}) {
    const auto read = parse_measurements(text, path, {});
    ASSERT_TRUE(read) << to_string(read.error());
    ASSERT_EQ(read->values.size(), 2u);
    EXPECT_EQ(read->values[0].source, "nccl-tests 2.17.6");
    EXPECT_EQ(read->values[0].shape, parsed->values[0].shape);
    EXPECT_DOUBLE_EQ(read->values[0].time.p50, 50e-6);
  }
}

TEST(NcclTests, TheCollectiveFollowsFromTheColumnsOrTheHeading) {
  const auto op = [](const std::string& text) {
    const auto parsed = parse_table(heading + text);
    return parsed ? parsed->values[0].op : to_string(parsed.error());
  };
  const std::string tail = "    50.00   20.97   10.49      0\n";  // of 2 ranks, bus bandwidth is half of it
  EXPECT_EQ(op("1048576 131072 float sum -1" + tail), "reduce_scatter");
  EXPECT_EQ(op("1048576 262144 float none 0 50.00 20.97 20.97 0\n"), "broadcast");
  const std::string gather = "1048576 131072 float none -1" + tail;
  EXPECT_NE(op(gather).find("the columns do not name the collective"), std::string::npos);
  EXPECT_EQ(op("# Collective test starting: all_gather_perf\n" + gather), "all_gather");
  EXPECT_EQ(op("# Collective test starting: alltoall_perf\n" + gather), "all_to_all");
  EXPECT_NE(op("# Collective test starting: hypercube_perf\n" + gather).find("unknown collective 'hypercube'"),
            std::string::npos);
}

TEST(NcclTests, WhatIsRefused) {
  EXPECT_NE(error_of("").find("all.txt: no row"), std::string::npos);
  EXPECT_NE(error_of(table_rows).find("all.txt:1: no line of the heading names ranks"), std::string::npos);
  EXPECT_NE(error_of(heading + "1048576 262144 float sum -1 50.00\n").find("all.txt:8: 6 columns"), std::string::npos);
  EXPECT_NE(error_of(heading + "1048576 262144 float sum -1 50.00 2.10 2.10 0\n").find("size over time is 20.97"),
            std::string::npos);
  EXPECT_NE(error_of(heading + "1048576 262144 float sum -1 x 20.97 20.97 0\n").find("'x' is no time"),
            std::string::npos);
}

}  // namespace
}  // namespace plumbline::calibrate
