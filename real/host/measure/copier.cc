#include "real/host/measure/copier.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

namespace plumbline::real::host {
namespace {

// More than the caches of common processors hold, so that copies go through memory.
constexpr std::size_t copied_floats = std::size_t{1} << 24;
// Between two looks at whether to stop: short against what is measured.
constexpr std::size_t chunk_floats = std::size_t{1} << 16;

}  // namespace

Copier::Copier(int cores) : cores_(cores), from_(copied_floats, 1.0F), to_(copied_floats, 0.0F) {}

void Copier::copy() {
  const auto start = std::chrono::steady_clock::now();
  bytes_ = 0;
  begun_ = true;
  for (std::size_t at = 0; !stopped_; at = (at + chunk_floats) % copied_floats) {
    cores_.split(chunk_floats, 1, [&](Index begin, Index end) {
      std::copy_n(from_.data() + at + static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin),
                  to_.data() + at + static_cast<std::size_t>(begin));
    });
    bytes_ += static_cast<double>(chunk_floats * sizeof(float));
  }
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Copier::start(HostDevice& device, std::uint32_t label) {
  begun_ = stopped_ = false;
  device.enqueue(model::Stream::communication, {[this](StreamClock&) { copy(); }, [](StreamClock&) {}, label});
}

void Copier::enqueue_begun(HostDevice& device, std::uint32_t label) {
  const auto wait = [this](StreamClock&) {
    while (!begun_) std::this_thread::yield();
  };
  device.enqueue(model::Stream::compute, {wait, [](StreamClock&) {}, label});
}

void Copier::enqueue_stop(HostDevice& device, std::uint32_t label) {
  device.enqueue(model::Stream::compute, {[this](StreamClock&) { stopped_ = true; }, [](StreamClock&) {}, label});
}

}  // namespace plumbline::real::host
