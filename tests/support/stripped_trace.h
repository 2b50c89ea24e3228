// A predicted step of one pipeline rank, written as the PyTorch profiler would have recorded it: kernels with names of
// libraries, by class, and nothing that gives layer, phase or micro-batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/import/kineto/import.h"
#include "model/result/timeline.h"
#include "sim/predict/predictor.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/kineto_trace.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {

// Returns a name that a library gives kernels of the class.
inline std::string library_name(const model::Kernel& kernel) {
  static const std::map<std::string, std::string> names = {
      {"norm", "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel"},
      {"cast", "void transformer_engine::cast_kernel_quantize"},
      {"transpose", "void transformer_engine::transpose_kernel"},
      {"swiglu", "triton_poi_fused_silu_mul_0"},
      {"permute", "_permute_kernel"},
      {"copy", "void at::native::direct_copy_kernel_cuda"},
      {"host_link", "Memcpy DtoH (Device -> Pinned)"},
      {"rotary", "fused_rope_forward"},
      {"elementwise", "void at::native::vectorized_elementwise_kernel"},
      {"router", "void at::native::sbtopk::gatherTopK"},
      {"optimizer", "void multi_tensor_apply_kernel"},
      {"embedding", "void at::native::embedding_backward_feature_kernel"},
      {"loss", "cross_entropy_kernel"},
      {"dispatch", "void deep_ep::internode::dispatch"},
      {"combine", "void deep_ep::internode::combine"},
      {"notify", "void deep_ep::internode::notify_dispatch"},
      {"layout", "void deep_ep::layout::get_dispatch_layout"},
      {"all_reduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
      {"all_gather", "ncclDevKernel_AllGather_RING_LL"},
      {"reduce_scatter", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"},
      {"send_receive", "ncclDevKernel_SendRecv"}};
  if (kernel.row == "GEMM" || kernel.row == "weight-gradient GEMM")
    return kernel.key.find("fp8") == std::string::npos ? "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
                                                       : "nvjet_qqtst_128x256_128x4_2x1_v_bz_TNT";
  if (kernel.row == "attention")
    return kernel.key.starts_with("attention_grad") ? "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel"
                                                    : "void flash::flash_fwd_kernel";
  return names.at(kernel.row == "collective" ? kernel.class_name : kernel.row);
}

struct StrippedKernel {
  const model::Span* span = nullptr;
  std::string name;
  int stream = 0;
  std::int64_t start_ns = 0, duration_ns = 0;
  std::string dims;  // "Input Dims" of the aten::mm that launched it; empty: not recorded
};

// Returns the kernels of a rank by start. Each keeps its start and takes at least `least` percent of its time.
inline std::vector<StrippedKernel> stripped_kernels(const model::Timeline& timeline, std::int32_t rank,
                                                    std::int64_t least = 80) {
  constexpr std::int64_t ps_per_ns = 1000, hash = 2654435761, all = 100;
  std::vector<StrippedKernel> kernels;
  for (const model::Span& span : timeline.spans) {
    if (span.kernel < 0 || span.rank != rank) continue;
    const model::Kernel& kernel = timeline.kernels[static_cast<std::size_t>(span.kernel)];
    const bool updates = span.stream == model::Stream::optimizer && kernel.row == "optimizer";
    const auto stream = updates ? model::Stream::compute : span.stream;
    const std::int64_t share = least + static_cast<std::int64_t>(kernels.size()) * hash % (all - least + 1);
    kernels.push_back({&span, library_name(kernel), 7 + 4 * static_cast<int>(stream), span.start_ps / ps_per_ns,
                       std::max<std::int64_t>(1, span.duration_ps / ps_per_ns * share / all)});
  }
  std::ranges::stable_sort(kernels, {}, [](const StrippedKernel& k) { return std::pair(k.start_ns, k.stream); });
  return kernels;
}

// Gives the kernels of an executed step, which have names only, the data of the predicted kernels of these names.
inline void take_kernels(model::Timeline& executed, const model::Timeline& predicted) {
  std::map<std::string, std::int32_t> known;
  for (const model::Span& span : predicted.spans)
    if (span.kernel >= 0) known.emplace(predicted.names[span.name], span.kernel);
  executed.kernels = predicted.kernels;
  for (const auto& [name, row] : {std::pair("dispatch", "dispatch"), std::pair("combine_grad", "dispatch"),
                                  std::pair("combine", "combine"), std::pair("dispatch_grad", "combine")}) {
    known[name] = static_cast<std::int32_t>(executed.kernels.size());
    executed.kernels.push_back({.class_name = "exchange", .row = row});
  }
  for (model::Span& span : executed.spans)
    if (const auto found = known.find(executed.names[span.name]);
        span.depth == model::kernel_depth && found != known.end())
      span.kernel = found->second;
}

// Where any kernel has dims, every kernel is launched ahead of the first.
inline std::string stripped_trace(const std::vector<StrippedKernel>& kernels) {
  const auto microseconds = [](std::int64_t ns) {
    const std::string digits = std::to_string(1000 + ns % 1000);
    return std::to_string(ns / 1000) + "." + digits.substr(1);
  };
  KinetoTrace trace;
  const bool shaped = std::ranges::any_of(kernels, [](const StrippedKernel& kernel) { return !kernel.dims.empty(); });
  int launch = 0;
  for (const StrippedKernel& kernel : kernels) {
    if (shaped) {
      const std::string at = std::to_string(++launch);
      if (!kernel.dims.empty())
        trace.other(R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 77, "tid": 1, "ts": )" + at +
                    R"(, "dur": 0.5, "args": {"Input Dims": )" + kernel.dims + "}}");
      trace.launch(launch, at + ".1");
    }
    const std::int64_t ahead = shaped ? static_cast<std::int64_t>(kernels.size() + 1) * 1000 : 0;
    trace.kernel(kernel.name, kernel.stream, microseconds(kernel.start_ns + ahead), microseconds(kernel.duration_ns),
                 launch);
  }
  return trace.json();
}

// Returns the predicted step with all kernels of these pipeline ranks.
inline model::Timeline all_kernels(const sim::Inputs& inputs, std::vector<std::int32_t> ranks) {
  sim::Predictor predictor(inputs);
  return predictor.simulate(inputs.plan, {.record = sim::Recording(std::move(ranks), true)}).value().timeline;
}

// Returns what the importer makes of a trace of these kernels.
inline model::Timeline imported_trace(const std::vector<StrippedKernel>& kernels) {
  const TemporaryDirectory folder;
  const std::string path = folder.write("trace.json", stripped_trace(kernels)).string();
  return calibrate::import_kineto(path, shipped_kernel_classes(), {}).value().timeline;
}

}  // namespace plumbline::tests
