// The records of the GPU probe, and the file that survives a killed program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "real/cuda/probe/journal.h"
#include "real/cuda/probe/record.h"
#include "real/cuda/vendor/library_search.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real::cuda {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const RecordContext kContext = {"NVIDIA H200", 132, "2026-11-21T10:00:00Z"};

Case product() { return parse_case("gemm name=a/b phase=F format=fp8_block m=128 n=256 k=512").value; }

Measurement measured(const Case& what, const VariantKey& variant) {
  Measurement measurement;
  measurement.what = what;
  measurement.variant = variant;
  measurement.samples_us = {10, 20, 30};
  measurement.work = work_of(what);
  return measurement;
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ProbeRecords, AMeasurementHasItsUnitsInTheKeys) {
  Measurement measurement = measured(product(), {"hot", "burst"});
  measurement.check = CheckOutcome{0.01, 0.05, true, ""};
  measurement.clock.sm_mhz = 1980;
  measurement.clock.throttle = "none";
  measurement.algorithm.integer("tile_id", 20);
  const json record = json::parse(measurement_line(measurement, kContext));
  EXPECT_EQ(record["schema"], 1);
  EXPECT_EQ(record["kind"], "measurement");
  EXPECT_THAT(record["source"].get<std::string>(), HasSubstr("plumbline-probe "));
  EXPECT_EQ(record["device"], "NVIDIA H200");
  EXPECT_EQ(record["date"], "2026-11-21T10:00:00Z");
  EXPECT_EQ(record["shape"], (json{{"m", 128}, {"n", 256}, {"k", 512}, {"groups", 1}}));
  EXPECT_EQ(record["samples"], 3);
  EXPECT_EQ(record["time_us"]["p50"], 20);
  // 2 * 128 * 256 * 512 FLOP in 20 us are 1.6777 TFLOP/s.
  EXPECT_EQ(record["flops"], 33554432);
  EXPECT_NEAR(record["tflops"].get<double>(), 1.6777216, 1e-9);
  EXPECT_EQ(record["check"]["ok"], true);
  EXPECT_EQ(record["clock"], (json{{"sm_mhz", 1980}, {"throttle", "none"}}));
  EXPECT_EQ(record["algorithm"]["tile_id"], 20);
  EXPECT_EQ(parse_case(record["case"].get<std::string>()).error, "");
}

TEST(ProbeRecords, WhatIsUnknownIsLeftOut) {
  const json record = json::parse(measurement_line(measured(parse_case("launch").value, {"", "round_trip"}), kContext));
  for (const char* key : {"shape", "flops", "tflops", "gbps", "bytes", "cache", "check", "clock", "algorithm", "note",
                          "name", "phase", "copy_gbps"}) {
    EXPECT_FALSE(record.contains(key)) << key;
  }
  EXPECT_EQ(record["communication_ctas"], 0);
}

TEST(ProbeRecords, APartitionNamesItsKernelAndTheCopy) {
  const Case what = parse_case("partition kernel=rmsnorm ctas=20 rows=64 columns=512").value;
  Measurement measurement = measured(what, {"hot", "beside"});
  measurement.running_ctas = 20;
  measurement.copy_gbps = 123.5;
  const json record = json::parse(measurement_line(measurement, kContext));
  EXPECT_EQ(record["op"], "rmsnorm");
  EXPECT_EQ(record["communication_ctas"], 20);
  EXPECT_EQ(record["copy_gbps"], 123.5);
  EXPECT_EQ(record["copy_to"], "device");
  measurement.copy_gbps = 0;  // it only held its SMs
  const json held = json::parse(measurement_line(measurement, kContext));
  EXPECT_EQ(held["communication_ctas"], 20);
  EXPECT_FALSE(held.contains("copy_gbps"));
}

TEST(ProbeRecords, ACollectiveNamesItsRanks) {
  Measurement measurement = measured(parse_case("all_gather bytes=1024 ranks=8").value, {"hot", "burst"});
  measurement.work.bytes = 896;  // what the link of one rank carries: 7 of 8 parts
  const json record = json::parse(measurement_line(measurement, kContext));
  EXPECT_EQ(record["op"], "all_gather");
  EXPECT_EQ(record["shape"], (json{{"ranks", 8}, {"bytes", 1024}}));
  EXPECT_EQ(record["bytes"], 896);
  const json alone =
      json::parse(measurement_line(measured(parse_case("all_gather bytes=1024").value, {"hot", "burst"}), kContext));
  EXPECT_EQ(alone["shape"]["ranks"], 1);
  EXPECT_FALSE(alone.contains("gbps"));  // there is no link whose bandwidth it could be
}

TEST(ProbeRecords, FailuresAndEnvironmentsAreJsonToo) {
  const json failure = json::parse(failure_line(product(), "tab\t \"quote\" back\\slash\n", kContext));
  EXPECT_EQ(failure["kind"], "failure");
  EXPECT_EQ(failure["reason"], "tab\t \"quote\" back\\slash\n");
  const json environment = json::parse(environment_line(JsonLine().flag("ecc", true), kContext));
  EXPECT_EQ(environment["environment"]["ecc"], true);
  EXPECT_EQ(json::parse(utc_date().insert(0, "\"") + "\"").get<std::string>().size(), 20u);
}

TEST(ProbeRecords, NumbersReadBackEqualAndInfinityHasNone) {
  JsonLine line;
  line.number("third", 1.0 / 3).number("infinite", std::numeric_limits<double>::infinity()).number("nan", std::nan(""));
  const json record = json::parse(line.str());
  EXPECT_EQ(record.size(), 1u);
  EXPECT_EQ(record["third"], 1.0 / 3);
  EXPECT_EQ(read_text(JsonLine().text("a", "x\"\\\ny").str(), "a"), "x\"\\\ny");
}

TEST(ProbeJournal, ASecondRunGoesOnBehindTheFirst) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.path() / "m.jsonl";
  const Case failing = parse_case("copy bytes=64").value;
  std::string error;
  {
    const auto journal = Journal::open(path, kContext.device, error);
    ASSERT_NE(journal, nullptr) << error;
    EXPECT_FALSE(journal->complete(product()));
    EXPECT_TRUE(journal->append(measurement_line(measured(product(), {"hot", "burst"}), kContext)));
    EXPECT_FALSE(journal->complete(product()));  // the cold variant is missing
    EXPECT_TRUE(journal->append(measurement_line(measured(product(), {"cold", "burst"}), kContext)));
    EXPECT_TRUE(journal->append(failure_line(failing, "why", kContext)));
  }
  const auto journal = Journal::open(path, kContext.device, error);
  ASSERT_NE(journal, nullptr);
  EXPECT_EQ(journal->found(), 2u);
  EXPECT_TRUE(journal->complete(product()));
  EXPECT_TRUE(journal->failed(failing));
  EXPECT_FALSE(journal->complete(failing));
  // Another device has measured nothing yet.
  const auto other = Journal::open(path, "NVIDIA H100", error);
  EXPECT_EQ(other->found(), 0u);
  EXPECT_FALSE(other->complete(product()));
}

TEST(ProbeJournal, AnUnfinishedLastLineIsCutOff) {
  const tests::TemporaryDirectory folder;
  const std::string whole = measurement_line(measured(product(), {"hot", "burst"}), kContext) + "\n";
  const std::string torn = measurement_line(measured(product(), {"cold", "burst"}), kContext).substr(0, 100);
  const auto path = folder.write("m.jsonl", whole + torn);
  std::string error;
  const auto journal = Journal::open(path, kContext.device, error);
  ASSERT_NE(journal, nullptr);
  EXPECT_EQ(read(path), whole);
  EXPECT_EQ(journal->found(), 1u);
  ASSERT_TRUE(journal->append("{\"next\":1}"));
  EXPECT_EQ(read(path), whole + "{\"next\":1}\n");
}

TEST(ProbeJournal, AKilledProgramLosesNothingThatWasWritten) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.path() / "m.jsonl";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string error;
    const auto journal = Journal::open(path, kContext.device, error);
    const bool written = journal && journal->append(measurement_line(measured(product(), {"hot", "burst"}), kContext));
    const char signal = written ? 'y' : 'n';
    static_cast<void>(!write(ready[1], &signal, 1));
    pause();
    _exit(0);
  }
  char signal = 0;
  ASSERT_EQ(::read(ready[0], &signal, 1), 1);
  EXPECT_EQ(signal, 'y');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  std::string error;
  const auto journal = Journal::open(path, kContext.device, error);
  ASSERT_NE(journal, nullptr);
  EXPECT_TRUE(journal->has(product(), {"hot", "burst"}));
  EXPECT_FALSE(journal->has(product(), {"cold", "burst"}));
}

TEST(ProbeJournal, AFileThatCannotBeOpenedIsNamed) {
  std::string error;
  EXPECT_EQ(Journal::open("/nowhere/m.jsonl", "x", error), nullptr);
  EXPECT_THAT(error, HasSubstr("/nowhere/m.jsonl: "));
}

TEST(ProbeLibraries, WhatIsMissingIsNamedWithThePlacesTried) {
  std::string error;
  const LibraryName missing = {"Nothing", {"libplumbline_nothing.so.1", "libplumbline_nothing.so"}};
  EXPECT_EQ(Library::open(missing, {"/nowhere", ""}, error), nullptr);
  EXPECT_EQ(error, "Nothing (libplumbline_nothing.so.1) was not found in /nowhere, the loader's path");
}

TEST(ProbeLibraries, AFileThatIsNoLibraryIsReported) {
  const tests::TemporaryDirectory folder;
  folder.write("libplumbline_broken.so", "not a library");
  std::string error;
  EXPECT_EQ(Library::open({"Broken", {"libplumbline_broken.so"}}, {folder.path()}, error), nullptr);
  EXPECT_THAT(error, HasSubstr("it does not load: "));
}

TEST(ProbeLibraries, GivenFoldersComeFirst) {
  setenv("PLUMBLINE_LIBDIR", "/b:/c", 1);
  const std::vector<std::string> folders = library_folders({"/a"});
  unsetenv("PLUMBLINE_LIBDIR");
  ASSERT_GE(folders.size(), 4u);
  EXPECT_EQ(std::vector<std::string>(folders.begin(), folders.begin() + 4),
            std::vector<std::string>({"/a", "/b", "/c", ""}));
  std::string error;
  const auto mathematics = Library::open({"libm", {"libm.so.6"}}, folders, error);
  ASSERT_NE(mathematics, nullptr) << error;
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(mathematics->load(cosine, "cos"));
  EXPECT_EQ(cosine(0), 1);
  EXPECT_FALSE(mathematics->load(cosine, "plumbline_nothing"));
}

}  // namespace
}  // namespace plumbline::real::cuda
