// A stream of an emulated GPU: a thread that runs one task after the other. Calls return before their work is done, so
// that a missing wait shows.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace plumbline::tests::host_gpu {

// The calling thread's device, set by cudaSetDevice(); on a stream's thread, the stream's device.
int& current_device();

// Ends the process with the reason why a test cannot continue.
[[noreturn]] void give_up(const char* reason);

class Stream {
 public:
  explicit Stream(int device);
  ~Stream();  // waits until all work is done
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
