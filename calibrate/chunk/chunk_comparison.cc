#include "calibrate/chunk/chunk_comparison.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "calibrate/chunk/kernel_timeline.h"

namespace plumbline::calibrate {
namespace {

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
    if (span->layer_pair >= 0 && timeline.kernels[static_cast<std::size_t>(span->kernel)].row == "notify")
      seconds[static_cast<std::size_t>(span->layer_pair)] += static_cast<double>(span->duration_ps) * 1e-12;
  return seconds;
}

}  // namespace

sim::ChunkRank rank_of(const model::Timeline& measured, bool measured_waits) {
  using Spans = std::vector<const model::Span*>;
  sim::ChunkRank rank;
  rank.slots.resize(static_cast<std::size_t>(measured.layer_pairs));
  // Barriers of each slot in order of start: backward those of combine(B), dispatch(B), forward of dispatch(F),
  // combine(F).
  std::vector<Spans> forward(rank.slots.size()), backward(rank.slots.size());
  for (const model::Span* span : kernel_spans(measured)) {
    if (span->layer_pair < 0) continue;
    const model::Kernel& kernel = measured.kernels[static_cast<std::size_t>(span->kernel)];
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
    const auto wait = [](const model::Span* span) { return static_cast<double>(span->duration_ps) * 1e-12; };
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
