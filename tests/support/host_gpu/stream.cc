#include "tests/support/host_gpu/stream.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace plumbline::tests::host_gpu {

int& current_device() {
  thread_local int device = 0;
  return device;
}

void give_up(const char* reason) {
  std::fprintf(stderr, "host GPU: %s\n", reason);
  std::abort();
}

Stream::Stream(int device) : worker_([this, device] { run(device); }) {}

Stream::~Stream() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void Stream::enqueue(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

bool Stream::idle() const {
  const std::scoped_lock lock(mutex_);
  return queue_.empty() && !busy_;
}

void Stream::synchronize() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

void Stream::run(int device) {
  current_device() = device;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty() || ended_; });
    if (queue_.empty()) return;
    busy_ = true;
    {
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace plumbline::tests::host_gpu
