// Threads that copy through memory beside what is measured, as transfers and other ranks do.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "real/host/cores.h"
#include "real/host/device.h"

namespace plumbline::real::host {

class Copier {
 public:
  explicit Copier(int cores);

  // Copies from when it starts until stop(), on the communication stream of the device.
  void start(HostDevice& device, std::uint32_t label);
  // On the compute stream: what is launched behind waits until copying has begun, and what was launched before this
  // ends it.
  void enqueue_begun(HostDevice& device, std::uint32_t label);
  void enqueue_stop(HostDevice& device, std::uint32_t label);

  double rate() const { return seconds_ > 0 ? bytes_ / seconds_ : 0; }  // bytes copied per second of the last run

 private:
  void copy();

  Cores cores_;
  std::vector<float> from_, to_;
  std::atomic<bool> begun_ = false, stopped_ = false;
  double bytes_ = 0, seconds_ = 0;
};

}  // namespace plumbline::real::host
