// The command `plumbline` as its users call it: a process with exit code, output and errors.
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

#include "model/text_file.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {

struct CommandResult {
  int exit_code = 0;
  std::string output, errors;
};

inline std::string plumbline_program() { return std::string(PLUMBLINE_BINARY_DIR) + "/plumbline"; }

// `words` before plumbline's name (mpirun), `arguments` behind it, as a shell splits them.
inline CommandResult plumbline(const std::string& arguments, const std::string& words = "") {
  const TemporaryDirectory scratch;
  const std::string out = (scratch.path() / "out").string(), errors = (scratch.path() / "errors").string();
  const std::string command =
      words + " " + plumbline_program() + " " + arguments + " < /dev/null > " + out + " 2> " + errors;
  const int status = std::system(command.c_str());
  if (!WIFEXITED(status)) throw std::runtime_error("the shell was killed while running: " + command);
  return {WEXITSTATUS(status), model::read_text_file(out).value(), model::read_text_file(errors).value()};
}

// A plumbline that runs beside the test, its output thrown away.
class Background {
 public:
  explicit Background(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), plumbline_program());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
    const int failed = posix_spawn(&process_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("cannot start " + arguments[0]);
  }
  ~Background() { end(SIGKILL); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  bool running() {
    if (process_ > 0 && ::waitpid(process_, nullptr, WNOHANG) == process_) process_ = 0;
    return process_ > 0;
  }
  void end(int signal) {
    if (!running()) return;
    ::kill(process_, signal);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

}  // namespace plumbline::tests
