// The matrix products and memory-bound kernels of the models in the built-in sweep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "real/cuda/probe/case.h"

namespace plumbline::real::cuda {

// A linear layer y[tokens, out] = x[tokens, in] w[out, in]^T; `groups` of them in a mixture of experts, where
// `tokens` are the rows of one expert.
struct Linear {
  std::string name;
  std::int64_t tokens = 0, out = 0, in = 0;
  std::int64_t groups = 1;
};

// DeepSeek-V3 (its published config.json) at 4096 tokens per micro-batch: MLA with query and key-value latents of
// 1536 and 512, 128 heads of 128 + 64 and 128, 4 local experts of 64-way expert parallelism with 8192 rows each.
std::vector<Linear> deepseek_v3_linears();

// Llama 3 (arXiv 2407.21783, Table 3) at 8192 tokens.
struct Llama {
  std::string name;
  std::int64_t hidden = 0, intermediate = 0;
};
std::vector<Llama> llama_3_models();
std::vector<Linear> llama_3_linears(const Llama& model);

// The product of one phase of a layer; see case.h for what m, n and k are in it.
Case gemm_case(const Linear& layer, const std::string& phase, const std::string& format);

// One sequence forward and backward: DeepSeek-V3's at 4096 tokens, Llama's at 8192.
std::vector<Case> deepseek_v3_attention();
std::vector<Case> llama_3_attention(const Llama& model);

// RMSNorm, SwiGLU, quantisation, permutation and a slice of the optimizer of DeepSeek-V3.
std::vector<Case> deepseek_v3_memory_bound();
std::vector<Case> llama_3_memory_bound(const Llama& model);

}  // namespace plumbline::real::cuda
