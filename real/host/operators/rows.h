// What operators share: their rows among the cores of the stream, memory that lasts for one call, rows as arrays.
#pragma once

#include <algorithm>
#include <functional>

#include "real/host/operators/call.h"

namespace plumbline::real::host {

// Memory of the calling thread that keeps its size from call to call; each purpose has its own. Not cleared. It begins
// at a whole vector, as buffers do: where it began would otherwise decide in which order Eigen adds what lies in it.
enum class Scratch { scores, score_gradients, sums, tokens };
template <Scratch purpose>
float* scratch(Index floats) {
  thread_local Eigen::ArrayXf memory;
  if (memory.size() < floats) memory.resize(floats);
  return memory.data();
}

// Less than so many floats are not worth another core: 16 KiB pass through one in about the time that it takes to wake
// another (assumed).
inline constexpr Index smallest_part = 4096;

// body(begin, end) for parts of 0..n on the cores of the stream; each of the n costs about `floats`.
template <class Body>
void split(const Call& call, Index n, Index floats, const Body& body) {
  if (call.cores.count() == 1) return body(Index{0}, n);
  const Index grain = std::max<Index>(1, smallest_part / std::max<Index>(floats, 1));
  call.cores.split(n, grain, std::cref(body));  // by reference: a function object would be copied to the heap
}

// Sums over n rows of `width` floats: body(begin, end, sums) adds to sums, which begin at 0, add(sums) takes those of
// each core in turn.
template <class Body, class Add>
void sum_rows(const Call& call, Index n, Index width, const Body& body, const Add& add) {
  const Index parts = std::clamp<Index>(n * width / smallest_part, 1, call.cores.count());
  float* const sums = scratch<Scratch::sums>(parts * width);
  std::fill_n(sums, parts * width, 0.0F);
  split(call, parts, smallest_part, [&](Index begin, Index end) {
    for (Index part = begin; part < end; ++part) body(n * part / parts, n * (part + 1) / parts, sums + part * width);
  });
  for (Index part = 0; part < parts; ++part) add(sums + part * width);
}

// Row i of a matrix of `width` columns.
inline ConstArrayMap row(const HostBuffer& buffer, Index i, Index width) { return {buffer.data() + i * width, width}; }
inline ArrayMap row(HostBuffer& buffer, Index i, Index width) { return {buffer.data() + i * width, width}; }
inline ConstArrayMap row(const HostBuffer& buffer, Index i) { return row(buffer, i, buffer.columns()); }
inline ArrayMap row(HostBuffer& buffer, Index i) { return row(buffer, i, buffer.columns()); }

// What an operator writes, with as many rows as routing made what it reads.
inline HostBuffer& shaped(HostBuffer& out, Index rows) {
  if (out.rows() != rows) out.resize(rows);
  return out;
}

}  // namespace plumbline::real::host
