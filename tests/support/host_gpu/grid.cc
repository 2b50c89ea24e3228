// Jumps between stacks are no errors.
#undef _FORTIFY_SOURCE

#include "tests/support/host_gpu/grid.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/host_gpu/runtime.h"
#include "tests/support/host_gpu/stream.h"

namespace plumbline::tests::host_gpu {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;
constexpr unsigned warp_size = 32;
constexpr unsigned poison_word = 0xffffffff;  // shared memory does not start at zero

uint3 place_in(const dim3& shape, unsigned number) {
  return {number % shape.x, number / shape.x % shape.y, number / shape.x / shape.y};
}

// A context starts a fiber; after that jumps switch fibers, which leave the signal mask alone and save a system call
// each.
struct Fiber {
  ucontext_t context{};
  jmp_buf place;
  bool begun = false;
  std::unique_ptr<char[]> stack;
  unsigned thread = 0;
};

// A point where threads wait for each other. All of them read its result before the last one can arrive again.
struct Barrier {
  unsigned expected = 0, come = 0;
  int yes = 0, result = 0;
  std::array<std::uint64_t, warp_size> brought{}, shown{};
  std::vector<Fiber*> waiting;

  // Returns whether all threads have arrived; those that wait are then ready.
  bool complete(std::vector<Fiber*>& ready) {
    if (come < expected || come == 0) return false;
    result = std::exchange(yes, 0);
    shown = brought;
    come = 0;
    ready.insert(ready.end(), waiting.begin(), waiting.end());
    waiting.clear();
    return true;
  }
};

// Runs the threads of a block. A fiber whose thread has ended continues with the next thread: most kernels need a
// single fiber.
class Block {
 public:
  void run(unsigned threads, const std::function<void()>& thread) {
    thread_ = &thread;
    threads_ = threads;
    begun_ = 0;
    whole_.expected = threads;
    warps_.assign((threads + warp_size - 1) / warp_size, {});
    for (unsigned warp = 0; warp < warps_.size(); ++warp)
      warps_[warp].expected = std::min(warp_size, threads - warp * warp_size);
    while (begun_ < threads_ || !ready_.empty()) {
      current_ = next_fiber();
      threadIdx = place_in(blockDim, current_->thread);
      enter(*current_);
    }
    if (idle_.size() < fibers_.size()) give_up("threads of a block wait for each other forever");
  }

  int meet(bool yes) {
    whole_.yes += yes ? 1 : 0;
    wait_in(whole_);
    return whole_.result;
  }
  const std::uint64_t* barrier_warp(std::uint64_t value) {
    Barrier& warp = warps_[current_->thread / warp_size];
    warp.brought[current_->thread % warp_size] = value;
    wait_in(warp);
    return warp.shown.data();
  }
  void yield() {
    Fiber& self = *current_;
    ready_.push_back(&self);
    leave(self);
  }

  static Block& of_this_thread() {
    thread_local Block block;
    return block;
  }

 private:
  void wait_in(Barrier& barrier) {
    ++barrier.come;
    if (barrier.complete(ready_)) return;
    barrier.waiting.push_back(current_);
    leave(*current_);
  }

  void enter(Fiber& fiber) {
    if (_setjmp(scheduler_) != 0) return;
    if (std::exchange(fiber.begun, true)) _longjmp(fiber.place, 1);
    setcontext(&fiber.context);
  }
  void leave(Fiber& fiber) {
    if (_setjmp(fiber.place) == 0) _longjmp(scheduler_, 1);
  }

  // Threads that have not begun run before those that are ready, of which any may be next, so that no kernel relies on
  // an order.
  Fiber* next_fiber() {
    std::vector<Fiber*>& from = begun_ < threads_ ? idle_ : ready_;
    if (from.empty()) from.push_back(new_fiber());
    std::swap(from[chance_() % from.size()], from.back());
    Fiber* fiber = from.back();
    from.pop_back();
    return fiber;
  }

  Fiber* new_fiber() {
    Fiber& fiber = *fibers_.emplace_back(std::make_unique<Fiber>());
    fiber.stack = std::make_unique_for_overwrite<char[]>(stack_bytes);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    makecontext(
        &fiber.context, [] { of_this_thread().work(); }, 0);
    return &fiber;
  }

  // The body of a fiber.
  void work() {
    for (;;) {
      Fiber& self = *current_;
      while (begun_ < threads_) {
        self.thread = begun_++;
        threadIdx = place_in(blockDim, self.thread);
        (*thread_)();
        end(self.thread);
      }
      idle_.push_back(&self);
      leave(self);
    }
  }

  // Barriers and votes count the threads that are left; a lane that has ended votes 0.
  void end(unsigned thread) {
    Barrier& warp = warps_[thread / warp_size];
    warp.brought[thread % warp_size] = 0;
    for (Barrier* barrier : {&whole_, &warp}) {
      --barrier->expected;
      barrier->complete(ready_);
    }
  }

  const std::function<void()>* thread_ = nullptr;
  unsigned threads_ = 0, begun_ = 0;
  Barrier whole_;
  std::vector<Barrier> warps_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_, ready_;
  std::minstd_rand chance_;
  Fiber* current_ = nullptr;
  jmp_buf scheduler_;
};

std::vector<uint4>& claimed() {
  thread_local std::vector<uint4> memory;  // aligned for vector loads
  return memory;
}

void run_grid(const GridShape& shape, const std::function<void()>& thread) {
  gridDim = shape.blocks;
  blockDim = shape.threads;
  const unsigned blocks = gridDim.x * gridDim.y * gridDim.z, threads = blockDim.x * blockDim.y * blockDim.z;
  for (unsigned block = 0; block < blocks; ++block) {
    blockIdx = place_in(gridDim, block);
    claimed().assign(shape.shared_bytes / sizeof(uint4) + 1, uint4{poison_word, poison_word, poison_word, poison_word});
    Block::of_this_thread().run(threads, thread);
  }
}

}  // namespace

void enqueue_grid(cudaStream_t stream, const GridShape& shape, std::function<void()> thread) {
  enqueue(stream, [shape, thread = std::move(thread)] { run_grid(shape, thread); });
}

void* dynamic_memory() { return claimed().data(); }
int barrier_block(bool yes) { return Block::of_this_thread().meet(yes); }
const std::uint64_t* barrier_warp(std::uint64_t value) { return Block::of_this_thread().barrier_warp(value); }

void rest() {
  std::this_thread::yield();  // to other ranks
  Block::of_this_thread().yield();
}

}  // namespace plumbline::tests::host_gpu
