// Limits the number of files in a folder and checks headers: each is included from several places, is private to its
// folder (detail/), or is one of the entry points below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/support/source_tree.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

// Folders that are exempt from these rules.
const std::set<std::string> kExempt = {"tests"};

constexpr std::size_t kMostFiles = 25;
constexpr std::size_t kMostPlugIns = 40;
// Folders whose files are all of one kind: schedules, verbs, kernels, operators, GPU timings.
const std::set<std::string> kPlugIns = {"model/schedule/kinds", "cli", "real/cuda/kernels", "real/cuda/operators",
                                        "real/cuda/measure"};

// Headers with one user that are an interface all the same, with the reason. A name that ends in '/' is a folder.
const std::map<std::string, std::string> kEntryPoints = {
    {"calibrate/import/components/import.h", "what `plumbline import` reads"},
    {"cli/manual/manual.h", "completion and pages, for the command"},
    {"cli/plan/plan_verb.h", "searches, for programs that take an answer as a value"},
    {"model/graph/offload.h", "a pass over any graph"},
    {"real/cuda/device/watch/clock_sampler.h", "clocks and power, for whoever times a GPU"},
    {"real/cuda/kernels/", "what nvcc compiles is launched through a header, and arithmetic is tested on the host"},
    {"real/cuda/vendor/cudnn_library.h", "a library that is loaded at run time, as the others"},
    {"real/executor/step/", "the parts of a rank, which its step executor holds"},
    {"real/host/measure/case_file.h", "what `plumbline measure` reads"},
    {"real/host/measure/runner.h", "the measurements of a host, for the command that makes them"},
    {"real/host/mpi/", "the transport over MPI, for the command that links it"},
    {"real/host/run.h", "a training on the host, for whoever starts it"},
    {"real/measure/kernel_case/case_sweep.h", "the cases of a GPU, for the command that times them"},
    {"real/measure/stage_runner.h", "the stages of a plan, for the backend that times them"},
    {"reports/tensorboard/tensorboard.h", "what `plumbline run --tensorboard` writes"},
    {"sim/analysis/memory_advice.h", "what `plumbline memory` advises"},
    {"sim/analysis/bound.h", "the proven bound, for whoever predicts"},
    {"sim/whatif/tornado.h", "what moves a step most, for programs that take it as a value"},
};

std::vector<SourceFile> checked_files(const fs::path& root) {
  std::vector<SourceFile> files = read_source_tree(root, {".h", ".cc", ".cu", ".cuh", ".def"});
  std::erase_if(files, [](const SourceFile& file) { return kExempt.contains(file.folder()); });
  return files;
}

bool is_folder(const std::string& entry) { return entry.ends_with('/'); }
bool is_entry_point(const std::string& header) {
  return std::ranges::any_of(kEntryPoints, [&](const auto& entry) {
    return is_folder(entry.first) ? header.starts_with(entry.first) : header == entry.first;
  });
}
std::string stem_of(const std::string& path) { return path.substr(0, path.rfind('.')); }
bool is_private(const std::string& header) { return header.find("/detail/") != std::string::npos; }

// Maps a header to the files that include it, other than the sources of its own name.
std::map<std::string, std::vector<std::string>> users_of_headers(const std::vector<SourceFile>& files) {
  std::map<std::string, std::vector<std::string>> users;
  for (const SourceFile& file : files)
    if (file.extension() == ".h") users[file.path];
  for (const SourceFile& file : files) {
    for (const std::string& line : file.lines) {
      if (!line.starts_with("#include \"")) continue;
      const std::string header = line.substr(10, line.rfind('"') - 10);
      if (users.contains(header) && stem_of(header) != stem_of(file.path)) users[header].push_back(file.path);
    }
  }
  return users;
}

std::vector<std::string> crowded_folders(const std::vector<SourceFile>& files) {
  std::map<std::string, std::size_t> counts;
  for (const SourceFile& file : files) ++counts[fs::path(file.path).parent_path().generic_string()];
  std::vector<std::string> crowded;
  for (const auto& [folder, count] : counts)
    if (count > (kPlugIns.contains(folder) ? kMostPlugIns : kMostFiles))
      crowded.push_back(folder + " holds " + std::to_string(count) + " sources");
  return crowded;
}

std::vector<std::string> misplaced_headers(const std::vector<SourceFile>& files) {
  std::vector<std::string> violations;
  for (const auto& [header, users] : users_of_headers(files)) {
    if (!is_private(header)) {
      if (users.empty()) violations.push_back(header + " has no user");
      if (users.size() == 1 && !is_entry_point(header))
        violations.push_back(header + " has one user, " + users.front() + ": merge them, or move it to detail/");
      continue;
    }
    const std::string folder = header.substr(0, header.find("detail/"));
    for (const std::string& user : users) {
      if (!user.starts_with(folder)) violations.push_back(header + " is private to " + folder + ", not to " + user);
      // Headers in detail/ are not installed.
      if (user.ends_with(".h") && !is_private(user)) violations.push_back(header + " shows in the interface " + user);
    }
  }
  return violations;
}

TEST(Structure, FoldersCanBeSurveyed) {
  EXPECT_THAT(crowded_folders(checked_files(source_folder())), testing::IsEmpty());
}

TEST(Structure, HeadersAreSharedOrPrivate) {
  EXPECT_THAT(misplaced_headers(checked_files(source_folder())), testing::IsEmpty());
}

TEST(Structure, EntryPointsHaveOneUser) {
  const auto users = users_of_headers(checked_files(source_folder()));
  for (const auto& [header, reason] : kEntryPoints) {
    if (is_folder(header)) continue;
    ASSERT_TRUE(users.contains(header)) << header;
    EXPECT_EQ(users.at(header).size(), 1u) << header << " needs no entry in this table";
  }
}

// Clocks that a user or a network sets jump. They give dates alone: whatever waits or takes time asks a steady one.
TEST(Structure, OnlyDatesComeFromTheSystemsClock) {
  const std::map<std::string, std::string> dates = {
      {"cli/deadline.cc", "the first day of a training"},
      {"cli/outputs.cc", "when a result or a page was made"},
      {"cli/run.cc", "the points of a TensorBoard"},
  };
  for (const SourceFile& file : checked_files(source_folder())) {
    if (file.path.starts_with("tests/") || dates.contains(file.path)) continue;
    for (const std::string& line : file.lines)
      for (const char* clock : {"system_clock", "std::time(", "gettimeofday", "CLOCK_REALTIME"})
        EXPECT_EQ(line.find(clock), std::string::npos) << file.path << ": " << line;
  }
}

TEST(Structure, EveryRuleReportsItsViolation) {
  const TemporaryDirectory tree;
  for (std::size_t i = 0; i <= kMostFiles; ++i) tree.write("sim/full/file" + std::to_string(i) + ".cc", "");
  tree.write("sim/a/lonely.h", "");
  tree.write("sim/a/unused.h", "");
  tree.write("sim/a/detail/part.h", "");
  tree.write("sim/a/lonely.cc", "#include \"sim/a/lonely.h\"\n#include \"sim/a/detail/part.h\"\n");
  tree.write("sim/b/user.cc", "#include \"sim/a/lonely.h\"\n#include \"sim/a/detail/part.h\"\n");
  tree.write("tests/unit/a_test.cc", "#include \"sim/a/unused.h\"\n");
  const std::vector<SourceFile> files = checked_files(tree.path());
  EXPECT_THAT(crowded_folders(files), testing::ElementsAre("sim/full holds 26 sources"));
  EXPECT_THAT(misplaced_headers(files),
              testing::ElementsAre("sim/a/detail/part.h is private to sim/a/, not to sim/b/user.cc",
                                   "sim/a/lonely.h has one user, sim/b/user.cc: merge them, or move it to detail/",
                                   "sim/a/unused.h has no user"));
}

}  // namespace
}  // namespace plumbline::tests
