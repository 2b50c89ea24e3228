// The shapes in which a step runs its kernels, each once: what is worth measuring for a plan, and later
// what the simulator is asked again.
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
  std::string name;    // of the first operator that has it, e.g. "q_b"
  std::string phase;   // gemm: F, I or W
  std::string format;  // gemm: bf16, fp16, fp32 or fp8_block
  // gemm: m, n, k, groups, as D[m,n] is summed over k (with groups m, or k in phase W, of one group);
  // rmsnorm, swiglu (columns of its output), quantise: rows, columns; permute: also top_k, the output rows
  // per input row; adamw: elements of one rank.
  std::vector<std::pair<std::string, std::int64_t>> extents;
  std::int64_t count = 0;  // times that one micro-batch (adamw: one step) runs it on all its stages
};

struct KernelShapes {
  std::vector<KernelShape> shapes;  // gemm first, then by op in the order above, each in program order
  std::set<std::string> others;     // operators that no shape stands for: attention, rotary, ...
};

// Rows that vary with routing count at their expected value, rounded up to whole rows per group.
KernelShapes kernel_shapes(const StepProgram& program);

}  // namespace plumbline::model
