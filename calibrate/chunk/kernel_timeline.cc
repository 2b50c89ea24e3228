#include "calibrate/chunk/kernel_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "model/result/timeline_comparison.h"

namespace plumbline::calibrate {
namespace {

struct NamedPhase {
  std::string_view name, phase;
};
// DualPipe's order within a slot (docs/architecture.md; model/program/slot_template.h).
constexpr std::array<NamedPhase, 6> compute_order = {
    {{"attn(F)", "F"}, {"mlp(B)", "B"}, {"mlp(W)", "W"}, {"mlp(F)", "F"}, {"attn(B)", "B"}, {"attn(W)", "W"}}};
constexpr std::array<NamedPhase, 4> communication_order = {
    {{"combine(B)", "B"}, {"dispatch(F)", "F"}, {"dispatch(B)", "B"}, {"combine(F)", "F"}}};

// The most layers that a stage can have; a larger number in a note is not a layer.
constexpr std::int32_t most_layers = 4096;

void replace(std::string& text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
}

// Published notes abbreviate the operators' names: "ex_gateup:g_dgrad:..." is dgrad of experts_gate_up.
void name_gemm(model::Kernel& kernel) {
  const std::string_view note = kernel.note;
  const std::size_t first = note.find(':');
  const std::size_t second = note.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return;
  std::string name(note.substr(0, first)), kind(note.substr(first + 1, second - first - 1));
  if (name.find_first_of(" =") != std::string::npos || kind.empty()) return;  // "kernel=at::native::copy_kernel"
  if (name.starts_with("ex_")) name.replace(0, 2, "experts");
  if (name.starts_with("sh_")) name.replace(0, 2, "shared");
  replace(name, "gateup", "gate_up");
  if (kind.starts_with("g_")) kind.erase(0, 2);
  kernel.gemm = std::move(name);
  kernel.gemm_kind = kind.substr(0, kind.find('_'));
}

class TracedChunk {
 public:
  TracedChunk(std::vector<TracedKernel> kernels, const KernelClasses& classes) : kernels_(std::move(kernels)) {
    for (TracedKernel& traced : kernels_) {
      model::Kernel& kernel = traced.kernel;
      // The kernels that transpose a cast's scales belong to its operator (model/graph/attributes.h, CastAttributes).
      // They count as casts, whatever row the file of classes gives them.
      kernel.row = kernel.class_name == "scale_transpose" ? "cast" : classes.compare_row(kernel.class_name);
      kernel.section = note_value(kernel.note, "section");
      name_gemm(kernel);
      if (!kernel.phase.empty()) pairs_ = std::max(pairs_, std::min(traced.layer, most_layers) + 1);
    }
    if (pairs_ > most_layers) pairs_ = 0;
    for (std::size_t i = 0; i < kernels_.size(); ++i) queues_[kernels_[i].kernel.queue].kernels.push_back(i);
    for (auto& [number, queue] : queues_) {
      std::ranges::stable_sort(queue.kernels, {}, [this](std::size_t i) { return kernels_[i].start_ps; });
      measure(queue);
    }
  }

  model::Timeline timeline() {
    add_phases();
    for (TracedKernel& traced : kernels_) {
      const std::string& name = traced.kernel.gemm.empty() ? traced.kernel.class_name : traced.kernel.gemm;
      const model::Span place = {
          .stream = stream_of(traced.kernel.queue), .layer = traced.layer, .layer_pair = pair_of(traced)};
      writer_.add(place, std::string(name), std::move(traced.kernel), traced.start_ps, end_of(traced));
    }
    model::Timeline timeline = writer_.finish();
    timeline.layer_pairs = pairs_;
    return timeline;
  }

 private:
  struct Queue {
    std::vector<std::size_t> kernels;  // by start
    double busy_ps = 0;
    bool communicates = false;
  };

  struct PhaseSpan {
    model::Span span;
    std::string name;
  };

  static std::int64_t end_of(const TracedKernel& traced) { return traced.start_ps + traced.duration_ps; }

  // Returns the index of the pair: forward layer s runs concurrently with backward layer n - 1 - s. -1: unknown.
  std::int32_t pair_of(const TracedKernel& traced) const {
    if (traced.kernel.phase.empty() || traced.layer < 0 || pairs_ == 0) return -1;
    return traced.kernel.phase == "F" ? traced.layer : pairs_ - 1 - traced.layer;
  }

  // Finds the queue's launch gaps, and whether it communicates.
  void measure(Queue& queue) {
    const auto limit_ps = std::llround(launch_gap_limit * 1e12);
    double communication_ps = 0;
    for (std::size_t i = 0; i < queue.kernels.size(); ++i) {
      TracedKernel& traced = kernels_[queue.kernels[i]];
      const bool last = i + 1 == queue.kernels.size();
      const std::int64_t gap = last ? 0 : kernels_[queue.kernels[i + 1]].start_ps - end_of(traced);
      traced.kernel.gap_ps = gap > 0 && gap <= limit_ps ? gap : 0;
      const auto duration = static_cast<double>(traced.duration_ps);
      queue.busy_ps += duration;
      if (model::is_communication(traced.kernel.row)) communication_ps += duration;
    }
    queue.communicates = communication_ps > queue.busy_ps / 2;
  }

  model::Stream stream_of(std::int32_t queue) const {
    return queues_.at(queue).communicates ? model::Stream::communication : model::Stream::compute;
  }

  void add_phases() {
    if (pairs_ == 0) return;
    std::vector<PhaseSpan> phases = annotated();
    if (phases.empty()) {
      phases = ordered(busiest(false), compute_order);
      for (PhaseSpan& phase : ordered(busiest(true), communication_order)) phases.push_back(std::move(phase));
    }
    for (const PhaseSpan& phase : phases)
      writer_.add(phase.span, phase.name, model::phase_depth, phase.span.start_ps, phase.span.end_ps());
  }

  PhaseSpan phase_from(const TracedKernel& first, std::string_view name) const {
    return {{.stream = stream_of(first.kernel.queue),
             .layer = first.layer,
             .start_ps = first.start_ps,
             .layer_pair = pair_of(first)},
            std::string(name)};
  }

  static void extend(model::Span& span, const TracedKernel& traced) {
    const std::int64_t end = std::max(span.end_ps(), end_of(traced));
    span.start_ps = std::min(span.start_ps, traced.start_ps);
    span.duration_ps = end - span.start_ps;
  }

  std::vector<PhaseSpan> annotated() const {
    std::vector<PhaseSpan> phases;
    for (const TracedKernel& traced : kernels_) {
      const std::int32_t pair = pair_of(traced);
      const std::string& name = traced.kernel.section;
      if (name.empty() || pair < 0) continue;
      const auto same = [&](const PhaseSpan& phase) { return phase.name == name && phase.span.layer_pair == pair; };
      auto found = std::ranges::find_if(phases, same);
      if (found == phases.end()) found = phases.insert(found, phase_from(traced, name));
      extend(found->span, traced);
    }
    return phases;
  }

  // Returns the runs of consecutive kernels of one phase and layer on a queue, named by the order of phases in a pair
  // of layers; empty when they have another order.
  std::vector<PhaseSpan> ordered(const std::vector<std::size_t>& kernels, std::span<const NamedPhase> order) const {
    std::vector<PhaseSpan> phases;
    const TracedKernel* previous = nullptr;
    for (const std::size_t i : kernels) {
      const TracedKernel& traced = kernels_[i];
      if (previous == nullptr || previous->kernel.phase != traced.kernel.phase || previous->layer != traced.layer) {
        const NamedPhase& expected = order[phases.size() % order.size()];
        const auto pair = static_cast<std::int32_t>(phases.size() / order.size());
        if (traced.kernel.phase != expected.phase || pair_of(traced) != pair) return {};
        phases.push_back(phase_from(traced, expected.name));
      }
      extend(phases.back().span, traced);
      previous = &traced;
    }
    return phases.size() == order.size() * static_cast<std::size_t>(pairs_) ? phases : std::vector<PhaseSpan>{};
  }

  // Returns the kernels of the busiest queue among those that communicate, or those that do not.
  std::vector<std::size_t> busiest(bool communicates) const {
    const Queue* most = nullptr;
    for (const auto& [number, queue] : queues_)
      if (queue.communicates == communicates && queue.busy_ps > (most == nullptr ? 0 : most->busy_ps)) most = &queue;
    return most == nullptr ? std::vector<std::size_t>{} : most->kernels;
  }

  std::vector<TracedKernel> kernels_;
  std::map<std::int32_t, Queue> queues_;  // by number
  std::int32_t pairs_ = 0;
  model::TimelineWriter writer_;
};

}  // namespace

model::Timeline kernel_timeline(std::vector<TracedKernel> kernels, const KernelClasses& classes) {
  return TracedChunk(std::move(kernels), classes).timeline();
}

std::vector<const model::Span*> kernel_spans(const model::Timeline& timeline) {
  std::vector<const model::Span*> spans(timeline.kernels.size());
  for (const model::Span& span : timeline.spans)
    if (span.kernel >= 0) spans[static_cast<std::size_t>(span.kernel)] = &span;
  return spans;
}

std::map<std::string, double> idle_seconds(const model::Timeline& timeline) {
  std::vector<const model::Span*> spans = kernel_spans(timeline);
  std::ranges::stable_sort(spans, {}, &model::Span::start_ps);
  std::map<std::string, double> seconds;
  std::int64_t end_ps = spans.empty() ? 0 : spans.front()->start_ps;
  for (const model::Span* span : spans) {
    if (span->start_ps > end_ps) {
      const std::string_view cause = note_value(timeline.kernel_of(*span).note, "wait");
      seconds[cause.empty() ? "launch gaps" : std::string(cause)] +=
          static_cast<double>(span->start_ps - end_ps) * 1e-12;
    }
    end_ps = std::max(end_ps, span->end_ps());
  }
  return seconds;
}

std::string_view note_value(std::string_view note, std::string_view key) {
  while (!note.empty()) {
    const std::string_view word = note.substr(0, note.find(' '));
    note.remove_prefix(std::min(word.size() + 1, note.size()));
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=')
      return word.substr(key.size() + 1);
  }
  return {};
}

}  // namespace plumbline::calibrate
