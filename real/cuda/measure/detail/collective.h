// The expected result of a collective, without a device. Its size is that of NCCL's own benchmark: the buffer of an
// all-reduce, the gathered or scattered whole, all that one rank sends in an all-to-all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace plumbline::real::cuda {

struct CollectivePlace {
  std::string op;
  int rank = 0, ranks = 1;
  std::int64_t elements = 0;  // of the whole; a multiple of `ranks`
};

// Elements that each rank sends and receives.
std::int64_t elements_given(const CollectivePlace& place);
std::int64_t elements_got(const CollectivePlace& place);

// Returns element `index` of what this rank receives, where rank r sends input(r, i).
double expected_element(const CollectivePlace& place, std::int64_t index,
                        const std::function<double(int, std::int64_t)>& input);

}  // namespace plumbline::real::cuda
