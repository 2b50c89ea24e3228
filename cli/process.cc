#include "cli/process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/executable.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

tl::unexpected<model::Error> failure(const std::string& path, int code) {
  model::Error error;
  error.message = fmt::format("cannot run {}: {}", path, std::strerror(code));
  return tl::unexpected(std::move(error));
}

}  // namespace

std::optional<std::string> find_program(const std::string& name) {
  std::error_code failed;
  const fs::path self = executable();
  const fs::path candidate = self.parent_path() / name;
  if (self.empty() || !fs::is_regular_file(candidate, failed) || ::access(candidate.c_str(), X_OK) != 0)
    return std::nullopt;
  return candidate.string();
}

model::Result<int> run_program(const std::string& path, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), path);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &interrupt);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

  const auto before = std::signal(SIGINT, SIG_IGN);
  pid_t child = 0;
  const int code = posix_spawn(&child, path.c_str(), nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  int status = 0;
  while (code == 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::signal(SIGINT, before);
  if (code != 0) return failure(path, code);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace plumbline::cli
