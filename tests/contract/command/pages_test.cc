// Runs the commands of README.md and docs/*.md as a reader types them: every line of every block marked `sh`, in the
// order of its page, without a GPU. The folder is empty but for the files that pages.toml lists as the reader's own.
// Lines that need a GPU or take long run by the rules of pages.toml.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <cctype>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "model/base/text_file.h"
#include "tests/support/command.h"
#include "tests/support/folders.h"
#include "tests/support/source_tree.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

struct PageLine {
  std::size_t index = 0;  // in the page, from 0
  std::string command;
};

struct PageRule {
  std::string of;
  std::regex pattern;
  std::optional<std::string> run;
  std::set<std::int64_t> ends;
};

struct RunnableLine {
  std::string command;  // empty where it is not run
  std::set<std::int64_t> ends = {0};
  std::vector<std::string> rules;  // names of the rules that apply
};

// Returns the line without its comment, with single blanks and none at its ends.
std::string without_comment(const std::string& line) {
  static const std::regex comment("(^| )#.*$"), blanks(" +"), ends("^ | $");
  return std::regex_replace(std::regex_replace(std::regex_replace(line, comment, ""), blanks, " "), ends, "");
}

// Returns the commands of a page's blocks that are marked `sh`, in order.
std::vector<PageLine> commands_of(const SourceFile& page) {
  std::vector<PageLine> commands;
  std::optional<std::string> block;  // the language it is marked with
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    const std::string& line = page.lines[i];
    if (line.starts_with("```")) {
      block = block ? std::nullopt : std::optional(line.substr(3));
    } else if (block == "sh") {
      if (std::string command = without_comment(line); !command.empty()) commands.push_back({i, std::move(command)});
    }
  }
  return commands;
}

// Returns "path:line: what" for each command in a block that is not marked `sh`, which no test would run.
std::vector<std::string> unmarked_commands(const SourceFile& page) {
  std::vector<std::string> found;
  std::optional<std::string> block;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    const std::string& line = page.lines[i];
    if (line.starts_with("```")) {
      block = block ? std::nullopt : std::optional(line.substr(3));
    } else if (block && block != "sh" && line.starts_with("plumbline ")) {
      found.push_back(at(page, i, "a command in a block that is not marked sh: " + line));
    }
  }
  return found;
}

RunnableLine with_rules(std::string command, const std::vector<PageRule>& rules) {
  RunnableLine line{.command = std::move(command)};
  for (const PageRule& rule : rules) {
    if (!std::regex_search(line.command, rule.pattern)) continue;
    line.rules.push_back(rule.of);
    if (!rule.ends.empty()) line.ends = rule.ends;
    if (rule.run) line.command = std::regex_replace(line.command, rule.pattern, *rule.run);
    if (!rule.run && rule.ends.empty()) line.command.clear();
    if (line.command.empty()) break;
  }
  return line;
}

std::vector<PageRule> rules_of(const toml::table& file) {
  std::vector<PageRule> rules;
  for (const toml::node& node : *file["rule"].as_array()) {
    const toml::table& rule = *node.as_table();
    const std::string of = rule["of"].value<std::string>().value();
    PageRule& read = rules.emplace_back(PageRule{of, std::regex(of), rule["run"].value<std::string>(), {}});
    if (const toml::array* ends = rule["ends"].as_array())
      for (const toml::node& code : *ends) read.ends.insert(code.value<std::int64_t>().value());
    EXPECT_TRUE(rule["because"].is_string()) << of << " has no reason";
  }
  return rules;
}

const fs::path root = source_folder();

toml::table settings() { return toml::parse_file((root / "tests/contract/command/pages.toml").string()); }

std::vector<SourceFile> pages() {
  std::vector<SourceFile> found;
  for (SourceFile& page : read_source_tree(root, {".md"}))
    if (page.path == "README.md" || page.folder() == "docs") found.push_back(std::move(page));
  return found;
}

std::vector<std::string> pages_with_commands() {
  std::vector<std::string> paths;
  for (const SourceFile& page : pages())
    if (!commands_of(page).empty()) paths.push_back(page.path);
  return paths;
}

// Puts what the readers of a page bring into the folder.
void bring_files(const toml::table& file, const std::string& page, const fs::path& folder) {
  const toml::table* files = file["files"][page].as_table();
  if (files == nullptr) return;
  for (const auto& [name, from] : *files) {
    const fs::path target = folder / std::string(name.str()), source = root / from.value<std::string>().value();
    fs::create_directories(target.parent_path());
    if (fs::is_directory(source))
      fs::create_directory_symlink(source, target);
    else
      fs::copy_file(source, target);
  }
}

class Page : public testing::TestWithParam<std::string> {};

TEST_P(Page, RunsFromTopToBottom) {
  const toml::table file = settings();
  const std::vector<PageRule> rules = rules_of(file);
  const SourceFile page{GetParam(), read_lines(root / GetParam())};
  const TemporaryDirectory readers, scratch;
  bring_files(file, page.path, readers.path());
  for (const PageLine& line : commands_of(page)) {
    const RunnableLine runnable = with_rules(line.command, rules);
    if (runnable.command.empty()) continue;
    const fs::path script =
        scratch.write("script", "cd '" + readers.path().string() + "' || exit 126\nexport PATH='" + build_folder() +
                                    "':\"$PATH\" CUDA_VISIBLE_DEVICES= NO_COLOR=1\n" + runnable.command + "\n");
    const std::string said = (scratch.path() / "said").string();
    const int code = run_shell("sh " + script.string() + " >" + said + " 2>&1");
    EXPECT_TRUE(runnable.ends.contains(code)) << at(page, line.index, runnable.command) << "\nends with " << code
                                              << ": " << model::read_text_file(said).value();
  }
}

std::string page_name(const testing::TestParamInfo<std::string>& page) {
  std::string name = fs::path(page.param).replace_extension().string();
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Readme, Page, testing::ValuesIn(pages_with_commands()), page_name);

TEST(Pages, AllCommandsAreMarkedAsSuch) {
  for (const SourceFile& page : pages()) EXPECT_THAT(unmarked_commands(page), testing::IsEmpty());
}

TEST(Pages, EveryRuleAndEveryFileIsNeeded) {
  const toml::table file = settings();
  std::set<std::string> idle;
  const std::vector<PageRule> rules = rules_of(file);
  for (const PageRule& rule : rules) idle.insert(rule.of);
  std::string commands;
  for (const SourceFile& page : pages())
    for (const PageLine& line : commands_of(page)) {
      commands += page.path + " " + line.command + "\n";
      for (const std::string& rule : with_rules(line.command, rules).rules) idle.erase(rule);
    }
  EXPECT_THAT(idle, testing::IsEmpty()) << "these rules match no line";
  for (const auto& [page, files] : *file["files"].as_table())
    for (const auto& [name, from] : *files.as_table())
      EXPECT_TRUE(std::regex_search(commands, std::regex(std::string(page.str()) + " .*\\b" + std::string(name.str()))))
          << page.str() << " needs no " << name.str();
}

TEST(Pages, RulesChangeCommands) {
  EXPECT_EQ(without_comment("  plumbline   plan  a#b  # why"), "plumbline plan a#b");
  const SourceFile page{"a.md", {"```sh", "one  # first", "# none", "```", "text", "```", "plumbline two", "```"}};
  ASSERT_EQ(commands_of(page).size(), 1U);
  EXPECT_EQ(commands_of(page)[0].command, "one");
  EXPECT_THAT(unmarked_commands(page),
              testing::ElementsAre("a.md:7: a command in a block that is not marked sh: plumbline two"));
  const std::vector<PageRule> rules = rules_of(toml::parse(R"(
[[rule]]
of = '--steps (\d+)00'
run = "--steps $1"
because = "shorter"
[[rule]]
of = "gpu"
ends = [77]
because = "none"
[[rule]]
of = "^apt"
because = "installs"
)"));
  const RunnableLine line = with_rules("run --steps 300 gpu", rules);
  EXPECT_EQ(line.command, "run --steps 3 gpu");
  EXPECT_THAT(line.ends, testing::ElementsAre(77));
  EXPECT_EQ(with_rules("apt install", rules).command, "");
}

}  // namespace
}  // namespace plumbline::tests
