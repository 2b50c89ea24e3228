#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <utility>

#include "cli/detail/temporary_name.h"
#include "reports/text/table.h"

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

// Globals, because a signal handler has no argument for its state.
std::atomic<bool> interruptible = false;
std::atomic<int> caught = 0;  // number of the signal that asked to stop; 0: none
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void write_to_stderr(std::string_view sentence) {
  static_cast<void>(!::write(STDERR_FILENO, sentence.data(), sentence.size()));
}

void end_process(int number) {
  remove_temporary();
  write_to_stderr(
      "plumbline: ended by a signal; what was not written is lost, and files that were not finished are as before\n");
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void on_signal(int number) {
  int none = 0;
  if (!interruptible || !caught.compare_exchange_strong(none, number)) return end_process(number);
  write_to_stderr("plumbline: stops as soon as what it does now is done; another signal ends it at once\n");
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

Patience::Patience() {
  if (::isatty(STDERR_FILENO) == 0) return;
  const auto work = [](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    for (int minutes = 1;; ++minutes) {
      never.wait_for(lock, stop, std::chrono::minutes(1), [] { return false; });
      if (stop.stop_requested()) return;
      std::fputs(fmt::format("plumbline: still computing after {} min\n", minutes).c_str(), stderr);
    }
  };
  try {
    thread_ = std::jthread(work);
  } catch (const std::system_error&) {  // no threads are left: the computation does without
  }
}

void handle_signals() {
  ::signal(SIGXFSZ, SIG_IGN);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;  // nohup, or a shell's background job
    action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(number, &action, nullptr);
  }
}

Interrupt::Interrupt(Kept kept) {
  caught = 0;
  interruptible = kept == Kept::something;
}

Interrupt::~Interrupt() { interruptible = false; }

void Interrupt::keep() { interruptible = true; }

bool Interrupt::requested() const { return caught != 0; }

int interrupted_exit() {
  constexpr int of_signals = 128;
  return of_signals + caught;
}

int incomplete_exit(bool resumes, std::string_view after) {
  fmt::print(stderr, "plumbline: stopped{}: the answer is incomplete{}\n", after,
             resumes ? "; a later run with --resume goes on" : "");
  return interrupted_exit();
}

}  // namespace plumbline::cli
