// Finds the shapes of GEMMs in the operators that launched them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

// m, n and k of D[m,n] = A[m,k] B[k,n], and how many of them: batches.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0, groups = 1;
};

// Returns the shape that an operator with these "Input Dims" multiplies, "[[4096, 7168], [7168, 512]]"; nullopt where
// its operands are no matrices. Of addmm and baddbmm the first input is added; those whose name has "inear" take B
// transposed; those whose name has "grouped" divide the rows of A among the groups.
std::optional<GemmShape> gemm_shape(std::string_view operation, std::string_view dims);

// Returns the shape of the innermost operator around the launch of each piece of work that `multiplies`. Of several
// that one operator launched, as a GEMM and the sum over its parts, the first has it.
std::vector<std::optional<GemmShape>> gemm_shapes(const Trace& trace, const std::vector<std::size_t>& work,
                                                  const std::vector<bool>& multiplies);

}  // namespace plumbline::calibrate
