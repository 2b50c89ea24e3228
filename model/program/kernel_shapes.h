// Lists the distinct shapes in which a step runs its kernels, which are worth measuring for a plan.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/program/program.h"

namespace plumbline::model {

struct KernelShape {
  std::string op;      // gemm, rmsnorm, swiglu, quantise, permute, adamw
  std::string name;    // of the first operator with this shape, e.g. "q_b"
  std::string phase;   // gemm: F, I or W
  std::string format;  // gemm: bf16, fp16, fp32, fp8_block, fp8_tensor, mxfp8, nvfp4 or mxfp4
  // gemm: m, n, k, groups, with D[m,n] summed over k (groups: m, or k in phase W, is that of one group); rmsnorm,
  // swiglu (columns of its output), quantise: rows, columns; permute: also top_k, the output rows per input row; adamw:
  // elements of one rank.
  std::vector<std::pair<std::string, std::int64_t>> extents;
  std::int64_t count = 0;  // runs in one micro-batch (adamw: one step) over all stages
};

struct KernelShapes {
  std::vector<KernelShape> shapes;  // gemm first, then by op in the order above, each in program order
  std::set<std::string> others;     // operators without a shape: attention, rotary, ...
};

// Returns the shapes of a program. Rows that vary with routing have their expected value, rounded up per group.
KernelShapes kernel_shapes(const StepProgram& program);

}  // namespace plumbline::model
