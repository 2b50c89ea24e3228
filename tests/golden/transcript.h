// Transcripts of the command line: readable text that is run again and compared.
//
//   What this shows, in a line or two.
//
//   $ plumbline schedule gpipe --ranks 2 --micro-batches 2 --csv -
//   rank,slot,op,...
//   ! a line of stderr
//   [exit 1]
//
// A line that starts with "$ " is a shell command, run from the repository root; its stdout follows,
// then its stderr with "! " before each line, then "[exit N]" unless N is 0. A blank line parts two
// commands; the text before the first is free. In commands, $OUT is an empty folder that the commands of
// one transcript share; its name is shown as $OUT in what they print, and that of the command's folder as $BUILD.
// $KEPT is the folder in which validation/accuracy keeps what takes long, for figures that are read from it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace plumbline::tests {

class TemporaryDirectory;

struct Transcript {
  std::string introduction;           // before the first command
  std::vector<std::string> commands;  // without the "$ "
};

struct CommandResult {
  std::string output;
  std::string errors;
  int exit_code = 0;
};

Transcript parse_transcript(const std::string& text);

// Runs a shell command from `root`, where `plumbline` is the command in `binary_folder`, $OUT a folder in `scratch` and
// $KEPT one in `binary_folder`.
CommandResult run_command(const std::string& command, const std::filesystem::path& root,
                          const std::filesystem::path& binary_folder, const TemporaryDirectory& scratch);

// Runs the transcript's commands, where `plumbline` is the command in `binary_folder`, and returns the transcript of
// their output. A last line without a line break is marked "(no line break at the end)".
std::string replay(const Transcript& transcript, const std::filesystem::path& root,
                   const std::filesystem::path& binary_folder);

}  // namespace plumbline::tests
