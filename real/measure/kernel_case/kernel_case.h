// A kernel, copy, launch or collective of a GPU that is measured by itself: one line of a .cases file.
//
//   # comment
//   gemm name=deepseek-v3/q_b phase=F format=fp8_block m=4096 n=24576 k=1536
//   partition kernel=rmsnorm rows=4096 columns=7168 ctas=20 target_sms=112
//
// A line of a file may list values, `ctas=8,20`: it stands for all combinations, of which the last key varies fastest.
// A line `shape OPERATION name=NAME KEY=VALUE...` is no case: later ones with this name, of the operation or of a
// partition with it, take the keys that they do not state from it, and their m, n and k are those of the forward GEMM
// in every phase. `name=PREFIX*` lists all shapes of the operation so far whose names begin like this.
//
// m, n and k are the sizes of the GEMM D[m,n] = A[m,k] B[k,n] itself in every phase: F y = x w^T, I dx = dy w,
// W dw += dy^T x, which accumulates into an FP32 result. With groups > 1, m (F, I) or k (W) counts the rows of one
// group, or their mean with rows_by=zipf. Counts are elements, rows or bytes. kernel_case.cc has the operations and
// their keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/measure/workload.h"

namespace plumbline::real {

struct KernelCase {
  std::string op;                       // gemm, rmsnorm, swiglu, quantise, permute, adamw, copy, ...
  std::string name;                     // for people and for the simulator; may be empty
  std::string phase;                    // gemm: F, I or W; attention: F or B
  std::string format;                   // gemm: bf16, fp8_tensor or fp8_block
  std::int64_t m = 0, n = 0, k = 0;     // gemm
  std::int64_t groups = 1;              // gemm: number of GEMMs of this shape
  std::string rows_by = "uniform";      // gemm: how rows are spread over the groups, uniform or zipf
  std::string implementation = "loop";  // gemm: groups one after the other, or grouped in one call of the library
  std::int64_t fast_accumulation = 0;   // gemm, fp8_tensor: 1 leaves out the promotion to FP32 sums
  std::int64_t soak = 0;                // kernels: seconds of back-to-back running before the samples
  std::int64_t rows = 0, columns = 0;   // rmsnorm, swiglu (columns of its output), quantise, permute
  std::int64_t top_k = 0;               // permute: output rows per input row
  std::int64_t sequences = 1;           // attention; cached_attention: requests with one new token each
  std::int64_t length = 0;              // attention: tokens of a sequence; cached_attention: the new one included
  std::int64_t heads = 0;               // attention: of queries
  std::int64_t kv_heads = 0;            // attention: of keys and values; 0: as many as heads
  std::int64_t qk_dim = 0, v_dim = 0;   // attention: of a head
  std::int64_t latent = 0;              // cached_attention: 1: values are the first columns of the one key of all heads
  std::int64_t elements = 0;            // adamw
  std::int64_t bytes = 0;               // copy, host_to_device, collectives: payload
  std::int64_t ranks = 1;               // collectives: processes, one GPU each
  std::int64_t nodes = 0;               // graph: empty kernels, one after the other
  std::string kernel;                   // partition: the operation that runs concurrently with the copy kernel
  std::int64_t ctas = 0;                // partition: persistent CTAs of the copy kernel, each of which reserves one SM
  std::string by = "claim";             // partition: how SMs are divided: "claim" (persistent CTAs) or green contexts
  std::int64_t copy_gbps = unlimited;   // partition: rate of the copy kernel, GB/s; 0 only reserves its SMs
  std::string copy_to = "device";       // partition: where the copy kernel writes, device or host memory
  std::int64_t target_sms = 0;          // gemm, also in a partition: the SM count its algorithm is chosen for

  static constexpr std::int64_t unlimited = -1;  // of copy_gbps
  static constexpr std::int64_t others = -1;     // of target_sms: the SMs that the copy leaves

  // The operation that is measured: `kernel` in a partition, else `op`.
  const std::string& operation() const { return op == "partition" ? kernel : op; }
};

// Returns whether the operation is a collective: all_reduce, all_gather, reduce_scatter or all_to_all.
bool is_collective(const KernelCase& value);

// Returns the canonical line of a case: the keys of its operation in a fixed order, without defaults. It identifies a
// case in an output file; parse_kernel_case reads it back.
std::string to_line(const KernelCase& value);

// Input errors describe what is wrong in the line, without file and line number.
model::Result<KernelCase> parse_kernel_case(const std::string& line);

// Returns the rows of each group of a grouped GEMM, the largest first. Uniform groups have `m` rows (phase W: `k`).
// By Zipf's law the same total is divided in proportion to 1, 1/2, 1/3, ..., in blocks of 128 rows, at least one each.
std::vector<std::int64_t> group_rows(const KernelCase& value);

// Returns the subject of each record that a successful case writes, in that order: one for each variant. FLOPs and
// bytes are those of the kernel's operator (model/cost/work.h). Bytes of a copy count reads and writes. Bytes of a
// collective are the least that one rank's link transfers in each direction.
std::vector<Subject> subjects_of(const KernelCase& value);

// Reads a file that lists what to measure on a GPU: .cases with one case per line, or .toml with one [[case]] table per
// case and the same keys. Input errors name the file and the line of the case.
model::Result<std::vector<KernelCase>> read_case_file(const std::string& path);

}  // namespace plumbline::real
