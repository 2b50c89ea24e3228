#include "real/host/cores.h"

#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace plumbline::real::host {

struct Cores::Arena {
  // Uses no more threads than the machine has cores; excess parts run one after the other.
  explicit Arena(int count) : arena(std::min(count, oneapi::tbb::info::default_concurrency())) {}
  oneapi::tbb::task_arena arena;
};

Cores::Cores(int count) : count_(std::max(count, 1)) {
  if (count_ > 1) arena_ = std::make_unique<Arena>(count_);
}

Cores::~Cores() = default;

void Cores::split(Index n, Index grain, const std::function<void(Index begin, Index end)>& body) {
  const Index pieces = (n + grain - 1) / grain;
  const Index parts = std::min<Index>(count_, pieces);
  if (parts <= 1) {
    if (n > 0) body(0, n);
    return;
  }
  const auto begin = [&](Index part) { return std::min(n, pieces * part / parts * grain); };
#ifdef __SANITIZE_THREAD__
  // The thread sanitizer cannot see how the library of oneTBB orders its threads and would report every loop.
  std::vector<std::jthread> threads;
  for (Index part = 0; part < parts; ++part) threads.emplace_back([&, part] { body(begin(part), begin(part + 1)); });
#else
  arena_->arena.execute([&] {
    oneapi::tbb::parallel_for(
        Index{0}, parts, [&](Index part) { body(begin(part), begin(part + 1)); }, oneapi::tbb::static_partitioner());
  });
#endif
}

}  // namespace plumbline::real::host
