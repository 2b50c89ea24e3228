#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "real/cuda/device/watch/clock_sampler.h"
#include "real/cuda/device/watch/kernel_trace.h"
#include "real/cuda/measure/detail/expected.h"
#include "real/cuda/vendor/library_search.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real::cuda {
namespace {

// The folders that are searched for libraries of a GPU.

TEST(LibrarySearch, WhatIsMissingIsNamedWithThePlacesTried) {
  std::string error;
  const LibraryName missing = {"Nothing", {"libplumbline_nothing.so.1", "libplumbline_nothing.so"}};
  EXPECT_EQ(Library::open(missing, {"/nowhere", ""}, error), nullptr);
  EXPECT_EQ(error, "Nothing (libplumbline_nothing.so.1) was not found in /nowhere, the loader's path");
}

TEST(LibrarySearch, AFileThatIsNoLibraryIsReported) {
  const tests::TemporaryDirectory folder;
  folder.write("libplumbline_broken.so", "not a library");
  std::string error;
  EXPECT_EQ(Library::open({"Broken", {"libplumbline_broken.so"}}, {folder.path()}, error), nullptr);
  EXPECT_THAT(error, testing::HasSubstr("it does not load: "));
}

TEST(LibrarySearch, GivenFoldersComeFirst) {
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

// Finds the newest of several installed libraries without loading any.
namespace plumbline::real::cuda {
namespace {

namespace fs = std::filesystem;

class LibraryVersion : public testing::Test {
 protected:
  LibraryVersion() : root_(fs::path(testing::TempDir()) / ("library_version_" + std::to_string(::getpid()))) {
    fs::create_directories(root_ / "lib");
    fs::create_directories(root_ / "include");
  }
  ~LibraryVersion() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) const { std::ofstream(root_ / file) << text; }
  std::array<int, 3> version(const fs::path& file) const {
    return adjacent_version((root_ / file).string(), {"some_version.h", "SOME"});
  }

  fs::path root_;
};

TEST_F(LibraryVersion, StandsInTheNameBehindALink) {
  write("lib/libsome.so.9.14.2", "");
  fs::create_symlink("libsome.so.9.14.2", root_ / "lib/libsome.so.9");
  EXPECT_EQ(version("lib/libsome.so.9"), (std::array<int, 3>{9, 14, 2}));
}

TEST_F(LibraryVersion, OrInTheHeaderNextToIt) {
  write("lib/libsome.so.9", "");
  write("include/some_version.h",
        "#ifndef X\n#define SOME_MAJOR 9\n#define SOME_MINOR 19\n#define SOME_PATCHLEVEL 1\n");
  EXPECT_EQ(version("lib/libsome.so.9"), (std::array<int, 3>{9, 19, 1}));
}

TEST_F(LibraryVersion, OrNowhere) {
  write("lib/libsome.so.9", "");
  EXPECT_EQ(version("lib/libsome.so.9"), (std::array<int, 3>{0, 0, 0}));
}

TEST_F(LibraryVersion, NoneInAnyFolderIsReportedWithTheFolders) {
  std::string error;
  const LibraryName name{"Some", {"libsome_that_is_nowhere.so.9"}};
  EXPECT_EQ(open_newest(name, {"some_version.h", "SOME"}, {(root_ / "lib").string()}, error), nullptr);
  EXPECT_NE(error.find((root_ / "lib").string()), std::string::npos);
}

}  // namespace
}  // namespace plumbline::real::cuda

namespace plumbline::real::cuda {
namespace {

using nlohmann::json;

// Results of collectives, checked without a GPU.

// Rank r gives 100 r, 100 r + 1, ...
double input(int rank, std::int64_t index) { return 100.0 * rank + static_cast<double>(index); }

std::vector<double> got(const std::string& op, int rank) {
  const CollectivePlace place = {op, rank, 3, 6};
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements_got(place); ++i) values.push_back(expected_element(place, i, input));
  return values;
}

TEST(CudaCollectives, LeaveBehindWhatTheyAreDefinedToDo) {
  using Values = std::vector<double>;
  EXPECT_EQ(got("all_reduce", 1), Values({300, 303, 306, 309, 312, 315}));
  EXPECT_EQ(got("reduce_scatter", 2), Values({312, 315}));
  EXPECT_EQ(got("all_gather", 0), Values({0, 1, 100, 101, 200, 201}));
  EXPECT_EQ(got("all_to_all", 1), Values({2, 3, 102, 103, 202, 203}));
  EXPECT_EQ(elements_given({"all_gather", 0, 3, 6}), 2);
  EXPECT_EQ(elements_given({"reduce_scatter", 0, 3, 6}), 6);
}

// Observations of a running GPU: clocks read concurrently with the steps, and its kernels as a trace.

ClockReading reading(int sm_mhz, double power_w, const std::string& throttle) {
  ClockReading result;
  result.sm_mhz = sm_mhz;
  result.power_w = power_w;
  result.throttle = throttle;
  return result;
}

TEST(ClockReading, IsTheMeanOfWhatWasRead) {
  ClockReading silent;
  const ClockReading mean = mean_of({reading(1980, 300, "none"), reading(1395, 700, "power_cap|sync_boost"), silent,
                                     reading(1401, 650, "power_cap")});
  EXPECT_EQ(mean.sm_mhz, 1592);  // 4776 / 3
  EXPECT_DOUBLE_EQ(mean.power_w.value(), 550);
  EXPECT_EQ(mean.throttle, "power_cap|sync_boost");
  EXPECT_FALSE(mean.memory_mhz);
  EXPECT_FALSE(mean.busy);
  EXPECT_EQ(mean_of({reading(1, 1, "none")}).throttle, "none");
  EXPECT_FALSE(mean_of({}).power_w);
}

TEST(ClockSampler, ReadsConcurrentlyAndDropsWhatWasTaken) {
  std::atomic<int> reads{0};
  std::atomic<int> power{100};
  ClockSampler sampler(
      [&] {
        ++reads;
        return reading(1000, power, "none");
      },
      std::chrono::milliseconds(1));
  const auto wait_for_reads = [&](int more) {
    const int before = reads;
    while (reads < before + more) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait_for_reads(5);
  EXPECT_DOUBLE_EQ(sampler.take().power_w.value(), 100);
  power = 700;
  wait_for_reads(3);  // the first of them may have begun before the change, and the last has not yet ended
  sampler.take();
  wait_for_reads(5);
  EXPECT_DOUBLE_EQ(sampler.take().power_w.value(), 700);
}

TEST(KernelTrace, HasATrackForEachStream) {
  const KernelActivity gemm{.name = "_ZN9plumbline4real4cuda5emptyEv",
                            .stream = 13,
                            .start_ns = 1'000'002'500,
                            .end_ns = 1'000'004'001,
                            .blocks = 132,
                            .threads = 384,
                            .registers = 168,
                            .shared_bytes = 1024};
  const KernelActivity copy{
      .name = "copy", .stream = 14, .start_ns = 1'000'000'000, .end_ns = 1'000'001'000, .bytes = 4096};
  const json trace = json::parse(kernel_trace({gemm, copy}));
  std::vector<json> slices;
  std::map<int, std::string> tracks;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices.push_back(event);
    if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
  }
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(slices[0]["name"], "copy");
  EXPECT_EQ(slices[0]["ts"], 0);
  EXPECT_EQ(slices[0]["args"]["bytes"], 4096);
  EXPECT_EQ(slices[1]["name"], "plumbline::real::cuda::empty()");
  EXPECT_DOUBLE_EQ(slices[1]["ts"], 2.5);
  EXPECT_DOUBLE_EQ(slices[1]["dur"], 1.501);
  EXPECT_EQ(slices[1]["args"]["blocks"], 132);
  EXPECT_THAT(tracks, testing::ElementsAre(testing::Pair(13, "stream 13"), testing::Pair(14, "stream 14")));
  EXPECT_EQ(json::parse(kernel_trace({}))["traceEvents"].size(), 1U);
}

}  // namespace
}  // namespace plumbline::real::cuda
