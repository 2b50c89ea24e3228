// The table in docs/architecture.md ("What a change touches") has a marker for each kind of change, and how many
// sources may contain it. The test reads the table and counts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/folders.h"
#include "tests/support/source_tree.h"

namespace plumbline::tests {
namespace {

struct Change {
  std::string name, marker;
  std::size_t limit = 0;
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
    if (row.size() != 3 || quoted(row[1]).size() != 1) continue;
    found.push_back({row[0], quoted(row[1])[0], std::stoul(row[2])});
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
  std::vector<SourceFile> files = read_source_tree(source_folder(), {".cc", ".h", ".cu", ".cuh", ".def"});
  std::erase_if(files, [](const SourceFile& file) { return !folders.contains(file.folder()); });
  return files;
}

TEST(Extension, TouchesFewFiles) {
  const std::vector<Change> all =
      changes(read_lines(std::filesystem::path(source_folder()) / "docs" / "architecture.md"));
  ASSERT_FALSE(all.empty());
  const std::vector<SourceFile> files = plumbline_files();
  for (const Change& change : all) {
    std::vector<std::string> touched;
    for (const SourceFile& file : files)
      if (std::ranges::any_of(file.lines, [&](const std::string& line) { return has_word(line, change.marker); }))
        touched.push_back(file.path);
    EXPECT_THAT(touched, testing::SizeIs(testing::Le(change.limit))) << change.name << change.marker;
  }
}

TEST(Extension, ReadsTheTable) {
  const std::vector<Change> all = changes({"### What a change touches", "", "| change | marker | most product files |",
                                           "|---|---|---|", "| a verb | `sweep` | 2 |"});
  ASSERT_EQ(all.size(), 1);
  EXPECT_EQ(all[0].marker, "sweep");
  EXPECT_EQ(all[0].limit, 2);
  EXPECT_TRUE(has_word("a sweep(b)", "sweep"));
  EXPECT_FALSE(has_word("sweep_findings", "sweep"));
}

}  // namespace
}  // namespace plumbline::tests
