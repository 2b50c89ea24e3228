#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "calibrate/match/detail/comparing.h"
#include "model/result/timeline_comparison.h"

namespace plumbline::calibrate {
namespace {

using model::ComparedTime;

constexpr double much = 1.15;  // a ratio of times that deserves a cause

struct Hint {
  std::string_view row, slower, faster;
};

constexpr std::string_view clocks = "clocks and power of the GPU; a profile of this machine (plumbline measure)";
constexpr std::string_view unfused = "not fused in the run? show stack lists what runs kernels one by one";
constexpr std::string_view fused = "fused into other kernels in the run? a stack that fuses (show stack)";

constexpr std::array<Hint, 12> compute_hints = {
    {{"attention", "another kernel? attention.kernel; packed documents? batch.document_length", clocks},
     {"norm", unfused, fused},
     {"cast", "not fused into the kernels before? precision.*, or a Transformer Engine stack", fused},
     {"transpose", "not fused into the kernels before? precision.*, or a Transformer Engine stack", fused},
     {"swiglu", unfused, fused},
     {"rotary", unfused, fused},
     {"permute", "rows of experts more than expected? routing.*", "rows of experts fewer than expected? routing.*"},
     {"elementwise, copy, router", unfused, fused},
     {"optimizer", "not fused, or more states? parallelism.zero_stage, precision.optimizer_moments",
      "fewer states? parallelism.zero_stage, precision.optimizer_moments"},
     {"embedding", unfused, fused},
     {"loss", unfused, fused},
     {"other", "kernels without a class: --classes names them", clocks}}};

constexpr std::array<Hint, 7> exposed_hints = {
    {{"reduce_scatter", "overlap.gradient_reduce off in the run? smaller buckets?",
      "overlap.gradient_reduce on in the run?"},
     {"all_reduce", "overlap.gradient_reduce or overlap.tensor off in the run?",
      "overlap.gradient_reduce on in the run?"},
     {"all_gather", "overlap.parameter_gather or overlap.prefetch off in the run?",
      "overlap.parameter_gather on in the run?"},
     {"send_receive", "waits for another stage: uneven stages or a slow rank?", "fewer waits than predicted"},
     {"notify", "waits for other ranks: uneven experts (routing.*) or a slow rank?", "ranks more even than predicted"},
     {"dispatch", "fewer SMs or another library? overlap.communication_sms, stack.dispatcher",
      "another library? overlap.communication_kernels"},
     {"combine", "fewer SMs or another library? overlap.communication_sms, stack.dispatcher",
      "another library? overlap.communication_kernels"}}};

template <std::size_t Size>
std::string hint_of(const std::array<Hint, Size>& hints, const ComparedTime& row) {
  if (!row.predicted_s || *row.predicted_s <= 0) return "not predicted: a part of the run that the plan lacks";
  if (!row.measured_s || *row.measured_s <= 0) return "not in the trace: fused, switched off, or cut";
  const auto hint = std::ranges::find(hints, std::string_view(row.name), &Hint::row);
  if (hint == hints.end()) return "";
  const double ratio = *row.measured_s / *row.predicted_s;
  return fmt::format("{:.1f}x predicted: {}", ratio, ratio > 1 ? hint->slower : hint->faster);
}

std::string gemm_hint(const ComparedGemm& gemm) {
  const double share = gemm.predicted_s / gemm.measured_s;
  const double rate = gemm.flops / gemm.measured_s * 1e-12;
  return fmt::format("{:.0f} TFLOP/s, {:.0f} % of the profile's rate{}", rate, 100 * share,
                     share * much < 1 ? ": clocks, tile, or another format?"
                     : share > much   ? ": the profile is slower than this machine"
                                      : "");
}

// Returns what may explain the time in which nothing runs, of which the trace waits `host` seconds for launches.
std::string idle_hint(const ComparedTime& idle, double host) {
  const double measured = idle.measured_s.value_or(0);
  constexpr double most = 0.5;
  if (host > most * measured)
    return fmt::format("{:.0f} % waits for the host: CUDA graphs, compile, fewer small kernels; --set stack.name",
                       100 * host / measured);
  return measured > idle.predicted_s.value_or(0)
             ? "nothing runs: waits for other ranks, data loading, or launches of the host"
             : "less than predicted: fewer waits for other stages, or a stack with less host time";
}

// Returns the seconds of the trace in a row of the totals.
double measured_total(const TraceComparison& comparison, std::string_view name) {
  const auto row = std::ranges::find(comparison.totals, name, &ComparedTime::name);
  return row == comparison.totals.end() ? 0 : row->measured_s.value_or(0);
}

}  // namespace

std::string class_of_kernel(const model::Kernel& kernel) {
  if (kernel.row == "collective") return kernel.class_name;
  const bool tiny =
      kernel.row == "elementwise" || kernel.row == "copy" || kernel.row == "router" || kernel.row == "host_link";
  return tiny ? "elementwise, copy, router" : kernel.row;
}

std::vector<TraceDifference> worst_differences(const TraceComparison& comparison) {
  std::vector<TraceDifference> found;
  const auto add = [&](const std::string& what, double predicted, double measured, std::string advice) {
    found.push_back({what, predicted, measured, std::move(advice)});
  };
  for (const ComparedGemm& gemm : comparison.gemms) {
    const auto count = static_cast<double>(gemm.count);
    add(fmt::format("GEMM {} ({} {})", gemm.shape(), gemm.name, gemm.kind), count * gemm.predicted_s,
        count * gemm.measured_s, gemm_hint(gemm));
  }
  const auto values = [](const ComparedTime& row) {
    return std::pair(row.predicted_s.value_or(0), row.measured_s.value_or(0));
  };
  for (const ComparedTime& row : comparison.classes) {
    const bool by_shape = row.name == "GEMM" || row.name == "weight-gradient GEMM";
    const bool transfers =
        std::ranges::find(comparison.exposed, row.name, &ComparedTime::name) != comparison.exposed.end();
    if (by_shape || transfers) continue;
    add(row.name, values(row).first, values(row).second, hint_of(compute_hints, row));
  }
  for (const ComparedTime& row : comparison.exposed)
    add("exposed " + row.name, values(row).first, values(row).second, hint_of(exposed_hints, row));
  for (const ComparedTime& row : comparison.totals)
    if (row.name == "neither")
      add("no kernel runs", values(row).first, values(row).second,
          idle_hint(row, measured_total(comparison, "of it, waits for the host")));
  const auto apart = [](const TraceDifference& d) { return std::abs(d.measured_s - d.predicted_s); };
  const double step = measured_total(comparison, "step");
  constexpr double least_share = 1e-3;
  std::erase_if(found, [&](const TraceDifference& d) { return apart(d) < least_share * step; });
  std::ranges::stable_sort(found, std::greater<>{}, apart);
  constexpr std::size_t most = 10;
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace plumbline::calibrate
