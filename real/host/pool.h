// Memory for buffers: taken from large blocks that are touched once, and handed out again when it comes back, so that a
// step that has run before allocates nothing. Beginnings are spread over cache sets: operands that all begin at
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
  // At least so many floats, aligned to 64 bytes. Any thread may call.
  Piece take(std::size_t floats);
  void give_back(Piece piece);

 private:
  float* carve(std::size_t floats);

  std::mutex mutex_;
  std::vector<std::unique_ptr<float[]>> blocks_;
  float* next_ = nullptr;
  std::size_t left_ = 0;                             // floats behind next_
  std::size_t stagger_ = 0;                          // cache lines by which the next piece is moved
  std::map<std::size_t, std::vector<float*>> free_;  // by capacity
};

}  // namespace plumbline::real::host
