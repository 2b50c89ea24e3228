// Progress bars and interruption of long computations.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

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

// While an object lives, the first SIGINT only sets a flag. At most one may exist at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;  // safe from any thread
};

}  // namespace plumbline::cli
