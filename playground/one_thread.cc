// Loops of the predictor in a page, where there is one thread and no oneTBB.
#include "sim/tasks/indices.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {

void for_each_index(std::size_t count, const std::function<void(std::size_t)>& body) {
  for (std::size_t index = 0; index < count; ++index) body(index);
}

void limit_threads(unsigned /*threads*/, const std::function<void()>& work) { work(); }

}  // namespace plumbline::sim
