#include "calibrate/import/kineto/detail/event_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "calibrate/import/kineto/detail/timestamp.h"

namespace plumbline::calibrate::detail {
namespace {

using std::string_view;

// Whether a call may launch work on a GPU: cudaLaunchKernelExC, cuLaunchKernel, hipExtModuleLaunchKernel,
// cudaGraphLaunch, cudaMemcpyAsync, cudaMemsetAsync.
bool launches(string_view name) {
  const auto has = [&](string_view word) { return name.find(word) != string_view::npos; };
  return has("Launch") || has("Memcpy") || has("Memset");
}

constexpr string_view module_prefix = "nn.Module: ";

// Whether an operator multiplies matrices: aten::addmm, aten::_scaled_mm, aten::linear, _LayerNormLinear.
bool multiplies(string_view name) {
  const auto has = [&](string_view word) { return name.find(word) != string_view::npos; };
  return has("mm") || has("matmul") || has("inear") || has("einsum");
}

int clamped(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, 0, std::numeric_limits<int>::max()));
}

}  // namespace

Category category_of(string_view cat) {
  // Capital letters are from profilers before PyTorch 1.11.
  if (cat == "kernel" || cat == "Kernel") return Category::kernel;
  if (cat == "gpu_memcpy" || cat == "gpu_memset" || cat == "Memcpy" || cat == "Memset") return Category::copy;
  if (cat == "gpu_user_annotation") return Category::gpu_annotation;
  if (cat == "user_annotation") return Category::annotation;
  if (cat == "cpu_op" || cat == "Operator") return Category::operation;
  if (cat == "python_function") return Category::python;
  if (cat == "cuda_runtime" || cat == "cuda_driver" || cat == "hip_runtime" || cat == "Runtime") return Category::call;
  return Category::unneeded;
}

std::optional<std::int64_t> whole_number(string_view token) {
  const std::size_t first = token.find_first_of("-0123456789");
  if (first == string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(token.data() + first, token.data() + token.size(), value);
  const string_view rest(end, static_cast<std::size_t>(token.data() + token.size() - end));
  if (status != std::errc() || (!rest.empty() && rest != "\"")) return std::nullopt;
  return value;
}

std::string EventKeeper::keep(const Event& event) {
  problem_.clear();
  if (!event.complete || event.category == Category::unneeded) return problem_;
  if (event.category == Category::call) {
    keep_call(event);
    return problem_;
  }
  if (event.category == Category::python && !event.name.starts_with(module_prefix)) return problem_;
  const auto start = nanoseconds(event.ts), duration = nanoseconds(event.dur);
  const bool evidence = event.category != Category::kernel && event.category != Category::copy;
  if (evidence && (!start || !duration || *duration < 0)) return problem_;  // the kernels do not depend on it
  if (!start) {
    bad_time("ts", event.ts);
  } else if (!duration) {
    bad_time("dur", event.dur);
  } else if (*duration < 0) {
    problem_ = fmt::format("its duration is negative: {} us", event.dur);
  } else if (evidence && event.category != Category::gpu_annotation) {
    keep_range(event, *start, *start + *duration);
  } else {
    keep_work(event, *start, *duration);
  }
  return problem_;
}

// Keeps work that ran on a GPU, or an annotation that spans it.
void EventKeeper::keep_work(const Event& event, std::int64_t start_ns, std::int64_t duration_ns) {
  const Arguments& given = event.arguments;
  const int device = small(given.device.value_or(whole_number(event.pid).value_or(0)), "device");
  const int stream = small(given.stream.value_or(whole_number(event.tid).value_or(0)), "stream");
  if (!problem_.empty()) return;
  const std::uint32_t name = name_of(event);
  if (event.category == Category::gpu_annotation) {
    trace_.gpu_annotations.push_back({start_ns, start_ns + duration_ns, name, 0, device, stream});
    return;
  }
  GpuWork work{start_ns, duration_ns, given.correlation, given.bytes, name, device, stream};
  work.grid = clamped(given.grid);
  work.threads = clamped(given.threads);
  work.registers = clamped(given.registers);
  work.shared_bytes = clamped(given.shared);
  work.copy = event.category == Category::copy;
  trace_.work.push_back(work);
}

// Keeps what spans a time of a CPU thread.
void EventKeeper::keep_range(const Event& event, std::int64_t start_ns, std::int64_t end_ns) {
  if (event.category == Category::operation) {
    const string_view dims = multiplies(event.name) ? event.arguments.dims : string_view();
    if (event.arguments.sequence < 0 && dims.empty() && !event.name.starts_with(evaluate_prefix)) return;
    trace_.operations.push_back({start_ns, end_ns, event.arguments.sequence, trace_.names.number(event.name),
                                 trace_.names.number(dims), thread_of(event)});
    return;
  }
  auto& ranges = event.category == Category::python ? trace_.modules : trace_.annotations;
  ranges.push_back({start_ns, end_ns, trace_.names.number(event.name), thread_of(event), 0, 0});
}

void EventKeeper::keep_call(const Event& event) {
  if (event.arguments.correlation == 0 || !launches(event.name)) return;
  const auto start = nanoseconds(event.ts);
  if (!start) return;  // the kernels do not depend on it
  trace_.launches.push_back({event.arguments.correlation, *start, thread_of(event)});
}

void EventKeeper::bad_time(string_view key, string_view text) {
  constexpr std::size_t shown = 40;
  problem_ = text.empty() ? fmt::format("it has no {}", key)
                          : fmt::format("its {} is no time in microseconds: {}", key, text.substr(0, shown));
}

int EventKeeper::small(std::int64_t value, string_view what) {
  if (!std::in_range<int>(value)) problem_ = fmt::format("its {} is out of range: {}", what, value);
  return static_cast<int>(value);
}

std::uint32_t EventKeeper::thread_of(const Event& event) {
  thread_.assign(event.pid).append(1, ':').append(event.tid);
  return trace_.threads.number(thread_);
}

// Operators that plumbline executed state their class, by which the patterns of kernels.toml recognize them.
std::uint32_t EventKeeper::name_of(const Event& event) {
  const string_view kind = event.arguments.operator_class;
  if (kind.empty()) return trace_.names.number(event.name);
  name_.assign("plumbline::").append(kind).append("::").append(event.name);
  return trace_.names.number(name_);
}

}  // namespace plumbline::calibrate::detail
