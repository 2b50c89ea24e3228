// The stream that runs the attention of a step, and the attention kernels in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/import/kineto/detail/places/anchors.h"
#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

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
