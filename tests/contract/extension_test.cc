// The table in docs/architecture.md ("What a change touches") lists the sources that a change of each kind touches, and
// a marker that they contain. The test reads the table and looks for the markers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/source_tree.h"

namespace plumbline::tests {
namespace {

struct Change {
  std::string name, marker;
  std::size_t limit = 0;
  std::set<std::string> files;
};

// Returns the words in backquotes.
std::vector<std::string> quoted(const std::string& cell) {
  std::vector<std::string> words;
  for (std::size_t open = cell.find('`'); open != std::string::npos;) {
    const std::size_t close = cell.find('`', open + 1);
    if (close == std::string::npos) break;
    words.push_back(cell.substr(open + 1, close - open - 1));
    open = cell.find('`', close + 1);
  }
  return words;
}

std::vector<std::string> cells(const std::string& row) {
  std::vector<std::string> found;
  for (std::size_t begin = row.find('|'); begin != std::string::npos;) {
    const std::size_t end = row.find('|', begin + 1);
    if (end == std::string::npos) break;
    found.push_back(row.substr(begin + 1, end - begin - 1));
    begin = end;
  }
  return found;
}

std::vector<Change> changes(const std::vector<std::string>& page) {
  std::vector<Change> found;
  auto line = std::find(page.begin(), page.end(), "### What a change touches");
  while (line != page.end() && !line->starts_with("|---")) ++line;
  for (; line != page.end() && line->starts_with("|"); ++line) {
    const std::vector<std::string> row = cells(*line);
    if (row.size() != 4 || quoted(row[1]).size() != 1) continue;
    const std::vector<std::string> files = quoted(row[3]);
    found.push_back({row[0], quoted(row[1])[0], std::stoul(row[2]), {files.begin(), files.end()}});
  }
  return found;
}

bool is_letter(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }

bool has_word(const std::string& line, std::string_view word) {
  for (std::size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(line[at - 1])) && (end == line.size() || !is_letter(line[end]))) return true;
  }
  return false;
}

std::vector<SourceFile> plumbline_files() {
  static const std::set<std::string> folders = {"model",     "topologies", "sim", "real",
                                                "calibrate", "reports",    "cli", "python"};
  std::vector<SourceFile> files = read_source_tree(PLUMBLINE_SOURCE_DIR, {".cc", ".h", ".cu", ".cuh", ".def"});
  std::erase_if(files, [](const SourceFile& file) { return !folders.contains(file.folder()); });
  return files;
}

TEST(Extension, TouchesTheFilesThatTheDocumentsName) {
  const std::vector<Change> all =
      changes(read_lines(std::filesystem::path(PLUMBLINE_SOURCE_DIR) / "docs" / "architecture.md"));
  ASSERT_FALSE(all.empty());
  const std::vector<SourceFile> files = plumbline_files();
  for (const Change& change : all) {
    std::set<std::string> touched;
    for (const SourceFile& file : files)
      if (std::ranges::any_of(file.lines, [&](const std::string& line) { return has_word(line, change.marker); }))
        touched.insert(file.path);
    EXPECT_THAT(touched, testing::ContainerEq(change.files)) << change.name << change.marker;
    EXPECT_LE(touched.size(), change.limit) << change.name << change.marker;
  }
}

TEST(Extension, ReadsTheTable) {
  const std::vector<Change> all = changes({"### What a change touches", "", "| change | marker | limit | files |",
                                           "|---|---|---|---|", "| a verb | `sweep` | 2 | `cli/a.cc`, `cli/b.h` |"});
  ASSERT_EQ(all.size(), 1);
  EXPECT_EQ(all[0].marker, "sweep");
  EXPECT_EQ(all[0].limit, 2);
  EXPECT_EQ(all[0].files, (std::set<std::string>{"cli/a.cc", "cli/b.h"}));
  EXPECT_TRUE(has_word("a sweep(b)", "sweep"));
  EXPECT_FALSE(has_word("sweep_findings", "sweep"));
}

}  // namespace
}  // namespace plumbline::tests
