#include "real/cuda/probe/work.h"

#include <algorithm>
#include <cctype>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

namespace {

double blocks(std::int64_t elements) { return static_cast<double>(tiles_of(elements)); }

Work gemm_work(const Case& value) {
  const auto m = static_cast<double>(value.m);
  const auto n = static_cast<double>(value.n);
  const auto k = static_cast<double>(value.k);
  double operands = 0;
  if (value.format == "bf16") {
    operands = 2 * (m * k + n * k);
  } else {
    operands = m * k + n * k;
  }
  if (value.format == "fp8_block") {
    const double second = value.phase == "W" ? n * blocks(value.k) : blocks(value.n) * blocks(value.k);
    operands += 4 * (m * blocks(value.k) + second);
  }
  // The weight gradient is read and written in FP32, the others are written in BF16.
  const double result = value.phase == "W" ? 8 * m * n : 2 * m * n;
  const auto groups = static_cast<double>(value.groups);
  return {2 * m * n * k * groups, (operands + result) * groups};
}

// Half of all pairs of positions see each other. Forward: scores and weighted values. Backward: scores again, and two
// products each for the gradients of what stood in either.
Work attention_work(const Case& value) {
  const auto tokens = static_cast<double>(value.sequences * value.length);
  const auto heads = static_cast<double>(value.heads);
  const double kv_heads = value.kv_heads > 0 ? static_cast<double>(value.kv_heads) : heads;
  const auto qk = static_cast<double>(value.qk_dim), v = static_cast<double>(value.v_dim);
  const double pairs = tokens * static_cast<double>(value.length) / 2 * heads;
  const double elements = tokens * (heads + kv_heads) * (qk + v);  // queries, keys, values and outputs
  const double sums = 4 * tokens * heads;
  if (value.phase == "F") return {2 * pairs * (qk + v), 2 * elements + sums};
  // The output and its gradient are read; the gradients of the other three are written.
  return {2 * pairs * (3 * qk + 2 * v), 4 * elements + sums};
}

}  // namespace

Work work_of(const Case& value) {
  const auto rows = static_cast<double>(value.rows);
  const auto columns = static_cast<double>(value.columns);
  const std::string& op = value.operation();
  if (op == "gemm") return gemm_work(value);
  if (op == "attention") return attention_work(value);
  if (op == "rmsnorm") return {0, 4 * rows * columns + 2 * columns};  // BF16 in and out, weights
  if (op == "swiglu") return {0, 6 * rows * columns};                 // BF16: gate and up in, one out
  if (op == "quantise") return {0, 3 * rows * columns + 4 * rows * blocks(value.columns)};
  if (op == "permute") {
    const double copies = static_cast<double>(value.top_k);
    return {0, 2 * rows * columns * (1 + copies) + 4 * rows * copies};
  }
  // FP32 gradient, master weight read and written, two BF16 moments read and written, BF16 weight written.
  if (op == "adamw") return {0, (4 + 8 + 8 + 2) * static_cast<double>(value.elements)};
  if (op == "copy") return {0, 2 * static_cast<double>(value.bytes)};
  if (op == "host_to_device") return {0, static_cast<double>(value.bytes)};
  return {};
}

const std::vector<DevicePeak>& device_peaks() {
  // NVIDIA's datasheets of the SXM parts (H20: as its resellers print it); PCI Express gen 4 and 5 x16 at 32 and
  // 64 GB/s. H800's FP8 rate is taken equal to the H100's.
  static const std::vector<DevicePeak> peaks = {
      {"h200", 989, 1979, 4800, 64}, {"h100", 989, 1979, 3350, 64}, {"h800", 989, 1979, 3350, 64},
      {"h20", 148, 296, 4000, 64},   {"a100", 312, 0, 2039, 32},    {"a800", 312, 0, 2039, 32},
  };
  return peaks;
}

const DevicePeak* find_peak(const std::string& device) {
  std::string lower = device;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const DevicePeak& peak : device_peaks()) {
    if (lower.find(peak.name) != std::string::npos) return &peak;
  }
  return nullptr;
}

double floor_us(const Case& value, const DevicePeak& peak) {
  const Work work = work_of(value);
  const double tflops = value.format == "bf16" ? peak.bf16_tflops : peak.fp8_tflops;
  if (work.flops > 0 && tflops <= 0) return -1;
  const double gbps = value.op == "host_to_device" ? peak.host_gbps : peak.memory_gbps;
  const double compute = work.flops > 0 ? work.flops / (tflops * 1e6) : 0;
  return std::max(compute, work.bytes / (gbps * 1e3));
}

}  // namespace plumbline::real::cuda
