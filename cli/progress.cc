#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <utility>

#include "reports/text/format.h"

namespace plumbline::cli {
namespace {

constexpr std::size_t drawn_columns = 90;  // most columns after the name

// Returns "1,200/s, 12 s left", from the mean rate so far.
std::string pace(std::uint64_t done, std::uint64_t total, double seconds) {
  if (done == 0 || seconds <= 0) return "";
  const double rate = static_cast<double>(done) / seconds;
  const double left = static_cast<double>(total - std::min(done, total)) / rate;
  return fmt::format(", {}/s, {:.0f} s left", reports::number(rate), left);
}

// A global, because a signal handler has no argument for its state.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int number) {
  stop_requested = true;
  std::signal(number, SIG_DFL);
}

}  // namespace

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0), begin_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (percent_ >= 0) fmt::print(stderr, "\r{:{}}\r", "", what_.size() + drawn_columns);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!terminal_ || total == 0) return;
  constexpr int whole = 100, cells = 25;
  const auto percent =
      static_cast<int>(static_cast<double>(std::min(done, total)) / static_cast<double>(total) * whole);
  if (percent == percent_) return;
  percent_ = percent;
  const int filled = percent * cells / whole;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3} %{:<30}", what_, "", filled, "", cells - filled, percent,
             pace(done, total, elapsed.count()));
  std::fflush(stderr);
}

Interrupt::Interrupt() {
  stop_requested = false;
  std::signal(SIGINT, on_interrupt);
}

Interrupt::~Interrupt() { std::signal(SIGINT, SIG_DFL); }

bool Interrupt::requested() const { return stop_requested; }

}  // namespace plumbline::cli
