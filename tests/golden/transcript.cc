#include "tests/golden/transcript.h"

#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t found = text.find(from); found != std::string::npos; found = text.find(from, found + to.size()))
    text.replace(found, from.size(), to);
  return text;
}

// Leaves out how far the command is, which it reports twice a minute where it takes so long.
std::string with_prefix(const std::string& text, const std::string& prefix) {
  static const std::regex progress("plumbline: [0-9]+ of [0-9]+ tasks are done");
  std::string result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("$ ")) throw std::runtime_error("output would read as a command: " + line);
    if (!std::regex_match(line, progress)) result += prefix + line + "\n";
  }
  if (!text.empty() && text.back() != '\n') result += prefix + "(no line break at the end)\n";
  return result;
}

std::string written_down(const CommandResult& result) {
  std::string text = with_prefix(result.output, "") + with_prefix(result.errors, "! ");
  if (result.exit_code != 0) text += "[exit " + std::to_string(result.exit_code) + "]\n";
  return text;
}

}  // namespace

// Every command has the same terminal: no colour, 80 columns, no local language or time zone.
CommandResult run_command(const std::string& command, const fs::path& root, const fs::path& binary_folder,
                          const TemporaryDirectory& scratch) {
  const fs::path out = scratch.path() / "out";
  const fs::path kept = binary_folder / "tests/golden/kept";
  fs::create_directories(out);
  fs::create_directories(kept);
  const fs::path script =
      scratch.write("script", "cd " + shell_word(root) + " || exit 126\nexport PATH=" + shell_word(binary_folder) +
                                  ":\"$PATH\" OUT=" + shell_word(out) + " KEPT=" + shell_word(kept) +
                                  " NO_COLOR=1 COLUMNS=80 LC_ALL=C TZ=UTC\n" + command + "\n");
  const fs::path output = scratch.path() / "stdout";
  const fs::path errors = scratch.path() / "stderr";
  const int code = run_shell("sh " + shell_word(script) + " >" + shell_word(output) + " 2>" + shell_word(errors));
  const auto shown = [&](const fs::path& file) {
    return replace_all(replace_all(read_file(file), out.string(), "$OUT"), binary_folder.string(), "$BUILD");
  };
  return {shown(output), shown(errors), code};
}

Transcript parse_transcript(const std::string& text) {
  Transcript transcript;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("$ ")) {
      transcript.commands.push_back(line.substr(2));
    } else if (transcript.commands.empty()) {
      transcript.introduction += line + "\n";
    }
  }
  return transcript;
}

std::string replay(const Transcript& transcript, const fs::path& root, const fs::path& binary_folder) {
  const TemporaryDirectory scratch;
  std::string text = transcript.introduction;
  for (const std::string& command : transcript.commands) {
    if (&command != &transcript.commands.front()) text += "\n";
    text += "$ " + command + "\n" + written_down(run_command(command, root, binary_folder, scratch));
  }
  return text;
}

}  // namespace plumbline::tests
