// Finds the newest of several installed libraries without loading any.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "real/cuda/vendor/library_search.h"

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
