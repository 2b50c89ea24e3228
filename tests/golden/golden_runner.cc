// golden_runner [--update] ROOT BINARY_FOLDER FILE...
// Replays transcripts and computes figures (files *.toml), and shows what differs (exit 1), or rewrites them in place.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden/figures.h"
#include "tests/golden/transcript.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

void show_difference(const fs::path& expected, const std::string& actual) {
  const TemporaryDirectory scratch;
  const fs::path file = scratch.write("actual", actual);
  std::printf("%s is not what the command prints now (tests/golden/update rewrites it):\n", expected.c_str());
  std::fflush(stdout);
  const bool shown =
      run_shell("diff -u --label expected --label actual " + shell_word(expected) + " " + shell_word(file)) == 1;
  if (!shown) std::printf("%s", actual.c_str());
}

// Returns whether the transcript agrees (or was updated).
bool check_transcript(const fs::path& file, const fs::path& root, const fs::path& binary_folder, bool update) {
  std::ostringstream expected;
  expected << std::ifstream(file).rdbuf();
  const Transcript transcript = parse_transcript(expected.str());
  if (transcript.commands.empty()) {
    std::printf("%s: no line starts with \"$ \"\n", file.c_str());
    return false;
  }
  const std::string actual = replay(transcript, root, binary_folder);
  if (actual == expected.str()) return true;
  if (!update) {
    show_difference(file, actual);
    return false;
  }
  std::ofstream(file) << actual;
  std::printf("updated %s\n", file.c_str());
  return true;
}

}  // namespace
}  // namespace plumbline::tests

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool update = !arguments.empty() && arguments.front() == "--update";
  if (update) arguments.erase(arguments.begin());
  if (arguments.size() < 3) {
    std::fprintf(stderr, "usage: golden_runner [--update] ROOT BINARY_FOLDER FILE...\n");
    return 2;
  }
  try {
    bool all_hold = true;
    for (std::size_t i = 2; i < arguments.size(); ++i) {
      const auto check =
          arguments[i].ends_with(".toml") ? plumbline::tests::check_figures : plumbline::tests::check_transcript;
      all_hold &= check(arguments[i], arguments[0], arguments[1], update);
    }
    return all_hold ? 0 : 1;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 2;
  }
}
