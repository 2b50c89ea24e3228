// The cores that one stream may use: a CPU's own partition.
#pragma once

#include <functional>
#include <memory>

#include "real/host/buffer.h"

namespace plumbline::real::host {

class Cores {
 public:
  explicit Cores(int count = 1);  // at least 1
  ~Cores();
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  int count() const { return count_; }
  // Calls body(begin, end) for contiguous parts of 0..n, one on each core, and waits for all. Parts begin at multiples
  // of `grain`. One core: a plain call on the calling thread.
  void split(Index n, Index grain, const std::function<void(Index begin, Index end)>& body);

 private:
  struct Arena;
  int count_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace plumbline::real::host
