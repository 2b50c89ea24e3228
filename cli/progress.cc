#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace plumbline::cli {

ProgressBar::ProgressBar(std::string what) : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (percent_ >= 0) fmt::print(stderr, "\r{:{}}\r", "", what_.size() + 40);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!terminal_ || total == 0) return;
  constexpr int whole = 100, cells = 25;
  const auto percent =
      static_cast<int>(static_cast<double>(std::min(done, total)) / static_cast<double>(total) * whole);
  if (percent == percent_) return;
  percent_ = percent;
  const int filled = percent * cells / whole;
  fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3} %", what_, "", filled, "", cells - filled, percent);
  std::fflush(stderr);
}

}  // namespace plumbline::cli
