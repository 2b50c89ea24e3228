// Progress and interruption of long computations.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "sim/tasks/watch.h"

namespace plumbline::cli {

class ProgressBar {  // a bar on stderr, drawn only when stderr is a terminal
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();  // erases the bar
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Redraws only after a further percent, so that frequent calls are cheap. A total of 0 is unknown and draws nothing.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  std::string what_;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_;
  int percent_ = -1;  // last drawn
};

// While an object lives, a line is printed on stderr each minute where that is a terminal: for computations whose
// length is not known.
class Patience {
 public:
  Patience();

 private:
  std::jthread thread_;
};

// Sets what SIGINT, SIGTERM and SIGHUP do from now on, where the process does not ignore them: they end it as they do
// by default, after the output that is being written was removed. A file that grows beyond a limit is an error of its
// writer, not a signal.
void handle_signals();

// While an object lives, the first of these signals only sets a flag; the next one ends the process. At most one may
// exist at a time. As long as there is nothing to keep, the first one ends it as well.
class Interrupt {
 public:
  enum class Kept : bool { nothing, something };
  explicit Interrupt(Kept kept = Kept::something);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  void keep();             // from now on there is something to keep
  bool requested() const;  // safe from any thread
};

// A bar and an interrupt as what computes takes them. Once work reports progress, there is something to keep.
class WatchedBar {
 public:
  WatchedBar(std::string what, Interrupt& interrupt) : bar_(std::move(what)), interrupt_(interrupt) {}
  // Valid while this object lives.
  sim::Watch watch() {
    return {[this] { return interrupt_.requested(); },
            [this](std::size_t done, std::size_t total) {
              interrupt_.keep();
              bar_.update(done, total);
            }};
  }

 private:
  ProgressBar bar_;
  Interrupt& interrupt_;
};

// Returns the exit code of a verb that an Interrupt ended early, as shells report signals: 128 and the signal's number.
int interrupted_exit();

// Returns the same after a line on stderr. `resumes`: with --resume; `after`: " after 3 of 8 campaigns".
int incomplete_exit(bool resumes = false, std::string_view after = "");

}  // namespace plumbline::cli
