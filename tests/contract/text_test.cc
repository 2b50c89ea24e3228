// Rules for the repository's texts: no unfinished parts, no paths of a personal machine, no dead links, and a source
// for every constant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/support/source_tree.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kTextExtensions = {"",    ".h",    ".cc", ".cu",  ".cuh", ".def", ".cmake", ".txt",
                                               ".md", ".toml", ".sh", ".csv", ".py",  ".ts",  ".html"};

// The words are split so that this file does not contain them.
const std::regex kUnfinished(
    "\\b(TO"
    "DO|FIX"
    "ME|XX"
    "X)\\b");
// Matches an absolute path under a folder in which people keep their own files.
const std::regex kOwnPath("(^|[\\s\"'(=`:])/(home|root|work|mnt|Users)/");
const std::regex kMarkdownLink("\\]\\(([^)#\\s]*)#?([^)\\s]*)\\)");

std::vector<std::string> lines_matching(const fs::path& root, const std::regex& pattern) {
  std::vector<std::string> found;
  for (const SourceFile& file : read_source_tree(root, kTextExtensions)) {
    for (std::size_t i = 0; i < file.lines.size(); ++i)
      if (std::regex_search(file.lines[i], pattern)) found.push_back(at(file, i, file.lines[i]));
  }
  return found;
}

// Returns the anchors of a page's headings: small letters, digits, and dashes in place of blanks.
std::set<std::string> anchors(const std::vector<std::string>& page) {
  std::set<std::string> found;
  bool code = false;
  for (const std::string& line : page) {
    if (line.starts_with("```")) code = !code;
    if (code || !line.starts_with("#")) continue;
    std::string anchor;
    for (const char letter : line.substr(std::min(line.size(), line.find_first_not_of("# ")))) {
      const auto byte = static_cast<unsigned char>(letter);
      if (letter == ' ' || letter == '-') anchor += '-';
      if (std::isalnum(byte) != 0 || letter == '_') anchor += static_cast<char>(std::tolower(byte));
    }
    found.insert(anchor);
  }
  return found;
}

// Returns the relative links of Markdown pages that name no file inside the repository or no heading of its page.
std::vector<std::string> dead_links(const fs::path& root) {
  std::vector<std::string> dead;
  for (const SourceFile& page : read_source_tree(root, {".md"})) {
    const fs::path folder = fs::path(page.path).parent_path();
    for (std::size_t i = 0; i < page.lines.size(); ++i) {
      const std::string& line = page.lines[i];
      for (std::sregex_iterator link(line.begin(), line.end(), kMarkdownLink); link != std::sregex_iterator(); ++link) {
        const std::string target = (*link)[1], anchor = (*link)[2];
        if (target.find("://") != std::string::npos) continue;
        const fs::path file = target.empty() ? fs::path(page.path) : (folder / target).lexically_normal();
        const bool there = !file.string().starts_with("..") && fs::exists(root / file);
        const bool reached =
            anchor.empty() || file.extension() != ".md" || (there && anchors(read_lines(root / file)).contains(anchor));
        if (!there || !reached) dead.push_back(at(page, i, target + (reached ? "" : "#" + anchor)));
      }
    }
  }
  return dead;
}

// Walks a TOML file: every number must be the `value` of a table that also has unit, kind and source.
class ConstantCheck {
 public:
  explicit ConstantCheck(std::string file) : file_(std::move(file)) {}

  void walk(const toml::table& table, const std::string& name) {
    if (table.contains("value")) return check_constant(table, name);
    for (const auto& [key, node] : table) {
      const std::string child = (name.empty() ? "" : name + ".") + std::string(key.str());
      if (const toml::table* inner = node.as_table()) {
        walk(*inner, child);
      } else if (const toml::array* list = node.as_array()) {
        for (const toml::node& item : *list)
          if (item.is_table()) walk(*item.as_table(), child);
      } else if (node.is_number()) {
        report(node, child + " is a number without unit, kind and source");
      }
    }
  }

  std::vector<std::string> violations;

 private:
  void check_constant(const toml::table& table, const std::string& name) {
    static const std::set<std::string> kinds = {"measured", "fitted", "published", "datasheet", "assumed"};
    if (!table["unit"].is_string()) report(table, name + " has no unit");
    if (table["source"].value_or(std::string()).empty()) report(table, name + " has no source");
    if (!kinds.contains(table["kind"].value_or(std::string()))) report(table, name + " has no known kind");
  }
  void report(const toml::node& node, const std::string& what) {
    violations.push_back(file_ + ":" + std::to_string(node.source().begin.line) + ": " + what);
  }

  std::string file_;
};

std::vector<std::string> constants_without_provenance(const fs::path& root) {
  std::vector<std::string> violations;
  for (const SourceFile& file : read_source_tree(root, {".toml"})) {
    if (!file.path.starts_with("calibrate/profiles/") && file.folder() != "topologies") continue;
    ConstantCheck check(file.path);
    check.walk(toml::parse_file((root / file.path).string()), "");
    violations.insert(violations.end(), check.violations.begin(), check.violations.end());
  }
  return violations;
}

TEST(Text, NothingIsLeftUnfinished) { EXPECT_THAT(lines_matching(source_folder(), kUnfinished), testing::IsEmpty()); }

TEST(Text, NamesNoPathOfSomebodysMachine) {
  EXPECT_THAT(lines_matching(source_folder(), kOwnPath), testing::IsEmpty());
}

TEST(Text, LinksLeadSomewhere) { EXPECT_THAT(dead_links(source_folder()), testing::IsEmpty()); }

TEST(Text, ConstantsNameTheirSource) { EXPECT_THAT(constants_without_provenance(source_folder()), testing::IsEmpty()); }

TEST(Text, ChecksFindWhatTheyLookFor) {
  const TemporaryDirectory tree;
  tree.write("a.cc",
             "ok\n// TO"
             "DO: later\n");
  tree.write("b.md",
             "[here](a.cc) [there](missing.md) [out](../x) [net](https://example.org/y)\nsee `/home"
             "/me/x`\n# The `b` page, first\n[up](#the-b-page-first) [down](b.md#nowhere)\n");
  tree.write("build/generated.cc",
             "// TO"
             "DO: generated\n");
  EXPECT_THAT(lines_matching(tree.path(), kUnfinished), testing::ElementsAre("a.cc:2: // TO"
                                                                             "DO: later"));
  EXPECT_THAT(lines_matching(tree.path(), kOwnPath), testing::ElementsAre(testing::StartsWith("b.md:2: ")));
  EXPECT_THAT(dead_links(tree.path()),
              testing::ElementsAre("b.md:1: missing.md", "b.md:1: ../x", "b.md:4: b.md#nowhere"));
}

TEST(Text, ConstantCheckFindsWhatIsMissing) {
  const TemporaryDirectory tree;
  tree.write("calibrate/profiles/p.toml",
             "[link]\n"
             "good = { value = 1, unit = \"GB/s\", kind = \"measured\", source = \"a paper\", uncertainty = 0.1 }\n"
             "bare = 3\n"
             "poor = { value = 2, unit = \"s\", kind = \"guessed\" }\n");
  tree.write("topologies/t.toml", "name = \"t\"\nrate = { value = 2, kind = \"assumed\", source = \"x\" }\n");
  EXPECT_THAT(constants_without_provenance(tree.path()),
              testing::ElementsAre("calibrate/profiles/p.toml:3: link.bare is a number without unit, kind and source",
                                   "calibrate/profiles/p.toml:4: link.poor has no source",
                                   "calibrate/profiles/p.toml:4: link.poor has no known kind",
                                   "topologies/t.toml:2: rate has no unit"));
}

}  // namespace
}  // namespace plumbline::tests
