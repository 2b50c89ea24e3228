// A file descriptor that is closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace plumbline::real {

class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&&) = delete;
  // Returns the system's number of the file; negative where it could not be opened.
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace plumbline::real
