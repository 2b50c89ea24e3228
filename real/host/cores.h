// The cores that one stream may use: its partition of the CPU.
#pragma once

#include <functional>
#include <memory>

#include "real/host/pool.h"

namespace plumbline::real::host {

class Cores {
 public:
  explicit Cores(int count = 1);  // at least 1
  ~Cores();
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  int count() const { return count_; }
  // Calls body(begin, end) for contiguous parts of 0..n, one on each core, and waits for all. Parts begin at multiples
  // of `grain`. With one core, the calling thread runs all of it.
  void split(Index n, Index grain, const std::function<void(Index begin, Index end)>& body);

 private:
  struct Arena;
  int count_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace plumbline::real::host
