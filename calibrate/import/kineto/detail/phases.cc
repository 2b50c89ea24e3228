#include "calibrate/import/kineto/detail/phases.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace plumbline::calibrate {
namespace {

// An annotated span with a phase, on a track: a thread, or a stream of a device.
struct Labeled {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t track = 0;
  WorkPhase phase;
};

// A moment on a track at which the phase of a piece of work is wanted.
struct Question {
  std::int64_t track = 0, time_ns = 0;
  std::size_t asker = 0;
};

// The phase of each name, looked up once per name.
class PhaseNames {
 public:
  PhaseNames(const Trace& trace, const KernelClasses& classes) : trace_(trace), classes_(classes) {}

  const PhaseAnnotation* of(std::uint32_t name) {
    const auto [found, fresh] = known_.try_emplace(name, nullptr);
    if (fresh) found->second = classes_.annotation(trace_.names.text(name));
    return found->second;
  }

 private:
  const Trace& trace_;
  const KernelClasses& classes_;
  std::map<std::uint32_t, const PhaseAnnotation*> known_;
};

// Returns the annotations with a phase, by track and start. `counted_on` returns the track on which occurrences of a
// name are counted; equal layers have equal numbers only within one such track.
template <class Track, class CountedOn>
std::vector<Labeled> labeled(const std::vector<Annotation>& annotations, PhaseNames& names, const Track& track,
                             const CountedOn& counted_on) {
  std::vector<const Annotation*> order;
  for (const Annotation& annotation : annotations) {
    if (names.of(annotation.name) != nullptr) order.push_back(&annotation);
  }
  std::ranges::stable_sort(order, {}, [](const Annotation* a) { return a->start_ns; });
  std::map<std::pair<std::uint32_t, std::int64_t>, int> count;
  std::vector<Labeled> spans;
  for (const Annotation* a : order) {
    int& occurrence = count[{a->name, counted_on(*a)}];
    spans.push_back({a->start_ns, a->end_ns, track(*a), {names.of(a->name), a->name, occurrence}});
    ++occurrence;
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    WorkPhase& phase = spans[i].phase;
    if (phase.annotation->descending) phase.layer = count.at({order[i]->name, counted_on(*order[i])}) - 1 - phase.layer;
  }
  // Of two that start together, the longer is the outer one.
  std::ranges::stable_sort(spans, [](const Labeled& a, const Labeled& b) {
    return std::tuple(a.track, a.start_ns, -a.end_ns) < std::tuple(b.track, b.start_ns, -b.end_ns);
  });
  return spans;
}

// Assigns to each question the innermost span around its moment on its track, unless its work already has a phase. The
// function sweeps over both, track by track, with a stack of open spans.
void answer(const std::vector<Labeled>& spans, std::vector<Question> questions, std::vector<WorkPhase>& phases) {
  std::ranges::stable_sort(questions, {}, [](const Question& q) { return std::pair(q.track, q.time_ns); });
  std::vector<const Labeled*> open;
  std::size_t next = 0;
  for (const Question& question : questions) {
    const auto moment = std::pair(question.track, question.time_ns);
    while (next < spans.size() && std::pair(spans[next].track, spans[next].start_ns) <= moment)
      open.push_back(&spans[next++]);
    while (!open.empty() && (open.back()->track != question.track || open.back()->end_ns < question.time_ns))
      open.pop_back();
    WorkPhase& phase = phases[question.asker];
    if (!open.empty() && phase.annotation == nullptr) phase = open.back()->phase;
  }
}

std::int64_t stream_track(int device, int stream) {
  constexpr int bits = 32;
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(device) << bits) | static_cast<std::uint32_t>(stream));
}

// Returns the call that launched each piece of work, as a moment on its thread.
std::vector<Question> launch_moments(const Trace& trace, const std::vector<std::size_t>& work) {
  std::vector<const LaunchCall*> calls;
  for (const LaunchCall& call : trace.launches) calls.push_back(&call);
  std::ranges::stable_sort(calls, {}, [](const LaunchCall* call) { return call->correlation; });
  std::vector<Question> questions;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const std::int64_t correlation = trace.work[work[i]].correlation;
    const auto call =
        std::ranges::lower_bound(calls, correlation, {}, [](const LaunchCall* c) { return c->correlation; });
    if (correlation != 0 && call != calls.end() && (*call)->correlation == correlation)
      questions.push_back({(*call)->thread, (*call)->start_ns, i});
  }
  return questions;
}

std::vector<Question> start_moments(const Trace& trace, const std::vector<std::size_t>& work) {
  std::vector<Question> questions;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const GpuWork& piece = trace.work[work[i]];
    questions.push_back({stream_track(piece.device, piece.stream), piece.start_ns, i});
  }
  return questions;
}

}  // namespace

std::vector<WorkPhase> phases_of(const Trace& trace, const std::vector<std::size_t>& work,
                                 const KernelClasses& classes) {
  std::vector<WorkPhase> phases(work.size());
  PhaseNames names(trace, classes);
  const auto together = [](const Annotation&) { return std::int64_t{0}; };
  const auto thread = [](const Annotation& a) { return std::int64_t{a.thread}; };
  const auto stream = [](const Annotation& a) { return stream_track(a.device, a.stream); };

  std::vector<Question> launched = launch_moments(trace, work);
  answer(labeled(trace.annotations, names, thread, together), launched, phases);
  // The trace repeats a GPU annotation on each stream that had work in it.
  answer(labeled(trace.gpu_annotations, names, stream, stream), start_moments(trace, work), phases);
  // The last attempt treats all threads as one.
  for (Question& question : launched) question.track = 0;
  answer(labeled(trace.annotations, names, together, together), std::move(launched), phases);
  return phases;
}

}  // namespace plumbline::calibrate
