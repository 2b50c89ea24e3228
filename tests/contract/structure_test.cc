// The folders show the architecture only while they stay small and their headers are interfaces. The test counts files
// per folder and the users of every header.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/source_tree.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kProduct = {"model", "topologies", "sim", "real", "calibrate", "reports", "cli"};

// Folders of which every file is one of many of a kind: a kernel, an operator, a schedule.
const std::set<std::string> kPlugIns = {"model/schedule", "real/cuda/kernels", "real/cuda/operators",
                                        "real/host/operators"};
constexpr std::size_t files_of_a_folder = 25, files_of_plug_ins = 40;

std::vector<SourceFile> product_sources(const fs::path& root) {
  std::vector<SourceFile> files = read_source_tree(root, {".h", ".cc", ".cu", ".cuh"});
  std::erase_if(files, [](const SourceFile& file) { return !kProduct.contains(file.folder()); });
  return files;
}

std::vector<std::string> crowded_folders(const fs::path& root) {
  std::map<std::string, std::size_t> count;
  for (const SourceFile& file : product_sources(root)) ++count[fs::path(file.path).parent_path().generic_string()];
  std::vector<std::string> crowded;
  for (const auto& [folder, files] : count) {
    const std::size_t limit = kPlugIns.contains(folder) ? files_of_plug_ins : files_of_a_folder;
    if (files > limit) crowded.push_back(fmt::format("{}/ holds {} files, the limit is {}", folder, files, limit));
  }
  return crowded;
}

// A component is a header with the source of the same name.
std::string component_of(const std::string& path) { return fs::path(path).replace_extension().generic_string(); }

// Headers outside of detail/ that fewer than two product components include.
std::vector<std::string> private_headers(const fs::path& root) {
  const std::vector<SourceFile> files = product_sources(root);
  std::map<std::string, std::set<std::string>> users;
  for (const SourceFile& file : files) {
    for (const std::string& line : file.lines) {
      if (!line.starts_with("#include \"")) continue;
      const std::string header = line.substr(10, line.find('"', 10) - 10);
      if (component_of(header) != component_of(file.path)) users[header].insert(component_of(file.path));
    }
  }
  std::vector<std::string> found;
  for (const SourceFile& file : files) {
    if (!file.extension().starts_with(".h") && file.extension() != ".cuh") continue;
    if (file.path.find("/detail/") != std::string::npos) continue;
    const std::set<std::string>& of = users[file.path];
    if (of.size() == 1)
      found.push_back(fmt::format("{} has one user, {}: merge it, or move it to detail/", file.path, *of.begin()));
  }
  return found;
}

TEST(Structure, FoldersAreSmallEnoughToReadAtAGlance) {
  EXPECT_THAT(crowded_folders(PLUMBLINE_SOURCE_DIR), testing::IsEmpty());
}

TEST(Structure, HeadersWithOneUserAreMergedOrPrivate) {
  EXPECT_THAT(private_headers(PLUMBLINE_SOURCE_DIR), testing::IsEmpty());
}

TEST(Structure, ACrowdedFolderAndAPrivateHeaderAreFound) {
  const TemporaryDirectory tree;
  for (int i = 0; i < 26; ++i) tree.write(fmt::format("sim/engine/file{}.cc", i), "");
  tree.write("model/plan/rules.h", "");
  tree.write("model/plan/plan.cc", "#include \"model/plan/rules.h\"\n");
  EXPECT_THAT(crowded_folders(tree.path()), testing::ElementsAre("sim/engine/ holds 26 files, the limit is 25"));
  EXPECT_THAT(
      private_headers(tree.path()),
      testing::ElementsAre("model/plan/rules.h has one user, model/plan/plan: merge it, or move it to detail/"));
}

}  // namespace
}  // namespace plumbline::tests
