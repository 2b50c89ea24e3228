#include "real/cuda/device/watch/kernel_trace.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

namespace plumbline::real::cuda {
namespace {

using Json = nlohmann::ordered_json;

std::string readable(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : name;
}

// Converts whole nanoseconds to microseconds, the unit of the format.
double microseconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

Json event_of(const KernelActivity& activity, std::uint64_t origin) {
  Json details;
  if (activity.bytes > 0)
    details["bytes"] = activity.bytes;
  else
    details = {{"blocks", activity.blocks},
               {"threads", activity.threads},
               {"registers", activity.registers},
               {"shared_bytes", activity.shared_bytes}};
  return {{"name", readable(activity.name)},
          {"ph", "X"},
          {"pid", 0},
          {"tid", activity.stream},
          {"ts", microseconds(activity.start_ns - origin)},
          {"dur", microseconds(activity.end_ns - activity.start_ns)},
          {"args", details}};
}

Json name_of(const char* what, std::uint32_t stream, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", 0}, {"tid", stream}, {"args", {{"name", name}}}};
}

}  // namespace

std::string kernel_trace(std::vector<KernelActivity> activities) {
  std::ranges::stable_sort(activities, {}, &KernelActivity::start_ns);
  Json events = Json::array({name_of("process_name", 0, "kernels")});
  std::set<std::uint32_t> streams;
  for (const KernelActivity& activity : activities) streams.insert(activity.stream);
  for (const std::uint32_t stream : streams)
    events.push_back(name_of("thread_name", stream, fmt::format("stream {}", stream)));
  for (const KernelActivity& activity : activities) events.push_back(event_of(activity, activities.front().start_ns));
  return Json{{"traceEvents", events}}.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::real::cuda
