#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/detail/work.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view step_prefix = "ProfilerStep#";

// The steps that a range of annotations names, by number.
using StepWork = std::map<std::int64_t, std::vector<std::size_t>>;

std::optional<std::int64_t> step_number(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  return model::parse_number<std::int64_t>(std::string_view(name).substr(step_prefix.size()));
}

// Returns the annotations of steps; their values are the numbers.
template <class Track>
std::vector<Range> step_ranges(const Trace& trace, const std::vector<Annotation>& annotations, const Track& track) {
  std::vector<Range> ranges;
  for (const Annotation& a : annotations)
    if (const auto number = step_number(trace.names.text(a.name)))
      ranges.push_back({a.start_ns, a.end_ns, track(a), static_cast<std::size_t>(*number)});
  return ranges;
}

StepWork annotated_steps(const Trace& trace, const std::vector<std::size_t>& work) {
  const auto together = [](const Annotation&) { return std::int64_t{0}; };
  const auto stream = [](const Annotation& a) { return stream_track(a.device, a.stream); };
  std::vector<Moment> launched = launch_moments(trace, work);
  for (Moment& moment : launched) moment.track = 0;  // autograd's thread has no annotation of its own
  const std::vector<Moment> started = start_moments(trace, work);
  const auto by_launch = innermost(step_ranges(trace, trace.annotations, together), launched, work.size());
  const auto by_start = innermost(step_ranges(trace, trace.gpu_annotations, stream), started, work.size());
  StepWork steps;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const std::size_t number = by_launch[i] != no_range ? by_launch[i] : by_start[i];
    if (number != no_range) steps[static_cast<std::int64_t>(number)].push_back(work[i]);
  }
  return steps;
}

// Returns the work between the ends of optimizers. What runs before the first end and behind the last one is a step of
// its own, which may be a part of one.
StepWork repeated_steps(const std::vector<std::size_t>& work, const std::vector<std::string_view>& class_names) {
  const auto attends = [](std::string_view kind) { return kind.starts_with("attn_"); };
  StepWork steps;
  std::int64_t number = 0;
  bool updated = false;  // since the last attention
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (class_names[i] == "optimizer") updated = true;
    if (updated && attends(class_names[i])) {
      // What runs in front of the attention belongs to the new step from the last optimizer kernel on.
      std::vector<std::size_t>& old = steps[number++];
      std::size_t kept = old.size();
      while (kept > 0 && class_names[i - (old.size() - kept) - 1] != "optimizer") --kept;
      steps[number].assign(old.begin() + static_cast<std::ptrdiff_t>(kept), old.end());
      old.resize(kept);
      updated = false;
    }
    steps[number].push_back(work[i]);
  }
  return steps;
}

std::int64_t length_of(const Trace& trace, const std::vector<std::size_t>& work) {
  std::int64_t end = 0;
  for (const std::size_t i : work) end = std::max(end, trace.work[i].end_ns());
  return end - trace.work[work.front()].start_ns;
}

}  // namespace

TraceSteps steps_of(const Trace& trace, const std::vector<std::size_t>& work,
                    const std::vector<std::string_view>& class_names) {
  TraceSteps steps;
  StepWork found = annotated_steps(trace, work);
  steps.annotated = !found.empty();
  if (found.empty()) found = repeated_steps(work, class_names);
  if (found.size() < 2) return steps;
  for (auto& [number, pieces] : found) {
    const std::int64_t length = length_of(trace, pieces);
    steps.found.push_back({number, length, std::move(pieces)});
  }
  return steps;
}

model::Result<std::size_t> choose_step(const std::string& path, const TraceSteps& steps,
                                       std::optional<std::int64_t> asked) {
  if (asked) {
    const auto found = std::ranges::find(steps.found, *asked, &TraceStep::number);
    if (found != steps.found.end()) return static_cast<std::size_t>(found - steps.found.begin());
    std::vector<std::string> numbers;
    for (const TraceStep& step : steps.found) numbers.push_back(std::to_string(step.number));
    return model::wrong_input_at(
        path, 0, "--step", fmt::format("the trace has no step {}", *asked),
        numbers.empty() ? "it shows no steps" : fmt::format("steps: {}", fmt::join(numbers, ", ")));
  }
  std::vector<std::size_t> sizes, full;
  for (const TraceStep& step : steps.found) sizes.push_back(step.work.size());
  std::ranges::sort(sizes);
  const std::size_t usual = sizes[sizes.size() / 2];
  for (std::size_t i = 0; i < steps.found.size(); ++i)
    if (2 * steps.found[i].work.size() >= usual) full.push_back(i);
  std::ranges::stable_sort(full, {}, [&](std::size_t i) { return steps.found[i].length_ns; });
  return full[(full.size() - 1) / 2];
}

bool is_whole_step(const Trace& trace, const std::vector<std::size_t>& work, std::optional<std::int64_t> number) {
  std::int64_t longest = 0;
  for (const Annotation& a : trace.annotations)
    if (const auto step = step_number(trace.names.text(a.name)); step && (!number || step == number))
      longest = std::max(longest, a.end_ns - a.start_ns);
  constexpr double least = 0.9;
  return longest > 0 && trace.cut.empty() &&
         static_cast<double>(length_of(trace, work)) >= least * static_cast<double>(longest);
}

}  // namespace plumbline::calibrate
