// Work of the host that is not timed, on all its cores: numbers made, formats changed.
#pragma once

#include <cstdint>
#include <functional>

namespace plumbline::real {

// Calls body(begin, end) on ranges that make up [0, count), each of at least `least` where there are several, on as
// many threads as there are cores, and returns when all have. Nothing is started where one range is enough.
void in_parallel(std::int64_t count, std::int64_t least, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace plumbline::real
