// Figures of the documentation that the command computes.
//
//   ["plumbline simulate PLAN --json -"]                              in docs/figures.toml: a shell command, or
//   ["cat $KEPT/validate.json"]                                       what validation/accuracy keeps
//   step = { at = "/step/time_s", as = "{:.2f} s", text = "17.64 s" }
//
//   The step takes <!--figure step-->17.64 s<!--/-->.                  in a page, outside of code blocks
//
// `at` is a JSON pointer into what the command prints, `as` a format of {fmt}, `scale` a factor on the value (default
// 1). In a block of code after a line `<!--transcript FILE-->` each line is one of that transcript, but for "...".
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/source_tree.h"

namespace plumbline::tests {

struct Figure {
  std::string command, name, at, format, text;
  double scale = 1;
};

// Returns the figures of a file in the form above, by name. Throws std::runtime_error where a key is missing or a name
// occurs twice.
std::map<std::string, Figure> parse_figures(const std::string& toml);

// Returns the text of a figure whose command printed `output`. Throws std::runtime_error where the number is missing.
std::string figure_text(const Figure& figure, const std::string& output);

// Returns the line with the texts of `figures` between its markers. Names are added to `used`, and to `unknown` where
// no such figure exists.
std::string with_figures(const std::string& line, const std::map<std::string, Figure>& figures,
                         std::set<std::string>& used, std::vector<std::string>& unknown);

// Returns "path:line: what" for each line of a page's blocks of code that is not in the transcript named before the
// block.
std::vector<std::string> lines_without_transcript(const SourceFile& page, const std::filesystem::path& root);

// Runs the commands of `file` and compares their output with the texts in it and in the Markdown pages under `root`, or
// updates both. Prints differences to stdout and returns false where there are any.
bool check_figures(const std::filesystem::path& file, const std::filesystem::path& root,
                   const std::filesystem::path& binary_folder, bool update);

}  // namespace plumbline::tests
