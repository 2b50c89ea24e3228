// Runs untimed work of the host on all its cores: generating numbers, converting formats.
#pragma once

#include <cstdint>
#include <functional>

namespace plumbline::real {

// Calls body(begin, end) on ranges that cover [0, count), on at most one thread per core, and returns when all have.
// Ranges hold at least `least` items; a single range runs on the calling thread.
void in_parallel(std::int64_t count, std::int64_t least, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace plumbline::real
