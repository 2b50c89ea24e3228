// Processes that a test starts. Each has a deadline, so that what hangs is killed and fails its test.
#pragma once

#include <fcntl.h>
#include <signal.h>  // kill is POSIX
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace plumbline::tests {

// By then every process has ended, also on a machine that does much else.
constexpr int deadline_s = 300;

// Returns a text as one word of the shell.
inline std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? std::string(R"('\'')") : std::string(1, letter);
  return word + "'";
}

// Runs a command of the shell without input. Returns its exit code, 128 and the number of a signal that ended it.
// Throws if it was killed, which is what happens to it and to all that it has started at the deadline.
inline int run_shell(const std::string& command) {
  const std::string line = "timeout --kill-after=5 " + std::to_string(deadline_s) + " sh -c " + shell_word(command);
  const int status = std::system((line + " < /dev/null").c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  constexpr int timed_out = 124, killed = 128 + SIGKILL;  // of `timeout`: it ended at SIGTERM, or had to be killed
  if (code == timed_out || code == killed)
    throw std::runtime_error("killed, or still running after " + std::to_string(deadline_s) + " s: " + command);
  return code;
}

// Runs body() in a copy of this process, which ends without destructors; returns its process id.
template <class Body>
pid_t start_child(const Body& body) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot start a process");
  if (child > 0) return child;
  ::alarm(deadline_s);  // ends it, also after its parent
  body();
  ::_exit(0);
}

// Runs a command concurrently with the test and drops its output. The destructor kills it.
class Background {
 public:
  explicit Background(std::vector<std::string> words, const std::string& errors = "/dev/null") : words_(words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT, 0600);
    // It is a group, with what it starts itself. Whatever started the tests may ignore signals that a test sends.
    sigset_t sent;
    sigemptyset(&sent);
    for (const int number : {SIGINT, SIGTERM}) sigaddset(&sent, number);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &sent);
    const int failed = posix_spawnp(&process_, argv[0], &actions, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("cannot start " + words_[0]);
  }
  ~Background() { kill_all(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Throws at the deadline.
  bool running() {
    if (!ended_) ended_ = ::waitpid(process_, &status_, WNOHANG) == process_;
    if (ended_ || std::chrono::steady_clock::now() < end_) return !ended_;
    kill_all();
    std::string command;
    for (const std::string& word : words_) command += " " + word;
    throw std::runtime_error("still running after " + std::to_string(deadline_s) + " s:" + command);
  }
  // Waits until ready() or the process has ended. Returns whether it runs.
  template <class Ready>
  bool runs_until(const Ready& ready) {
    while (running() && !ready()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return running();
  }
  // Sends a signal, unless the process has ended: another one may have its number then.
  void send(int signal) {
    if (running()) ::kill(process_, signal);
  }
  // Returns the status of waitpid().
  int wait() {
    runs_until([] { return false; });
    return status_;
  }

 private:
  void kill_all() {
    if (ended_) return;
    ::kill(-process_, SIGKILL);
    ::waitpid(process_, &status_, 0);
    ended_ = true;
  }

  std::vector<std::string> words_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::seconds(deadline_s);
  pid_t process_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace plumbline::tests
