#include "calibrate/chunk/detail/chunk_layout.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

namespace plumbline::calibrate::detail {
namespace {

using Span = ChunkSummary::Span;

struct NamedPhase {
  std::string_view name, phase;
};
// DualPipe's order within a slot (docs/architecture.md; model/program/slot_template.h).
constexpr std::array<NamedPhase, 6> compute_order = {
    {{"attn(F)", "F"}, {"mlp(B)", "B"}, {"mlp(W)", "W"}, {"mlp(F)", "F"}, {"attn(B)", "B"}, {"attn(W)", "W"}}};
constexpr std::array<NamedPhase, 4> communication_order = {
    {{"combine(B)", "B"}, {"dispatch(F)", "F"}, {"dispatch(B)", "B"}, {"combine(F)", "F"}}};

// The kernels of each stream in order of start, as indices.
std::map<int, std::vector<std::size_t>> streams_of(const Chunk& chunk) {
  std::map<int, std::vector<std::size_t>> streams;
  for (std::size_t i = 0; i < chunk.kernels.size(); ++i) streams[chunk.kernels[i].stream].push_back(i);
  for (auto& [stream, kernels] : streams)
    std::ranges::stable_sort(kernels, {}, [&](std::size_t i) { return chunk.kernels[i].start; });
  return streams;
}

// A number that no stage has layers stands for something else.
constexpr int most_layers = 4096;

int slots_of(const Chunk& chunk) {
  int last = -1;
  for (const ChunkKernel& kernel : chunk.kernels)
    if (!kernel.phase.empty()) last = std::max(last, kernel.layer);
  return last < most_layers ? last + 1 : 0;
}

Interval occupied_by(const ChunkKernel& kernel, const ChunkKernel* next) {
  const double end = kernel.start + kernel.duration;
  const bool launched = next != nullptr && next->start > end && next->start - end <= launch_gap_limit;
  return {kernel.start, launched ? next->start : end};
}

std::vector<Span> annotated_spans(const Chunk& chunk, int slots) {
  std::vector<Span> spans;
  for (const ChunkKernel& kernel : chunk.kernels) {
    const std::string_view name = note_value(kernel.note, "section");
    const int slot = slot_of(kernel, slots);
    if (name.empty() || slot < 0) continue;
    const double end = kernel.start + kernel.duration;
    const auto same = [&](const Span& span) { return span.name == name && span.slot == slot; };
    const auto found = std::ranges::find_if(spans, same);
    if (found == spans.end()) {
      spans.push_back({std::string(name), slot, kernel.start, end});
    } else {
      found->start = std::min(found->start, kernel.start);
      found->end = std::max(found->end, end);
    }
  }
  return spans;
}

// Runs of kernels of one phase and layer that follow each other on a stream, named by the order of phases in a slot;
// nothing when they do not come in that order.
std::vector<Span> ordered_spans(const Chunk& chunk, const std::vector<std::size_t>& stream, int slots,
                                std::span<const NamedPhase> order) {
  std::vector<Span> spans;
  const ChunkKernel* previous = nullptr;
  for (const std::size_t i : stream) {
    const ChunkKernel& kernel = chunk.kernels[i];
    if (previous == nullptr || previous->phase != kernel.phase || previous->layer != kernel.layer) {
      const NamedPhase& expected = order[spans.size() % order.size()];
      const int slot = static_cast<int>(spans.size() / order.size());
      if (kernel.phase != expected.phase || slot_of(kernel, slots) != slot) return {};
      spans.push_back({std::string(expected.name), slot, kernel.start, 0});
    }
    spans.back().end = std::max(spans.back().end, kernel.start + kernel.duration);
    previous = &kernel;
  }
  return spans.size() == order.size() * static_cast<std::size_t>(slots) ? spans : std::vector<Span>{};
}

// The kernels of the busiest stream that does, or does not, communicate.
std::vector<std::size_t> busiest(const Chunk& chunk, const ChunkLayout& layout, bool communicates) {
  std::vector<std::size_t> found;
  double most = 0;
  for (const auto& [stream, kernels] : streams_of(chunk)) {
    double busy = 0;
    for (const std::size_t i : kernels) busy += chunk.kernels[i].duration;
    if (layout.communicates[kernels.front()] != communicates || busy <= most) continue;
    most = busy;
    found = kernels;
  }
  return found;
}

}  // namespace

bool is_communication(std::string_view row) {
  constexpr std::array<std::string_view, 5> rows = {"dispatch", "combine", "notify", "layout", "collective"};
  return std::ranges::find(rows, row) != rows.end();
}

ChunkLayout layout_of(const Chunk& chunk, const KernelClasses& classes) {
  ChunkLayout layout;
  layout.slots = slots_of(chunk);
  layout.communicates.resize(chunk.kernels.size());
  layout.occupied.resize(chunk.kernels.size());
  for (const ChunkKernel& kernel : chunk.kernels) layout.rows.emplace_back(classes.compare_row(kernel.class_name));
  for (const auto& [stream, kernels] : streams_of(chunk)) {
    double communication = 0;
    double all = 0;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const ChunkKernel& kernel = chunk.kernels[kernels[i]];
      const ChunkKernel* next = i + 1 < kernels.size() ? &chunk.kernels[kernels[i + 1]] : nullptr;
      layout.occupied[kernels[i]] = occupied_by(kernel, next);
      all += kernel.duration;
      if (is_communication(layout.rows[kernels[i]])) communication += kernel.duration;
    }
    for (const std::size_t i : kernels) layout.communicates[i] = communication > all / 2;
  }
  return layout;
}

int slot_of(const ChunkKernel& kernel, int slots) {
  if (kernel.phase.empty() || kernel.layer < 0 || slots == 0) return -1;
  return kernel.phase == "F" ? kernel.layer : slots - 1 - kernel.layer;
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

std::vector<Span> spans_of(const Chunk& chunk, const ChunkLayout& layout) {
  if (layout.slots == 0) return {};
  std::vector<Span> spans = annotated_spans(chunk, layout.slots);
  if (spans.empty()) {
    spans = ordered_spans(chunk, busiest(chunk, layout, false), layout.slots, compute_order);
    for (Span& span : ordered_spans(chunk, busiest(chunk, layout, true), layout.slots, communication_order))
      spans.push_back(std::move(span));
  }
  std::ranges::stable_sort(spans, {}, &Span::start);
  return spans;
}

}  // namespace plumbline::calibrate::detail
