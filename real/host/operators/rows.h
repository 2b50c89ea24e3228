// Helpers that operators share: division of rows over the cores of the stream, scratch memory, rows as arrays.
#pragma once

#include <algorithm>
#include <functional>

#include "real/host/operators/call.h"

namespace plumbline::real::host {

// Returns uninitialized memory of the calling thread, which is reused from call to call; each purpose has its own. It
// is aligned to SIMD vectors like buffers, because alignment decides the order in which Eigen adds elements.
enum class Scratch { scores, score_gradients, sums, tokens };
template <Scratch purpose>
float* scratch(Index floats) {
  thread_local Eigen::ArrayXf memory;
  if (memory.size() < floats) memory.resize(floats);
  return memory.data();
}

// The fewest floats that are worth another core: one core processes 16 KiB in about the time that waking another takes
// (assumed).
inline constexpr Index smallest_part = 4096;

// Calls body(begin, end) for parts of 0..n on the cores of the stream; each item processes about `floats` floats.
template <class Body>
void split(const Call& call, Index n, Index floats, const Body& body) {
  if (call.cores.count() == 1) return body(Index{0}, n);
  const Index grain = std::max<Index>(1, smallest_part / std::max<Index>(floats, 1));
  call.cores.split(n, grain, std::cref(body));  // by reference: a function object would be copied to the heap
}

// Calls body(i) for rows 0 .. n - 1 in the same way.
template <class Body>
void each_row(const Call& call, Index n, Index floats, const Body& body) {
  split(call, n, floats, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) body(i);
  });
}

// Sums over n rows of `width` floats. body(begin, end, sums) adds rows to zeroed sums; add(sums) receives the sums of
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

// Returns row i of a matrix of `width` columns.
inline ConstArrayMap row(const HostBuffer& buffer, Index i, Index width) { return {buffer.data() + i * width, width}; }
inline ArrayMap row(HostBuffer& buffer, Index i, Index width) { return {buffer.data() + i * width, width}; }
inline ConstArrayMap row(const HostBuffer& buffer, Index i) { return row(buffer, i, buffer.columns()); }
inline ArrayMap row(HostBuffer& buffer, Index i) { return row(buffer, i, buffer.columns()); }

// Returns the position of token t of sequences of `length` tokens, before which each has as many as `earlier` counts.
inline Index position(Index t, Index length, const HostBuffer* earlier) {
  return t % length + (earlier != nullptr ? static_cast<Index>(earlier->data()[t / length]) : 0);
}

// Returns an operator's output, resized to `rows`, which routing decides.
inline HostBuffer& shaped(HostBuffer& out, Index rows) {
  if (out.rows() != rows) out.resize(rows);
  return out;
}

}  // namespace plumbline::real::host
