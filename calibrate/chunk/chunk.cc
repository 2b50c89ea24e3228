#include "calibrate/chunk/chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "calibrate/measurement/csv_table.h"
#include "model/base/statistics.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/result/comparison.h"

namespace plumbline::calibrate {
namespace {

struct NamedPhase {
  std::string_view name, phase;
};
// DualPipe's order within a slot (docs/architecture.md; model/program/compile.h).
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

constexpr double ps_per_us = 1e6, us_per_s = 1e6;

enum ChunkColumn : std::size_t { index, stream, class_name, phase, layer, start, duration, grid, note, column_count };
constexpr std::array<std::string_view, column_count> column_names = {
    "index", "stream", "class", "phase", "layer", "start_us", "dur_us", "grid_ctas", "note"};

constexpr std::array<std::string_view, 5> known_phases = {"", "F", "B", "I", "W"};

// Reads the rows of a kernel trace; stops at the first error.
class ChunkReader {
 public:
  ChunkReader(const CsvTable& table, const std::string& path) : table_(table), path_(path) {}

  model::Result<std::vector<TracedKernel>> read() {
    for (const std::string& column : table_.columns())
      if (std::ranges::find(column_names, column) == column_names.end())
        return model::wrong_input_at(path_, table_.header_line(), column, "unknown column",
                                     model::known_names(column, {column_names.begin(), column_names.end()}));
    TRY(table_.require({column_names.begin(), column_names.end()}));
    if (table_.rows() == 0) return model::wrong_input_at(path_, 0, "", "no kernel in it");
    std::vector<TracedKernel> kernels(table_.rows());
    for (; row_ < kernels.size(); ++row_) TRY(read(kernels[row_]));
    return kernels;
  }

 private:
  model::Result<void> read(TracedKernel& traced) {
    model::Kernel& kernel = traced.kernel;
    const int place = TRY(integer(index, 0));
    if (place <= last_index_) return wrong(index, "does not rise from line to line");
    last_index_ = place;
    kernel.queue = TRY(integer(stream, std::numeric_limits<int>::min()));
    kernel.class_name = text(class_name);
    if (kernel.class_name.empty()) return wrong(class_name, "is empty", "write other where it is not known");
    kernel.phase = text(phase);
    if (std::ranges::find(known_phases, kernel.phase) == known_phases.end())
      return wrong(phase, fmt::format("'{}' is no phase", kernel.phase), "F, B, I, W or empty");
    traced.layer = TRY(integer(layer, -1));
    traced.start_ps = TRY(picoseconds(start));
    traced.duration_ps = TRY(picoseconds(duration));
    kernel.grid = TRY(integer(grid, 0));
    kernel.note = text(note);
    return {};
  }

  const std::string& text(ChunkColumn column) const { return table_.text(row_, column_names.at(column)); }

  model::Result<int> integer(ChunkColumn column, int lowest) const {
    const auto value = model::parse_number<int>(text(column));
    if (!value) return wrong(column, fmt::format("'{}' is no whole number", text(column)));
    if (*value < lowest) return wrong(column, fmt::format("{} is below {}", *value, lowest));
    return *value;
  }

  model::Result<std::int64_t> picoseconds(ChunkColumn column) const {
    const auto value = model::parse_number<double>(text(column));
    if (!value || !std::isfinite(*value))
      return wrong(column, fmt::format("'{}' is no number", text(column)), "microseconds");
    if (*value < 0) return wrong(column, fmt::format("{} is negative", text(column)));
    if (*value * ps_per_us > static_cast<double>(longest_trace_ps))
      return wrong(column, fmt::format("{} microseconds are more than 46 days", text(column)));
    return std::llround(*value * ps_per_us);
  }

  model::Failure wrong(ChunkColumn column, std::string message, std::string hint = "") const {
    return table_.wrong(row_, column_names.at(column), std::move(message), std::move(hint));
  }

  const CsvTable& table_;
  const std::string& path_;
  std::size_t row_ = 0;
  int last_index_ = -1;
};

// Returns microseconds with at most three digits.
std::string microseconds(std::int64_t ps) {
  constexpr std::int64_t ps_per_ns = 1000, ns_per_us = 1000;
  const std::int64_t ns = (ps + ps_per_ns / 2) / ps_per_ns;
  std::string text = fmt::format("{}.{:03}", ns / ns_per_us, ns % ns_per_us);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// Returns the text without characters that would end its cell or line.
std::string plain_cell(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

double note_number(std::string_view note, std::string_view key) {
  const std::string_view text = note_value(note, key);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool any_rows(const sim::ChunkRank& rank) {
  return std::ranges::any_of(rank.slots,
                             [](const auto& slot) { return slot.forward_rows > 0 || slot.backward_rows > 0; });
}

bool any_waits(const sim::ChunkRank& rank) {
  return std::ranges::any_of(rank.slots, [](const auto& slot) {
    return std::ranges::any_of(slot.waits, [](const auto& wait) { return wait.has_value(); });
  });
}

// Returns the seconds of a timeline's barriers by pair of layers.
std::vector<double> barrier_seconds(const model::Timeline& timeline) {
  std::vector<double> seconds(static_cast<std::size_t>(timeline.layer_pairs));
  for (const model::Span* span : kernel_spans(timeline))
    if (span->layer_pair >= 0 && timeline.kernel_of(*span).row == "notify")
      seconds[static_cast<std::size_t>(span->layer_pair)] += span->seconds();
  return seconds;
}

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

model::Result<model::Timeline> parse_chunk(std::string_view text, const std::string& path,
                                           const KernelClasses& classes) {
  const auto table = TRY(CsvTable::parse(text, path, {}));
  return kernel_timeline(TRY(ChunkReader(table, path).read()), classes);
}

model::Result<model::Timeline> read_chunk(const std::string& path, const KernelClasses& classes) {
  return parse_chunk(TRY(model::read_text_file(path)), path, classes);
}

bool is_chunk(std::string_view text) {
  for (const std::string_view line : model::lines_of(text))
    if (!line.empty() && line.front() != '#')
      return line.find("dur_us") != std::string_view::npos && line.find("grid_ctas") != std::string_view::npos;
  return false;
}

std::string chunk_comment(std::string_view text, std::string_view key) {
  const std::string start = fmt::format("# {}: ", key);
  for (std::string_view line : model::lines_of(text)) {
    if (!line.starts_with(start)) continue;
    line.remove_prefix(start.size());
    const std::string value(line.substr(0, line.find_first_of(",(\r")));
    return value.substr(0, value.find_last_not_of(' ') + 1);
  }
  return "";
}

std::optional<Measurement> launch_gap_record(const model::Timeline& timeline, const std::string& device) {
  std::vector<std::int64_t> gaps;
  for (const model::Kernel& kernel : timeline.kernels)
    if (kernel.gap_ps > 0) gaps.push_back(kernel.gap_ps);
  if (gaps.empty()) return std::nullopt;
  Measurement gap;
  gap.device = device;
  gap.source = "a trace of the PyTorch profiler";
  gap.op = "launch";
  gap.variant = "stream_gap";
  gap.samples = static_cast<std::int64_t>(gaps.size());
  gap.time.p50 = static_cast<double>(model::upper_median(std::move(gaps))) / ps_per_us / us_per_s;
  return gap;
}

model::Result<Measurements> parse_chunk_records(std::string_view text, const std::string& path,
                                                const KernelClasses& classes) {
  const auto timeline = TRY(parse_chunk(text, path, classes));
  Measurements found;
  found.path = path;
  const std::string device = chunk_comment(text, "device");
  if (device.empty() || device == "not named")
    return model::wrong_input_at(path, 0, "", "does not name the device", "add a line '# device: NAME'");
  auto gap = launch_gap_record(timeline, device);
  found.notes.push_back(
      fmt::format("{} kernels of a trace state no shape: only the pauses between them are used, {} of at most {:g} us",
                  timeline.kernels.size(), gap ? *gap->samples : 0, launch_gap_limit * us_per_s));
  if (gap) found.values.push_back(std::move(*gap));
  return found;
}

std::string to_csv(const model::Timeline& timeline, const std::vector<std::string>& comments) {
  std::string out;
  for (const std::string& comment : comments) out += fmt::format("# {}\n", comment);
  out += fmt::format("{}\n", fmt::join(column_names, ","));
  for (const model::Span* span : kernel_spans(timeline)) {
    const model::Kernel& kernel = timeline.kernel_of(*span);
    out += fmt::format("{},{},{},{},{},{},{},{},{}\n", span->kernel, kernel.queue, plain_cell(kernel.class_name),
                       plain_cell(kernel.phase), span->layer, microseconds(span->start_ps),
                       microseconds(span->duration_ps), kernel.grid, plain_cell(kernel.note));
  }
  return out;
}

sim::ChunkRank rank_of(const model::Timeline& measured, bool measured_waits) {
  using Spans = std::vector<const model::Span*>;
  sim::ChunkRank rank;
  rank.slots.resize(static_cast<std::size_t>(measured.layer_pairs));
  // Barriers of each slot in order of start: backward those of combine(B), dispatch(B), forward of dispatch(F),
  // combine(F).
  std::vector<Spans> forward(rank.slots.size()), backward(rank.slots.size());
  for (const model::Span* span : kernel_spans(measured)) {
    if (span->layer_pair < 0) continue;
    const model::Kernel& kernel = measured.kernel_of(*span);
    const auto slot = static_cast<std::size_t>(span->layer_pair);
    const bool is_forward = kernel.phase == "F";
    double& rows = is_forward ? rank.slots[slot].forward_rows : rank.slots[slot].backward_rows;
    if (rows == 0) rows = note_number(kernel.note, "rows");
    if (kernel.row == "notify") (is_forward ? forward : backward)[slot].push_back(span);
  }
  for (std::size_t slot = 0; measured_waits && slot < rank.slots.size(); ++slot) {
    for (Spans* barriers : {&forward[slot], &backward[slot]})
      std::ranges::stable_sort(*barriers, {}, &model::Span::start_ps);
    if (forward[slot].size() != 2 || backward[slot].size() != 2) continue;
    const auto wait = [](const model::Span* span) { return span->seconds(); };
    rank.slots[slot].waits = {wait(backward[slot][0]), wait(forward[slot][0]), wait(backward[slot][1]),
                              wait(forward[slot][1])};
  }
  return rank;
}

model::Result<ChunkComparison> compare_chunk(const model::Timeline& measured, const sim::Inputs& inputs, Waits waits) {
  const auto chunk = TRY(sim::ChunkModel::make(inputs));
  const auto predicted = [&](const sim::ChunkRank& rank) {
    return chunk.run(rank).map([&](const sim::ChunkRun& run) { return model::compare(run.timeline, measured); });
  };
  auto expected = TRY(predicted({}));
  if (!expected.same_slots) return ChunkComparison{std::move(expected)};
  const sim::ChunkRank rank = rank_of(measured, waits == Waits::measured);
  auto times = TRY(predicted(rank));
  return ChunkComparison{std::move(times), any_rows(rank), any_waits(rank), chunk.barriers(),
                         barrier_seconds(measured)};
}

}  // namespace plumbline::calibrate
