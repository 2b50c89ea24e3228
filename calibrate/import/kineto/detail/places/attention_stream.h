// The stream that runs the attention of a step, and the attention kernels in it, from which layers and passes are
// counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

// The kernels of one stream in order: what each is, as equal numbers for equal kinds of work.
using Symbols = std::vector<std::uint32_t>;

enum class Attention : std::uint8_t { forward, recomputed, backward };

// Kernels of one attention without a GEMM between them, as indices of the stream's kernels.
struct Anchor {
  std::size_t first = 0, last = 0;
  Attention kind = Attention::forward;
  int layer = -1;  // within its chunk; -1: unknown
  int pass = -1;   // of a chunk, forward and backward counted apart
};

struct Passes {
  int layers = 0;  // of a chunk; 0: not found
  int forward = 0, backward = 0;
  bool recomputes = false, regular = false, ambiguous = false;
};

// Marks the forwards that run again directly before their backward: as many as forwards exceed backwards. Where the
// step is not `whole`, forwards may lack their backward, so that only those that alternate with backwards count.
void mark_recomputed(std::vector<Anchor>& anchors, bool whole);

// Numbers layers and passes. Runs of forwards and of backwards hold whole passes; a run of several passes is divided
// where `symbols` between two anchors repeats with a period. Forward layers ascend, backward layers descend. Of a step
// that is not `whole` the last run may be cut off, and the first one where it is backward. Attention that alternates is
// ambiguous, unless `passes_end` shows that each pass ends in front of the next.
Passes number_layers(std::vector<Anchor>& anchors, const Symbols& symbols, bool whole, bool passes_end);

struct AttentionStream {
  std::vector<std::size_t> items;  // its kernels by start: indices of the work
  Symbols symbols;                 // of each kernel, by class, without one by name
  std::set<std::uint32_t> gemm_symbols, norm_symbols;
  std::vector<Anchor> anchors;

  bool is_gemm(std::size_t item) const { return gemm_symbols.contains(symbols[item]); }
};

// Returns the stream with the most time in attention. The work is given as indices into trace.work, with the class of
// each piece, "" where it is unknown. Without a kernel of an attention class, softmax kernels count.
AttentionStream attention_stream(const Trace& trace, const std::vector<std::size_t>& work,
                                 const std::vector<std::string_view>& class_names);

// Makes a recomputed attention without a GEMM before its backward a part of that: only the attention runs again.
// Returns the first and last kernel of each.
std::vector<std::pair<std::size_t, std::size_t>> join_recomputed(AttentionStream& stream);

}  // namespace plumbline::calibrate
