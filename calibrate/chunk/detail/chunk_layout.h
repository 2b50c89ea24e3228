// What the kernels of a measured chunk are to each other: streams, slots, phases.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/chunk/chunk_summary.h"
#include "calibrate/chunk/intervals.h"
#include "calibrate/import/kernel_classes.h"

namespace plumbline::calibrate::detail {

// The rows of communication between ranks.
bool is_communication(std::string_view row);

struct ChunkLayout {
  int slots = 0;                   // 0: layers or phases are not known
  std::vector<std::string> rows;   // per kernel: of comparisons
  std::vector<bool> communicates;  // per kernel: it runs on a stream whose time is mostly communication
  std::vector<Interval> occupied;  // per kernel: with the launch gap after it
};

ChunkLayout layout_of(const Chunk& chunk, const KernelClasses& classes);

// The pair of layers that a kernel belongs to: forward layer s runs beside backward layer slots - 1 - s. -1: not known.
int slot_of(const ChunkKernel& kernel, int slots);

// The value of a word "key=value" of a note; empty when it has none.
std::string_view note_value(std::string_view note, std::string_view key);

// Phases of every slot, by start: as annotations name them (section=attn(F)), else by DualPipe's order of phases on
// the busiest compute stream and the busiest communication stream. Empty when neither applies.
std::vector<ChunkSummary::Span> spans_of(const Chunk& chunk, const ChunkLayout& layout);

}  // namespace plumbline::calibrate::detail
