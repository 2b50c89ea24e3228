// The folders that are searched for libraries of a GPU.
#include "real/cuda/vendor/library_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace plumbline::real::cuda {
namespace {

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
