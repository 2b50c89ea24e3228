#include "real/cuda/probe/restart.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace plumbline::real::cuda {

namespace {

constexpr const char* counter = "PLUMBLINE_PROBE_RESTARTS";
constexpr int first_own_file = 3, most_files = 4096;

}  // namespace

int restarts_so_far() {
  const char* text = std::getenv(counter);
  return text == nullptr ? 0 : std::atoi(text);
}

std::string restart(const std::vector<std::string>& arguments, std::optional<double> seconds_left) {
  std::vector<std::string> words = {"plumbline-probe"};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--budget") {
      ++i;
    } else if (arguments[i] != "--retry" && arguments[i].rfind("--budget=", 0) != 0) {
      words.push_back(arguments[i]);
    }
  }
  if (seconds_left) words.push_back("--budget=" + std::to_string(*seconds_left) + "s");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // The driver's device files close with the old program.
  for (int file = first_own_file; file < most_files; ++file) {
    if (const int flags = fcntl(file, F_GETFD); flags >= 0) fcntl(file, F_SETFD, flags | FD_CLOEXEC);
  }
  setenv(counter, std::to_string(restarts_so_far() + 1).c_str(), 1);
  execv("/proc/self/exe", pointers.data());
  return std::strerror(errno);
}

}  // namespace plumbline::real::cuda
