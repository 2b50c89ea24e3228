// What a user sees and can stop while something takes long.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace plumbline::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();  // wipes the bar away
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Cheap to call often: draws only when a percent more is done. A total of 0 is unknown and draws nothing.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  std::string what_;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_;
  int percent_ = -1;  // as drawn
};

// While one of these lives the first SIGINT only sets the flag; at most one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;  // safe from any thread
};

}  // namespace plumbline::cli
