// Small copies to the host, for checks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

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

}  // namespace plumbline::real::cuda
