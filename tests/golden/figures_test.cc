// Tests the figures of the documentation, with a shell script in place of the command.
#include "tests/golden/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

const char* const kFigures =
    "[\"plumbline simulate a --json -\"]\n"
    "step = { at = \"/step/time_s\", as = \"{:.2f} s\", text = \"1.00 s\" }\n"
    "share = { at = \"/parts/1\", as = \"{:.0f} %\", scale = 100, text = \"\" }\n";

TEST(Figures, ParsesCommandsAndKeys) {
  const auto figures = parse_figures(kFigures);
  ASSERT_EQ(figures.size(), 2);
  EXPECT_EQ(figures.at("step").command, "plumbline simulate a --json -");
  EXPECT_EQ(figures.at("step").text, "1.00 s");
  EXPECT_EQ(figures.at("share").scale, 100);
  EXPECT_THROW(parse_figures("[c]\na = { at = \"/x\" }\n"), std::runtime_error);
  EXPECT_THROW(parse_figures("[c]\na = { at = \"/x\", as = \"{}\" }\n[d]\na = { at = \"/x\", as = \"{}\" }\n"),
               std::runtime_error);
}

TEST(Figures, FormatsWhatTheCommandPrinted) {
  const auto figures = parse_figures(kFigures);
  const std::string output = "{\"step\": {\"time_s\": 17.6435}, \"parts\": [0, 0.125]}";
  EXPECT_EQ(figure_text(figures.at("step"), output), "17.64 s");
  EXPECT_EQ(figure_text(figures.at("share"), output), "12 %");
  EXPECT_THROW(figure_text(figures.at("step"), "{}"), std::runtime_error);
}

TEST(Figures, PutsTextsBetweenMarkers) {
  const auto figures = parse_figures(kFigures);
  std::set<std::string> used;
  std::vector<std::string> unknown;
  EXPECT_EQ(
      with_figures("takes <!--figure step-->9 s<!--/-->, of <!--figure no-->8 s<!--/-->.", figures, used, unknown),
      "takes <!--figure step-->1.00 s<!--/-->, of <!--figure no-->8 s<!--/-->.");
  EXPECT_THAT(used, testing::ElementsAre("no", "step"));
  EXPECT_THAT(unknown, testing::ElementsAre("no"));
}

TEST(Figures, LinesOfABlockAreInItsTranscript) {
  const TemporaryDirectory root;
  root.write("a.txt", "$ plumbline\nstep 1\n");
  const SourceFile page{"p.md", {"<!--transcript a.txt-->", "```", "step 1", "  ...", "step 2", "```", "step 3"}};
  EXPECT_THAT(lines_without_transcript(page, root.path()), testing::ElementsAre("p.md:5: is not in a.txt: step 2"));
}

TEST(Figures, UpdateBringsFileAndPagesUpToDate) {
  const TemporaryDirectory tree;
  const auto command =
      tree.write("bin/plumbline", "#!/bin/sh\necho '{\"step\": {\"time_s\": 2}, \"parts\": [0, 0.5]}'\n");
  std::filesystem::permissions(command, std::filesystem::perms::owner_all);
  const auto file = tree.write("root/docs/figures.toml", kFigures);
  const auto page = tree.write("root/p.md", "<!--figure step-->1.00 s<!--/-->, <!--figure share-->9 %<!--/-->\n");
  const auto check = [&](bool update) {
    return check_figures(file, tree.path() / "root", tree.path() / "bin", update);
  };
  EXPECT_FALSE(check(false));
  EXPECT_TRUE(check(true));
  EXPECT_TRUE(check(false));
  EXPECT_THAT(read_lines(page),
              testing::ElementsAre("<!--figure step-->2.00 s<!--/-->, <!--figure share-->50 %<!--/-->"));
  EXPECT_THAT(read_lines(file), testing::Contains(testing::HasSubstr("text = \"50 %\"")));
  tree.write("root/p.md", "<!--figure step-->2.00 s<!--/-->\n");
  EXPECT_FALSE(check(false)) << "no page has the figure share";
}

}  // namespace
}  // namespace plumbline::tests
