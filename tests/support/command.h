// Runs the command `plumbline` as a user does: a process with exit code, output and errors.
#pragma once

#include <fcntl.h>
#include <signal.h>  // kill is POSIX
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/base/text_file.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {

struct CommandResult {
  int exit_code = 0;
  std::string output, errors;
};

inline std::string plumbline_program() { return std::string(PLUMBLINE_BINARY_DIR) + "/plumbline"; }

// Returns the path of a plan that is trained within seconds.
inline std::string small_training_plan() {
  return std::string(PLUMBLINE_SOURCE_DIR) + "/tests/golden/inputs/small-training.toml";
}

// Runs `words` (mpirun), then plumbline's name, then `arguments`, as a shell splits them.
inline CommandResult plumbline(const std::string& arguments, const std::string& words = "") {
  const TemporaryDirectory scratch;
  const std::string out = (scratch.path() / "out").string(), errors = (scratch.path() / "errors").string();
  const std::string command =
      words + " " + plumbline_program() + " " + arguments + " < /dev/null > " + out + " 2> " + errors;
  const int status = std::system(command.c_str());
  if (!WIFEXITED(status)) throw std::runtime_error("the shell was killed while running: " + command);
  return {WEXITSTATUS(status), model::read_text_file(out).value(), model::read_text_file(errors).value()};
}

// Runs a command concurrently with the test and drops its output. The destructor kills it.
class Background {
 public:
  explicit Background(std::vector<std::string> words, const std::string& errors = "/dev/null") {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT, 0600);
    const int failed = posix_spawnp(&process_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("cannot start " + words[0]);
  }
  ~Background() {
    if (!running()) return;
    ::kill(process_, SIGKILL);
    wait();
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  pid_t process() const { return process_; }
  bool running() { return !ended_ && !(ended_ = ::waitpid(process_, &status_, WNOHANG) == process_); }
  // Returns the status of waitpid().
  int wait() {
    if (!ended_) ::waitpid(process_, &status_, 0);
    ended_ = true;
    return status_;
  }

 private:
  pid_t process_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace plumbline::tests
