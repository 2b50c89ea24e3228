// Loops over indices on the cores of this process.
#pragma once

#include <cstddef>
#include <functional>

namespace plumbline::sim {

// Calls body(0) to body(count - 1) on as many cores as local_tasks() takes. What one of them throws, for want of
// memory, is thrown here.
void for_each_index(std::size_t count, const std::function<void(std::size_t)>& body);

}  // namespace plumbline::sim
