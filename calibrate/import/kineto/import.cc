#include "calibrate/import/kineto/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "calibrate/chunk/kernel_timeline.h"
#include "calibrate/import/kineto/detail/phases.h"
#include "calibrate/import/kineto/detail/trace_reader.h"

namespace plumbline::calibrate {
namespace {

using model::Result;

constexpr double nanosecond = 1e-9;
constexpr std::int64_t ps_per_ns = 1000;
constexpr std::string_view copy_class = "memcpy_memset";  // of copies whose name no pattern matches

std::map<int, std::int64_t> kernels_by_device(const Trace& trace) {
  std::map<int, std::int64_t> count;
  for (const GpuWork& work : trace.work) count[work.device] += work.copy ? 0 : 1;
  std::erase_if(count, [](const auto& entry) { return entry.second == 0; });
  return count;
}

Result<int> choose_device(const std::string& path, const Trace& trace, const std::map<int, std::int64_t>& found,
                          std::optional<int> asked) {
  if (found.empty()) {
    return model::wrong_input_at(
        path, 0, "", fmt::format("no GPU kernel among the {} events of the trace", trace.events),
        "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], around work on a GPU");
  }
  if (asked && !found.contains(*asked)) {
    return model::wrong_input_at(path, 0, "--device", fmt::format("no kernel ran on device {}", *asked),
                                 fmt::format("kernels by device: {}", describe_devices(found)));
  }
  return asked ? *asked : std::ranges::max_element(found, {}, &std::pair<const int, std::int64_t>::second)->first;
}

// Returns the work of a device, by start, then stream.
std::vector<std::size_t> work_of(const Trace& trace, int device) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < trace.work.size(); ++i) {
    if (trace.work[i].device == device) indices.push_back(i);
  }
  std::ranges::stable_sort(indices, {},
                           [&](std::size_t i) { return std::pair(trace.work[i].start_ns, trace.work[i].stream); });
  return indices;
}

// The class of each name, looked up once per name.
class ClassNames {
 public:
  ClassNames(const Trace& trace, const KernelClasses& classes) : trace_(trace), classes_(classes) {}

  // Returns nullptr when no pattern matches.
  const KernelClass* of(std::uint32_t name) {
    const auto [found, fresh] = known_.try_emplace(name, nullptr);
    if (fresh) found->second = classes_.find(trace_.names.text(name));
    return found->second;
  }

 private:
  const Trace& trace_;
  const KernelClasses& classes_;
  std::unordered_map<std::uint32_t, const KernelClass*> known_;
};

std::string note_of(const Trace& trace, const GpuWork& work, const WorkPhase& phase) {
  std::string note;
  const auto add = [&](std::string_view key, const auto& value) {
    note += fmt::format("{}{}={}", note.empty() ? "" : " ", key, value);
  };
  if (phase.annotation != nullptr) add("section", as_word(trace.names.text(phase.name)));
  if (work.copy) {
    add("bytes", work.bytes);
  } else {
    if (work.threads > 0) add("threads", work.threads);
    if (work.registers > 0) add("registers", work.registers);
    if (work.threads > 0) add("shared", work.shared_bytes);
  }
  add("kernel", short_kernel_name(trace.names.text(work.name)));
  return note;
}

std::vector<UnknownKernel> by_time(const std::unordered_map<std::uint32_t, UnknownKernel>& unknown) {
  std::vector<UnknownKernel> sorted;
  for (const auto& entry : unknown) sorted.push_back(entry.second);
  std::ranges::sort(sorted, [](const UnknownKernel& a, const UnknownKernel& b) {
    return std::tuple(-a.seconds, std::string_view(a.name)) < std::tuple(-b.seconds, std::string_view(b.name));
  });
  return sorted;
}

bool too_long(const Trace& trace, const std::vector<std::size_t>& indices) {
  constexpr std::int64_t longest_ns = longest_trace_ps / ps_per_ns;
  const std::int64_t first_ns = trace.work[indices.front()].start_ns;
  return std::ranges::any_of(indices, [&](std::size_t i) {
    return trace.work[i].duration_ns > longest_ns || trace.work[i].start_ns - first_ns > longest_ns;
  });
}

void fill(const Trace& trace, const std::vector<std::size_t>& indices, const KernelClasses& classes,
          ImportedChunk& result) {
  const std::vector<WorkPhase> phases = phases_of(trace, indices, classes);
  const std::int64_t first_ns = trace.work[indices.front()].start_ns;
  std::vector<TracedKernel> kernels;
  ClassNames class_names(trace, classes);
  std::unordered_map<std::uint32_t, UnknownKernel> unknown;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const GpuWork& work = trace.work[indices[i]];
    const KernelClass* known = class_names.of(work.name);
    TracedKernel& traced = kernels.emplace_back();
    model::Kernel& kernel = traced.kernel;
    kernel.queue = work.stream;
    kernel.class_name = known != nullptr ? known->name : work.copy ? copy_class : other_class;
    kernel.phase = phases[i].annotation == nullptr ? "" : phases[i].annotation->phase;
    traced.layer = phases[i].layer;
    traced.start_ps = (work.start_ns - first_ns) * ps_per_ns;
    traced.duration_ps = work.duration_ns * ps_per_ns;
    kernel.grid = work.grid;
    kernel.note = note_of(trace, work, phases[i]);
    if (known == nullptr && !work.copy) {
      UnknownKernel& entry = unknown[work.name];
      entry.name = trace.names.text(work.name);
      entry.seconds += static_cast<double>(work.duration_ns) * nanosecond;
      ++entry.count;
    }
    ++(work.copy ? result.copies : result.kernels);
    result.with_phase += phases[i].annotation == nullptr ? 0 : 1;
  }
  result.timeline = kernel_timeline(std::move(kernels), classes);
  result.unknown = by_time(unknown);
}

std::vector<std::string> comments_of(const std::string& path, const Trace& trace, const ImportedChunk& result) {
  std::int64_t unclassified = 0;
  for (const UnknownKernel& kernel : result.unknown) unclassified += kernel.count;
  const auto device = trace.devices.find(result.device);
  const std::string file = path.substr(path.find_last_of('/') + 1);
  const std::string sms =
      device != trace.devices.end() && device->second.sms > 0 ? fmt::format(", {} SMs", device->second.sms) : "";
  std::vector<std::string> lines = {
      fmt::format("Source: PyTorch-profiler trace {}, imported by plumbline import kineto.", file),
      fmt::format("device: {}{} (device {} of the trace)",
                  device == trace.devices.end() ? "not named" : device->second.name, sms, result.device)};
  if (!trace.name.empty()) lines.push_back(fmt::format("trace name: {}", trace.name));
  if (trace.rank >= 0) lines.push_back(fmt::format("rank: {}", trace.rank));
  if (trace.world_size > 0) lines.push_back(fmt::format("world size: {}", trace.world_size));
  lines.push_back(fmt::format(
      "events: {} read; {} kernels ({} classified, {} unclassified) and {} copies and memory "
      "sets kept, {} of them with a phase",
      trace.events, result.kernels, result.kernels - unclassified, unclassified, result.copies, result.with_phase));
  lines.emplace_back(
      "start_us counts from the first GPU event of the device; phase and layer (occurrence) come from "
      "annotations, empty and -1 where there is none.");
  // Names from the trace must not contain line breaks.
  for (std::string& line : lines)
    std::ranges::replace_if(
        line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return lines;
}

}  // namespace

std::string describe_devices(const std::map<int, std::int64_t>& kernels) {
  std::vector<std::string> devices;
  for (const auto& [device, count] : kernels) devices.push_back(fmt::format("{}: {}", device, count));
  return fmt::format("{}", fmt::join(devices, ", "));
}

Result<ImportedChunk> import_kineto(const std::string& path, const KernelClasses& classes,
                                    const ImportOptions& options) {
  const auto trace = TRY(read_trace(path, options.progress));
  ImportedChunk result;
  result.found = kernels_by_device(trace);
  const auto device = TRY(choose_device(path, trace, result.found, options.device));
  result.device = device;
  const std::vector<std::size_t> indices = work_of(trace, device);
  if (too_long(trace, indices))
    return model::wrong_input_at(path, 0, "", fmt::format("the work of device {} takes more than 46 days", device));
  fill(trace, indices, classes, result);
  result.comments = comments_of(path, trace, result);
  return result;
}

}  // namespace plumbline::calibrate
