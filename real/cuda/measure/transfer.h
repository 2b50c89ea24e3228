// Small copies to the host, for checks.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// Copies `count` elements. It waits only for earlier work on blocking streams: synchronize the stream that wrote first.
template <typename Element>
Status fetch(const Element* from, std::int64_t count, std::vector<Element>& to) {
  to.resize(static_cast<std::size_t>(count));
  const std::size_t bytes = to.size() * sizeof(Element);
  return outcome(cudaMemcpy(to.data(), from, bytes, cudaMemcpyDeviceToHost), "copying to the host");
}

// Copies every `stride`-th element from `from` on.
template <typename Element>
Status fetch_strided(const Element* from, std::int64_t count, std::int64_t stride, std::vector<Element>& to) {
  if (stride == 1) return fetch(from, count, to);
  to.resize(static_cast<std::size_t>(count));
  return outcome(cudaMemcpy2D(to.data(), sizeof(Element), from, static_cast<std::size_t>(stride) * sizeof(Element),
                              sizeof(Element), static_cast<std::size_t>(count), cudaMemcpyDeviceToHost),
                 "copying to the host");
}

// Copies elements from the `first` one of a tensor on, and converts them to numbers.
template <typename Element, typename Convert>
Status fetch_numbers(const void* tensor, std::int64_t first, std::int64_t count, std::int64_t stride, Convert convert,
                     std::vector<double>& numbers) {
  std::vector<Element> raw;
  PLUMBLINE_TRY(fetch_strided(static_cast<const Element*>(tensor) + first, count, stride, raw));
  numbers.resize(raw.size());
  std::transform(raw.begin(), raw.end(), numbers.begin(), convert);
  return {};
}
inline Status fetch_bf16(const void* tensor, std::int64_t first, std::int64_t count, std::vector<double>& numbers) {
  return fetch_numbers<Bf16>(tensor, first, count, 1, bf16_to_float, numbers);
}

}  // namespace plumbline::real::cuda
