// Replays the corpora of the fuzz targets, and the inputs of the repository that they begin with: each is answered with
// a value or with an error in words. What fuzzing found is a file in a corpus, so it stays found.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"
#include "tests/support/folders.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path corpus = fs::path(tests::source_folder()) / "tests/fuzz/corpus";

// Returns the files below a folder, or the one file, in order of their names.
std::vector<fs::path> files_of(const fs::path& path) {
  std::vector<fs::path> files;
  if (!fs::is_directory(path)) return {path};
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class Replay : public testing::TestWithParam<Target> {};

TEST_P(Replay, EveryInputIsAnswered) {
  const Target& target = GetParam();
  std::vector<fs::path> files = files_of(corpus / target.name);
  ASSERT_TRUE(!files.empty() && fs::is_regular_file(files.front())) << "no corpus";
  for (const std::string& seed : target.seeds) {
    const auto more = files_of(in_repository(seed));
    files.insert(files.end(), more.begin(), more.end());
  }
  for (const fs::path& file : files) EXPECT_NO_THROW(target.run(bytes_of(file))) << file;
}

INSTANTIATE_TEST_SUITE_P(Targets, Replay, testing::ValuesIn(targets()), [](const auto& instance) {
  std::string name = instance.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(FuzzCorpora, EachIsOfATarget) {
  std::set<std::string> names;
  for (const Target& target : targets()) names.insert(target.name);
  for (const auto& entry : fs::directory_iterator(corpus))
    EXPECT_TRUE(names.contains(entry.path().filename())) << entry;
}

TEST(FuzzCorpora, AreSmall) {
  constexpr std::uintmax_t most = 128 * 1024;
  std::uintmax_t bytes = 0;
  for (const fs::path& file : files_of(corpus)) bytes += fs::file_size(file);
  EXPECT_LE(bytes, most) << "./dev fuzz TARGET --minimize makes a corpus small";
}

}  // namespace
}  // namespace plumbline::fuzz
