// A memory pool for buffers. Pieces come from large blocks and are reused after they are given back, so that steps
// after the first allocate nothing. Their addresses are staggered over cache sets, because operands that all begin at
// multiples of a page would evict each other.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace plumbline::real::host {

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  struct Piece {
    float* data = nullptr;
    std::size_t capacity = 0;  // floats
  };
  // Returns at least `floats` floats, aligned to 64 bytes. Any thread may call it.
  Piece take(std::size_t floats);
  void give_back(Piece piece);
  // Adds what a tensor takes in its own format, or subtracts it.
  void count(double bytes);
  double most_bytes() const;  // the highest sum of count()

 private:
  float* carve(std::size_t floats);

  mutable std::mutex mutex_;
  double bytes_ = 0, most_bytes_ = 0;
  std::vector<std::unique_ptr<float[]>> blocks_;
  float* next_ = nullptr;
  std::size_t left_ = 0;                             // free floats from next_ on
  std::size_t stagger_ = 0;                          // offset of the next piece, in cache lines
  std::map<std::size_t, std::vector<float*>> free_;  // by capacity
};

}  // namespace plumbline::real::host
