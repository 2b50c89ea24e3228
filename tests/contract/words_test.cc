// The field's words: comments, help texts and documentation use them instead of words of our own. The table names each
// word that is refused and what to write; plain English that happens to share a word is excepted by its phrase.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/support/source_tree.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

struct Word {
  const char* refused;     // a regular expression of lower case, whole words
  const char* instead;     // what the error suggests
  const char* allowed_in;  // a regular expression of paths; "" where it is refused everywhere
};
constexpr Word kWords[] = {
    {"lanes?", "GPU, stream, channel or track", "^real/cuda/kernels/|^tests/|^topologies/formats"},
    {"seats?|seated", "SM residency: acquired SMs, free SMs, occupancy", ""},
    {"hops?", "send, receive, point-to-point transfer; leg of the all-to-all", ""},
    {"beside", "concurrent with, overlapped with, next to, with", ""},
    {"neighbours? (of|on) (an|the|its) SMs?|co-?runner neighbours?", "co-runner", ""},
    {"carriers?|cargo", "transport, payload", ""},
    {"departures?", "send buffer", ""},
    {"matrix products?|products? of matrices", "GEMM", ""},
    {"undertaking", "step inputs", ""},
    {"(interior|inner) (stages?|chunks?)", "middle stage", ""},
    {"finalists?|leaders of the search|tally|tallies", "top-k, incumbents, statistics", ""},
    {"obstacles?|shortfalls?|shortages?", "infeasible, reason", ""},
    {"sites?", "cluster option", ""},
    {"knows?|tells?|told|says?|said", "has, returns, reports, names: things do not speak", "[.]md$"},
    {"meetings?|meets? (its|the|their|other|all)( other)? (group|peers?|ranks?|members?)", "barrier, rendezvous", ""},
    {"turned", "transposed", ""},
    {"exchanges?(?![.*`])", "all-to-all: dispatch, combine; transfer", ""},
    {"(grouped|large|small|fp8|bf16|these|the|of|all) products?(?! (of|that))", "GEMM", "^model/(base|megatron)"},
    {"arrangements?", "layout, choice", ""},
    {"rooms?", "space, capacity; folder", ""},
};

// Returns the comment of a line of C++: the text after `//` outside of a string.
std::string comment_of(const std::string& line) {
  bool quoted = false;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && line[i] == '/' && line[i + 1] == '/') {
      return line.substr(i + 2);
    }
  }
  return "";
}

// Returns the text of a line that a reader sees, in lower case: comments of sources, texts of the command's help, all
// of a page.
std::string prose_of(const SourceFile& file, const std::string& line) {
  static const std::regex code("`[^`]*`");
  const bool shown =
      file.folder() == "cli" && line.find('"') != std::string::npos && line.find("//") == std::string::npos;
  std::string prose = shown ? line.substr(line.find('"')) : comment_of(line);
  if (file.extension() == ".md") prose = std::regex_replace(line, code, "");
  std::ranges::transform(prose, prose.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return prose;
}

std::vector<std::string> refused_words(const std::filesystem::path& root) {
  struct Rule {
    std::regex word, allowed;
    const Word* entry;
  };
  std::vector<Rule> rules;
  std::string all;
  for (const Word& word : kWords) {
    rules.push_back({std::regex("\\b(" + std::string(word.refused) + ")\\b"),
                     std::regex(*word.allowed_in == '\0' ? "^$" : word.allowed_in), &word});
    all += (all.empty() ? "" : "|") + std::string(word.refused);
  }
  const std::regex any("\\b(" + all + ")\\b");
  std::vector<std::string> found;
  for (const SourceFile& file : read_source_tree(root, {".h", ".cc", ".cu", ".cuh", ".def", ".md"})) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string prose = prose_of(file, file.lines[i]);
      if (!std::regex_search(prose, any)) continue;
      std::smatch match;
      for (const Rule& rule : rules)
        if (std::regex_search(prose, match, rule.word) && !std::regex_search(file.path, rule.allowed))
          found.push_back(at(file, i, "'" + match[0].str() + "': write " + rule.entry->instead));
    }
  }
  return found;
}

TEST(Words, AreThoseOfTheField) { EXPECT_THAT(refused_words(source_folder()), testing::IsEmpty()); }

TEST(Words, AreFoundInCommentsHelpAndPages) {
  const TemporaryDirectory folder;
  folder.write("cli/a.cc", "const char* help = \"the lane\";\nint lane = 0;  // its seat\n");
  folder.write("docs/a.md", "The hop takes 3 us.\n");
  EXPECT_THAT(
      refused_words(folder.path()),
      testing::ElementsAre("cli/a.cc:1: 'lane': write GPU, stream, channel or track",
                           "cli/a.cc:2: 'seat': write SM residency: acquired SMs, free SMs, occupancy",
                           "docs/a.md:1: 'hop': write send, receive, point-to-point transfer; leg of the all-to-all"));
}

}  // namespace
}  // namespace plumbline::tests
