#include "calibrate/import/kineto/detail/work.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "calibrate/chunk/chunk.h"
#include "model/base/statistics.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

// Returns the ranges of the operations that `wanted` accepts; their values are indices into trace.operations.
template <class Wanted>
std::vector<Range> operation_ranges(const Trace& trace, const Wanted& wanted) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const Operation& operation = trace.operations[i];
    if (wanted(operation)) ranges.push_back({operation.start_ns, operation.end_ns, operation.thread, i});
  }
  return ranges;
}

// Whether an operation is of a backward: "MulBackward0", "torch::autograd::AccumulateGrad".
bool of_backward(const std::string& name) {
  return name.starts_with("torch::autograd::") || name.find("Backward") != std::string::npos;
}

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

constexpr std::string_view sum_class = "reduce";

// A forward operator that launched kernels.
struct Launcher {
  std::int64_t sequence = -1;
  bool recomputed = false, gemm = false;
  std::string_view purpose;  // class of its kernels; empty: as their names state
};

// The purpose of what the backward of an operator launches.
struct GradientPurpose {
  std::string_view purpose;
  bool ends = false;  // gradients that are added up behind it are no part of the chain
};

class PurposeFinder {
 public:
  PurposeFinder(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                std::vector<std::string_view>& class_names)
      : trace_(trace), classes_(classes), class_names_(class_names), recorded_(recorded_operations(trace, work)) {}

  void run(const Places& places) {
    list_launchers();
    follow_chains();
    const KernelClass* optimizer = classes_.named("optimizer");
    for (std::size_t i = 0; i < recorded_.size(); ++i) {
      if (!general(i)) continue;
      const std::string_view purpose = places[i].optimizer && optimizer != nullptr ? optimizer->name : purpose_of(i);
      if (!purpose.empty()) class_names_[i] = purpose;
    }
  }

 private:
  // Whether the name of a kernel does not state what it is for.
  bool general(std::size_t i) const {
    const std::string_view row = classes_.compare_row(class_names_[i]);
    constexpr std::string_view also[] = {"index", "dtype_cast"};
    return row == "elementwise" || row == "copy" || row == other_class ||
           std::ranges::find(also, class_names_[i]) != std::end(also);
  }

  // Lists the forward operators in the order of their kernels.
  void list_launchers() {
    constexpr std::string_view library = "aten::";
    launcher_of_.assign(recorded_.size(), no_range);
    std::size_t last = no_range;
    for (std::size_t i = 0; i < recorded_.size(); ++i) {
      if (!recorded_[i].forward) continue;
      const Operation& operation = trace_.operations[recorded_[i].operation];
      if (recorded_[i].operation != last) {
        std::string_view name = trace_.names.text(operation.name);
        if (name.starts_with(library)) name.remove_prefix(library.size());
        names_.push_back(name);
        launchers_.push_back({operation.sequence, recorded_[i].recomputed()});
        last = recorded_[i].operation;
      }
      launchers_.back().gemm = launchers_.back().gemm || class_names_[i].find("gemm") != std::string_view::npos;
      launcher_of_[i] = launchers_.size() - 1;
    }
  }

  void follow_chains() {
    for (std::size_t at = 0; at < names_.size();) {
      std::size_t count = 0;
      for (const OperatorChain& chain : classes_.chains()) {
        count = chain.match(std::span(names_).subspan(at));
        if (count == 0) continue;
        name(chain, at, at + count);
        break;
      }
      // Operators without a gradient have the number of the next one that has one.
      if (count == 0 && !launchers_[at].recomputed) gradients_.erase(launchers_[at].sequence);
      at += count > 0 ? count : 1;
    }
  }

  // Gives the operators of a chain its class, and their gradients and those of what runs between them, such as slices.
  void name(const OperatorChain& chain, std::size_t first, std::size_t end) {
    for (std::size_t at = first; at < end; ++at) {
      Launcher& launcher = launchers_[at];
      if (launcher.gemm) continue;  // what it clears beforehand is the GEMM's
      launcher.purpose = chain.forward;
      const GradientPurpose gradient{chain.gradient, chain.residual && at == first};
      keep(launcher, launcher.sequence, gradient);
      if (at == first || launchers_[at - 1].gemm) continue;
      constexpr std::int64_t most = 16;
      const std::int64_t before = launchers_[at - 1].sequence;
      for (std::int64_t between = before + 1; between < launcher.sequence && between - before < most; ++between)
        keep(launcher, between, gradient);
    }
  }

  // A recomputed operator has no gradient of its own, and its number is counted on another thread.
  void keep(const Launcher& launcher, std::int64_t sequence, const GradientPurpose& gradient) {
    if (launcher.recomputed)
      gradients_.try_emplace(sequence, gradient);
    else
      gradients_[sequence] = gradient;
  }

  std::string_view purpose_of(std::size_t i) const {
    if (launcher_of_[i] != no_range) return launchers_[launcher_of_[i]].purpose;
    const Recorded& recorded = recorded_[i];
    if (recorded.evaluation == no_range) return {};
    const auto found = gradients_.find(trace_.operations[recorded.evaluation].sequence);
    if (found == gradients_.end()) return {};
    // What a step of the backward runs outside of its function sums over broadcast extents, or adds up gradients.
    const bool outside = recorded.operation == recorded.evaluation;
    const bool adds = outside && found->second.ends && class_names_[i] != sum_class;
    return adds ? std::string_view() : found->second.purpose;
  }

  const Trace& trace_;
  const KernelClasses& classes_;
  std::vector<std::string_view>& class_names_;
  std::vector<Recorded> recorded_;
  std::vector<std::size_t> launcher_of_;  // of each piece of work: index into launchers_
  std::vector<std::string_view> names_;   // of launchers_
  std::vector<Launcher> launchers_;
  std::unordered_map<std::int64_t, GradientPurpose> gradients_;  // by the sequence number of the forward operator
};

using Extents = std::vector<std::int64_t>;

// Returns the inputs that have at least two dimensions; an input that is a list of tensors has none.
std::vector<Extents> matrices(std::string_view dims) {
  std::vector<Extents> found;
  simdjson::dom::parser parser;
  simdjson::dom::array inputs;
  if (parser.parse(dims.data(), dims.size()).get(inputs) != simdjson::SUCCESS) return found;
  for (const simdjson::dom::element& input : inputs) {
    simdjson::dom::array list;
    if (input.get(list) != simdjson::SUCCESS) continue;
    Extents extents;
    for (const simdjson::dom::element& item : list) {
      std::int64_t extent = 0;
      if (item.get(extent) == simdjson::SUCCESS && extent > 0) extents.push_back(extent);
    }
    if (extents.size() == list.size() && extents.size() >= 2) found.push_back(std::move(extents));
  }
  return found;
}

// Returns the product of all extents but the last `count`.
std::int64_t leading(const Extents& extents, std::size_t count) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i + count < extents.size(); ++i) product *= extents[i];
  return product;
}

constexpr double ns_per_s = 1e9;

// The work of a device by end, to find what a stream waited for.
class Ends {
 public:
  Ends(const Trace& trace, const std::vector<std::size_t>& work) : trace_(trace), work_(work) {
    for (std::size_t i = 0; i < work.size(); ++i) order_.push_back(i);
    std::ranges::stable_sort(order_, {}, [this](std::size_t i) { return end(i); });
  }

  // Returns the piece of another stream that ended last in [from, to].
  std::optional<std::size_t> last(std::int64_t from, std::int64_t to, int stream) const {
    auto at = std::ranges::upper_bound(order_, to, {}, [this](std::size_t i) { return end(i); });
    while (at != order_.begin() && end(*--at) >= from)
      if (trace_.work[work_[*at]].stream != stream) return *at;
    return std::nullopt;
  }

 private:
  std::int64_t end(std::size_t i) const { return trace_.work[work_[i]].end_ns(); }

  const Trace& trace_;
  const std::vector<std::size_t>& work_;
  std::vector<std::size_t> order_;
};

}  // namespace

// Sweeps over ranges and moments, track by track, with a stack of open ranges.
std::vector<std::size_t> innermost(std::vector<Range> ranges, std::vector<Moment> moments, std::size_t askers) {
  std::ranges::stable_sort(ranges, [](const Range& a, const Range& b) {
    return std::tuple(a.track, a.start_ns, -a.end_ns) < std::tuple(b.track, b.start_ns, -b.end_ns);
  });
  std::ranges::stable_sort(moments, {}, [](const Moment& m) { return std::pair(m.track, m.time_ns); });
  std::vector<std::size_t> values(askers, no_range);
  std::vector<const Range*> open;
  std::size_t next = 0;
  for (const Moment& moment : moments) {
    const auto place = std::pair(moment.track, moment.time_ns);
    while (next < ranges.size() && std::pair(ranges[next].track, ranges[next].start_ns) <= place)
      open.push_back(&ranges[next++]);
    while (!open.empty() && (open.back()->track != moment.track || open.back()->end_ns < moment.time_ns))
      open.pop_back();
    if (!open.empty()) values[moment.asker] = open.back()->value;
  }
  return values;
}

std::vector<Moment> launch_moments(const Trace& trace, const std::vector<std::size_t>& work) {
  std::vector<const LaunchCall*> calls;
  for (const LaunchCall& call : trace.launches) calls.push_back(&call);
  std::ranges::stable_sort(calls, {}, [](const LaunchCall* call) { return call->correlation; });
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const std::int64_t correlation = trace.work[work[i]].correlation;
    const auto call =
        std::ranges::lower_bound(calls, correlation, {}, [](const LaunchCall* c) { return c->correlation; });
    if (correlation != 0 && call != calls.end() && (*call)->correlation == correlation)
      moments.push_back({(*call)->thread, (*call)->start_ns, i});
  }
  return moments;
}

std::vector<Moment> start_moments(const Trace& trace, const std::vector<std::size_t>& work) {
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const GpuWork& piece = trace.work[work[i]];
    moments.push_back({stream_track(piece.device, piece.stream), piece.start_ns, i});
  }
  return moments;
}

std::int64_t stream_track(int device, int stream) {
  constexpr int bits = 32;
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(device) << bits) | static_cast<std::uint32_t>(stream));
}

std::vector<Recorded> recorded_operations(const Trace& trace, const std::vector<std::size_t>& work) {
  const std::vector<Moment> launched = launch_moments(trace, work);
  const auto evaluates = [&](const Operation& o) { return trace.names.text(o.name).starts_with(evaluate_prefix); };
  const auto around = [&](const auto& wanted) {
    return innermost(operation_ranges(trace, wanted), launched, work.size());
  };
  const std::vector<std::size_t> operations = around([](const Operation& o) { return o.sequence >= 0; });
  const std::vector<std::size_t> evaluations = around(evaluates);
  std::vector<Recorded> recorded(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    recorded[i] = {operations[i], evaluations[i]};
    if (operations[i] == no_range) continue;
    const Operation& operation = trace.operations[operations[i]];
    recorded[i].forward = !evaluates(operation) && !of_backward(trace.names.text(operation.name));
  }
  return recorded;
}

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
  const std::size_t usual = model::upper_median(std::move(sizes));
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

void name_purposes(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                   const Places& places, std::vector<std::string_view>& class_names) {
  PurposeFinder(trace, work, classes, class_names).run(places);
}

std::optional<GemmShape> gemm_shape(std::string_view operation, std::string_view dims) {
  std::vector<Extents> inputs = matrices(dims);
  const bool adds =
      operation.find("addmm") != std::string_view::npos || operation.find("baddbmm") != std::string_view::npos;
  if (adds && inputs.size() > 2) inputs.erase(inputs.begin());
  if (inputs.size() < 2) return std::nullopt;
  const Extents &a = inputs[0], &b = inputs[1];
  const bool transposed = operation.find("inear") != std::string_view::npos;
  const std::int64_t k = a.back(), n = transposed ? b[b.size() - 2] : b.back();
  if (k != (transposed ? b.back() : b[b.size() - 2])) return std::nullopt;
  if (b.size() == 2) return GemmShape{leading(a, 1), n, k, 1};
  const std::int64_t groups = leading(b, 2);
  if (operation.find("grouped") != std::string_view::npos) return GemmShape{a.front() / groups, n, k, groups};
  return a.size() == 2 ? GemmShape{a.front(), n, k, groups} : GemmShape{a[a.size() - 2], n, k, groups};
}

std::vector<std::optional<GemmShape>> gemm_shapes(const Trace& trace, const std::vector<std::size_t>& work,
                                                  const std::vector<bool>& multiplies) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const Operation& operation = trace.operations[i];
    if (operation.dims != 0) ranges.push_back({operation.start_ns, operation.end_ns, operation.thread, i});
  }
  const std::vector<std::size_t> around = innermost(std::move(ranges), launch_moments(trace, work), work.size());
  std::unordered_map<std::uint64_t, std::optional<GemmShape>> known;  // by name and dims
  std::vector<std::optional<GemmShape>> shapes(work.size());
  std::unordered_set<std::size_t> taken;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (around[i] == no_range || !multiplies[i] || !taken.insert(around[i]).second) continue;
    const Operation& operation = trace.operations[around[i]];
    constexpr int bits = 32;
    const auto [shape, fresh] = known.try_emplace(std::uint64_t{operation.name} << bits | operation.dims);
    if (fresh) shape->second = gemm_shape(trace.names.text(operation.name), trace.names.text(operation.dims));
    shapes[i] = shape->second;
  }
  return shapes;
}

std::vector<Wait> waits_of(const Trace& trace, const std::vector<std::size_t>& work,
                           const std::vector<bool>& communicates) {
  const std::int64_t limit = std::llround(launch_gap_limit * ns_per_s);
  const Ends ends(trace, work);
  std::vector<std::optional<std::int64_t>> launched(work.size());
  for (const Moment& moment : launch_moments(trace, work)) launched[moment.asker] = moment.time_ns;
  std::map<int, std::int64_t> idle_since;  // by stream
  std::vector<Wait> waits(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    const GpuWork& piece = trace.work[work[i]];
    const auto [previous, first] = idle_since.try_emplace(piece.stream, piece.end_ns());
    const std::int64_t idle = first ? piece.start_ns : previous->second;
    previous->second = std::max(previous->second, piece.end_ns());
    if (piece.start_ns - idle <= limit) continue;
    waits[i].length_ns = piece.start_ns - idle;
    const auto other = ends.last(piece.start_ns - limit, piece.start_ns, piece.stream);
    if (launched[i] && *launched[i] + limit >= piece.start_ns) {
      waits[i].cause = "host";
    } else if (other && trace.work[work[*other]].end_ns() > idle) {
      waits[i].cause = communicates[*other] ? "communication" : "dependency";
    } else if (launched[i]) {
      waits[i].cause = *launched[i] > idle ? "host" : "dependency";
    }
  }
  return waits;
}

}  // namespace plumbline::calibrate
