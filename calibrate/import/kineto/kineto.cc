#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kineto/detail/work.h"
#include "calibrate/import/kineto/import.h"
#include "model/base/text.h"
#include "model/result/comparison.h"

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
    if (!trace.cut.empty())
      return model::wrong_input_at(path, 0, "",
                                   fmt::format("{}; none of its {} events is a GPU kernel", trace.cut, trace.events),
                                   "copy the file again, or record it to its end");
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

// The class of each name; nullptr where no pattern matches.
using ClassNames = NameMemo<const KernelClass*>;

// What was found about each piece of work of the imported step.
struct Evidences {
  std::vector<std::string_view> classes;  // "" where no pattern matches
  Places places;
  std::vector<std::optional<GemmShape>> shapes;
  std::vector<Wait> waits;
};

std::string note_of(const Trace& trace, const GpuWork& work, const Evidences& found, std::size_t i) {
  constexpr double ns_per_us = 1000;
  const Place& place = found.places[i];
  std::string note;
  const auto add = [&](std::string_view key, const auto& value) {
    note += fmt::format("{}{}={}", note.empty() ? "" : " ", key, value);
  };
  if (place.section != 0) add("section", as_word(trace.names.text(place.section)));
  if (place.section == 0 && place.optimizer) add("section", "optimizer");
  if (place.pass >= 0) add("pass", place.pass);
  if (place.recomputed) add("recomputed", 1);
  if (const auto& shape = found.shapes[i]) {
    add("m", shape->m);
    add("n", shape->n);
    add("k", shape->k);
    if (shape->groups > 1) add("groups", shape->groups);
  }
  if (const Wait& wait = found.waits[i]; wait.length_ns > 0) {
    add("wait_us", static_cast<double>(wait.length_ns) / ns_per_us);
    add("wait", wait.cause.empty() ? "unknown" : wait.cause);
  }
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

// Returns the class of each piece; "" where no pattern matches its name.
std::vector<std::string_view> classes_of(const Trace& trace, const std::vector<std::size_t>& work,
                                         ClassNames& class_names) {
  std::vector<std::string_view> classes;
  for (const std::size_t i : work) {
    const KernelClass* known = class_names.of(trace.work[i].name);
    classes.push_back(known != nullptr ? std::string_view(known->name) : trace.work[i].copy ? copy_class : "");
  }
  return classes;
}

std::vector<bool> communicate(const std::vector<std::string_view>& names, const KernelClasses& classes) {
  std::vector<bool> result;
  for (const std::string_view name : names) result.push_back(model::is_communication(classes.compare_row(name)));
  return result;
}

void fill(const Trace& trace, const std::vector<std::size_t>& indices, const KernelClasses& classes,
          const Evidences& found, ImportedChunk& result) {
  const std::int64_t first_ns = trace.work[indices.front()].start_ns;
  std::vector<TracedKernel> kernels;
  std::unordered_map<std::uint32_t, UnknownKernel> unknown;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const GpuWork& work = trace.work[indices[i]];
    TracedKernel& traced = kernels.emplace_back();
    model::Kernel& kernel = traced.kernel;
    kernel.queue = work.stream;
    kernel.class_name = found.classes[i].empty() ? other_class : found.classes[i];
    kernel.phase = found.places[i].phase;
    traced.layer = found.places[i].layer;
    traced.start_ps = (work.start_ns - first_ns) * ps_per_ns;
    traced.duration_ps = work.duration_ns * ps_per_ns;
    kernel.grid = work.grid;
    kernel.note = note_of(trace, work, found, i);
    if (found.classes[i].empty()) {
      UnknownKernel& entry = unknown[work.name];
      entry.name = trace.names.text(work.name);
      entry.seconds += static_cast<double>(work.duration_ns) * nanosecond;
      ++entry.count;
    }
    ++(work.copy ? result.copies : result.kernels);
    result.with_phase += kernel.phase.empty() ? 0 : 1;
  }
  result.timeline = kernel_timeline(std::move(kernels), classes);
  result.unknown = by_time(unknown);
}

// Formats the shares of the time of work by the evidence that `by` returns: "by annotation 96.3 %, unknown 3.7 %".
template <class By>
std::string shares(const Trace& trace, const std::vector<std::size_t>& work, const Places& places, const By& by) {
  constexpr std::array<std::string_view, 3> names = {"unknown", "by autograd", "by annotation"};
  constexpr double percent = 100;
  std::array<double, names.size()> seconds{};
  double all = 0;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const auto duration = static_cast<double>(trace.work[work[i]].duration_ns);
    seconds.at(static_cast<std::size_t>(by(places[i]))) += duration;
    all += duration;
  }
  std::string text;
  for (std::size_t i = names.size(); i-- > 0;)
    if (seconds.at(i) > 0)
      text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", names.at(i), percent * seconds.at(i) / all);
  return text;
}

std::string describe_idle(const model::Timeline& timeline) {
  constexpr double ms_per_s = 1e3, ps_per_ms = 1e9;
  double all = 0;
  std::vector<std::string> causes;
  for (const auto& [cause, seconds] : idle_seconds(timeline)) {
    all += seconds;
    causes.push_back(fmt::format("{} {:.3f}", cause, seconds * ms_per_s));
  }
  return fmt::format("GPU idle for {:.3f} of {:.3f} ms{}{}", all * ms_per_s,
                     static_cast<double>(timeline.end_ps) / ps_per_ms,
                     causes.empty() ? "" : ", it waits for: ", fmt::join(causes, ", "));
}

// Returns what was found about the work of a step, and describes it.
Evidences examine(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                  ClassNames& class_names, std::vector<std::string>& findings) {
  Evidences found;
  found.classes = classes_of(trace, work, class_names);
  found.places = annotated_places(trace, work, classes);
  place_by_autograd(trace, work, classes, found.places);
  name_purposes(trace, work, classes, found.places, found.classes);
  const Places& places = found.places;
  const auto by_phase = [](const Place& place) { return place.phase_by; };
  const auto by_layer = [](const Place& place) { return place.layer_by; };
  findings.push_back(fmt::format("phase of the kernels' time: {}", shares(trace, work, places, by_phase)));
  findings.push_back(fmt::format("layer of the kernels' time: {}", shares(trace, work, places, by_layer)));
  std::vector<bool> multiplies;
  for (const std::string_view name : found.classes) multiplies.push_back(name.find("gemm") != std::string_view::npos);
  found.shapes = gemm_shapes(trace, work, multiplies);
  const auto gemms = std::ranges::count(multiplies, true);
  const auto shaped = std::ranges::count_if(found.shapes, [](const auto& shape) { return shape.has_value(); });
  if (gemms > 0)
    findings.push_back(fmt::format("GEMMs with a shape: {} of {}{}", shaped, gemms,
                                   shaped == 0 ? "; record_shapes=True of the profiler records them" : ""));
  found.waits = waits_of(trace, work, communicate(found.classes, classes));
  return found;
}

// Replaces the work by that of one step, where there are several.
Result<std::vector<std::size_t>> one_step(const std::string& path, const Trace& trace, std::vector<std::size_t> work,
                                          ClassNames& class_names, std::optional<std::int64_t> asked,
                                          ImportedChunk& result) {
  TraceSteps steps = steps_of(trace, work, classes_of(trace, work, class_names));
  if (steps.found.empty() && !asked) return work;
  const auto chosen = TRY(choose_step(path, steps, asked));
  TraceStep& step = steps.found[chosen];
  result.step = step.number;
  std::size_t outside = work.size();
  for (const TraceStep& other : steps.found) outside -= other.work.size();
  result.findings.push_back(fmt::format("step {} of {} to {} (by {}), {:.3f} ms{}", step.number,
                                        steps.found.front().number, steps.found.back().number,
                                        steps.annotated ? "ProfilerStep#N" : "the ends of optimizers, counted from 0",
                                        static_cast<double>(step.length_ns) / 1e6,
                                        asked ? "" : ", the median of the whole ones; --step N takes another"));
  if (outside > 0) result.findings.push_back(fmt::format("outside of all steps, left out: {} pieces of work", outside));
  return std::move(step.work);
}

// Returns the rank that a file's name states: trace_rank3.json, rank-3.json.gz; -1: none.
int rank_of_name(std::string_view path) {
  const std::string_view file = path.substr(path.find_last_of('/') + 1);
  std::size_t at = file.find("rank");
  if (at == std::string_view::npos) return -1;
  at = file.find_first_not_of("-_.", at + std::string_view("rank").size());
  if (at == std::string_view::npos) return -1;
  const std::size_t end = std::min(file.find_first_not_of("0123456789", at), file.size());
  return model::parse_number<int>(file.substr(at, end - at)).value_or(-1);
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
  const TraceOrigin& origin = result.origin;
  if (origin.rank >= 0)
    lines.push_back(fmt::format("rank: {}{}", origin.rank, trace.origin.rank < 0 ? " (of the file's name)" : ""));
  if (origin.world_size > 0) lines.push_back(fmt::format("world size: {}", origin.world_size));
  if (origin.of_pipeline) lines.emplace_back("ranks: of the pipeline");
  if (origin.plan_gpus > 0) lines.push_back(fmt::format("GPUs of the plan: {}", origin.plan_gpus));
  if (origin.whole_step) lines.emplace_back("step: whole");
  lines.push_back(fmt::format(
      "events: {} read; {} kernels ({} classified, {} unclassified) and {} copies and memory "
      "sets kept, {} of them with a phase",
      trace.events, result.kernels, result.kernels - unclassified, unclassified, result.copies, result.with_phase));
  lines.insert(lines.end(), result.findings.begin(), result.findings.end());
  lines.emplace_back("start_us counts from the first GPU event; phase is empty and layer -1 where nothing shows them.");
  // Names from the trace must not contain line breaks.
  for (std::string& line : lines)
    std::ranges::replace_if(
        line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return lines;
}

constexpr std::size_t longest = 60;
constexpr std::string_view anonymous = "(anonymous namespace)::";

// Returns the name without text in angle brackets and without the parameter list.
std::string outline(std::string_view name) {
  std::string text;
  int depth = 0;
  while (!name.empty()) {
    if (name.starts_with(anonymous)) {
      name.remove_prefix(anonymous.size());
      continue;
    }
    const char c = name.front();
    name.remove_prefix(1);
    if (c == '<') {
      ++depth;
    } else if (c == '>' && depth > 0) {
      --depth;
    } else if (c == '(' && depth == 0 && !text.empty()) {
      break;
    } else if (depth == 0) {
      text += c;
    }
  }
  return text;
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
  if (const auto named = trace.devices.find(device); named != trace.devices.end())
    result.device_name = named->second.name;
  result.origin = trace.origin;
  if (result.origin.rank < 0) result.origin.rank = rank_of_name(path);
  if (!trace.cut.empty()) result.findings.push_back(fmt::format("{}; what is complete is imported", trace.cut));
  std::vector<std::size_t> all = work_of(trace, device);
  if (too_long(trace, all))
    return model::wrong_input_at(path, 0, "", fmt::format("the work of device {} takes more than 46 days", device));
  ClassNames class_names(trace, [&classes](const std::string& name) { return classes.find(name); });
  const auto indices = TRY(one_step(path, trace, std::move(all), class_names, options.step, result));
  result.origin.whole_step = is_whole_step(trace, indices, result.step);
  fill(trace, indices, classes, examine(trace, indices, classes, class_names, result.findings), result);
  result.findings.push_back(describe_idle(result.timeline));
  result.comments = comments_of(path, trace, result);
  return result;
}

std::string short_kernel_name(const std::string& name) {
  // Copies have names like "Memcpy DtoD (Device -> Device)".
  const bool copy = name.starts_with("Mem");
  std::string text = copy ? name.substr(0, name.find(" (")) : outline(name);
  if (text.starts_with("void ")) text.erase(0, std::string_view("void ").size());
  if (text.empty()) text = name;
  return as_word(std::move(text));
}

std::string as_word(std::string text) {
  text.resize(std::min(text.size(), longest));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c <= ' ' || c == ',' || c == '"' || c == 0x7f; }, '_');
  return text;
}

}  // namespace plumbline::calibrate
