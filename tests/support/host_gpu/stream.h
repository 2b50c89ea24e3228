// A stream of a GPU that is not there: a thread that does one thing after the other, so that calls return before what
// they ask for is done, and a wait that is missing shows.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace plumbline::tests::host_gpu {

// The calling thread's device, as cudaSetDevice() chose it; on a stream's thread, the stream's.
int& current_device();

// A test cannot go on: says why, and ends the process.
[[noreturn]] void give_up(const char* reason);

class Stream {
 public:
  explicit Stream(int device);
  ~Stream();  // waits until all is done
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void enqueue(std::function<void()> work);
  bool idle() const;
  void synchronize() const;

 private:
  void run(int device);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, ended_ = false;
  std::thread worker_;
};

// Waits for every stream of the device.
void synchronize_device(int device);

}  // namespace plumbline::tests::host_gpu
