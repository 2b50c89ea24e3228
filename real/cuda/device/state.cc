#include "real/cuda/device/state.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "real/cuda/device/host_copy.h"
#include "real/cuda/device/parameters.h"
#include "real/cuda/kernels/cast.h"
#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {

namespace {

// Of whole numbers that may be the offsets of experts: they begin at 0 and do not fall.
std::vector<std::int64_t> known_offsets(const CudaBuffer& buffer, std::span<const float> values) {
  if (buffer.format() != Format::int32 || buffer.columns() != 1 || values.empty()) return {};
  if (values.front() != 0 || !std::ranges::is_sorted(values)) return {};
  return {values.begin(), values.end()};
}

}  // namespace

void CudaDevice::State::fail_if_not(Status status) {
  if (failure.ok() && !status.ok()) failure = std::move(status);
}

Status CudaDevice::State::open(const DeviceOptions& options) {
  PLUMBLINE_TRY(machine.open(options.ordinal, library_folders(options.library_folders)));
  target_sms = options.target_sms;
  for (std::size_t i = 0; i < lane_kinds; ++i) {
    const auto kind = static_cast<LaneKind>(i);
    const bool carries_data = kind == LaneKind::communication || kind == LaneKind::collective;
    PLUMBLINE_TRY(lanes[i].open(pool, carries_data));
  }
  return clock.open(copies());
}

Status CudaDevice::State::drain() {
  for (Lane& lane : lanes) PLUMBLINE_TRY(lane.drain());
  return {};
}

Status CudaDevice::State::settle() {
  PLUMBLINE_TRY(drain());
  for (Lane& lane : lanes) PLUMBLINE_TRY(lane.take_records(clock, records));
  first_event += events.size();
  events.clear();
  pool.take_back();
  return clock.restart();
}

Status CudaDevice::State::write(CudaBuffer& buffer, std::span<const float> values) {
  if (buffer.source) {
    PLUMBLINE_TRY(write(*buffer.source->stored, values));
    PLUMBLINE_TRY(cuda::refresh(buffer, copies()));
    return outcome(cudaStreamSynchronize(copies()), "casting a parameter");
  }
  PLUMBLINE_TRY(drain());
  PLUMBLINE_TRY(upload(values, buffer.view(), copies()));
  buffer.mark_changed();
  buffer.known = known_offsets(buffer, values);
  buffer.positions.reset();
  return {};
}

// The stream's end is waited for: other streams read what is written without an event.
Status CudaDevice::State::copy(const CudaBuffer& flat, std::int64_t first, std::int64_t elements, CudaBuffer& to) {
  PLUMBLINE_TRY(drain());
  TensorView from = flat.view();
  from.data = static_cast<std::byte*>(from.data) + data_bytes(from.format, first);
  from.rows = elements;
  PLUMBLINE_TRY(outcome(cast(from, to.view(), copies()), "copying a tensor"));
  to.mark_changed();
  return outcome(cudaStreamSynchronize(copies()), "copying a tensor");
}

Status CudaDevice::State::read(const CudaBuffer& buffer, std::span<float> values) {
  PLUMBLINE_TRY(drain());
  return download(buffer.view(), values, copies());
}

void CudaDevice::State::refresh(model::Stream stream, const Kernel& kernel) {
  for (Buffer* read : kernel.reads) {
    auto& buffer = static_cast<CudaBuffer&>(*read);
    if (!failure.ok() || !is_behind(buffer)) continue;
    fail_if_not(lane(stream).run([&](cudaStream_t on) { return cuda::refresh(buffer, on); }));
  }
}

}  // namespace plumbline::real::cuda
