#include "real/cuda/measure/detail/reserved_sms.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <vector>

#include "real/cuda/kernels/fill.h"
#include "real/cuda/kernels/measuring/sm_reservation.h"
#include "real/cuda/measure/transfer.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t bytes_per_cta = 16 << 20;  // more than the L2 cache holds with a few CTAs
constexpr double start_timeout_seconds = 2;
constexpr std::uint64_t seed_copied = 51;

}  // namespace

ReservedSms::~ReservedSms() {
  if (!running_) return;
  ReservationReport ignored;
  static_cast<void>(stop(ignored).ok());
}

Status ReservedSms::prepare(const KernelCase& what) {
  ctas_ = static_cast<int>(what.ctas);
  bytes_ = bytes_per_cta * std::max(what.ctas, std::int64_t{8});
  bytes_ -= bytes_ % (16 * what.ctas);
  to_host_memory_ = what.copy_to == "host";
  if (what.copy_gbps == 0) {
    nanoseconds_per_mib_ = -1;
  } else if (what.copy_gbps > 0) {
    // 1 GB/s is a byte per nanosecond, and each of the CTAs moves its share.
    nanoseconds_per_mib_ = (std::int64_t{1} << 20) * what.ctas / what.copy_gbps;
  }
  PLUMBLINE_TRY(from_.allocate(bytes_));
  PLUMBLINE_TRY(to_host_memory_ ? to_host_.allocate(bytes_) : to_.allocate(bytes_));
  PLUMBLINE_TRY(stop_.allocate(16));
  PLUMBLINE_TRY(report_.allocate(what.ctas * reservation_report_entries * 8));
  PLUMBLINE_TRY(started_.allocate(what.ctas * 4));
  PLUMBLINE_TRY(stop_value_.allocate(4));
  PLUMBLINE_TRY(outcome(fill_float(from_.as<float>(), bytes_ / 4, seed_copied, 1.0f, tools_.stream), "filling"));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "filling"));
  // Loads the kernel's code here, while nothing runs: later it would wait for running kernels.
  PLUMBLINE_TRY(start(0));
  ReservationReport ignored;
  return stop(ignored);
}

Status ReservedSms::signal_stop(int value) {
  *stop_value_.as<int>() = value;
  PLUMBLINE_TRY(
      outcome(cudaMemcpyAsync(stop_.as<void>(), stop_value_.as<void>(), 4, cudaMemcpyHostToDevice, tools_.control),
              "signalling the copy kernel"));
  return outcome(cudaStreamSynchronize(tools_.control), "signalling the copy kernel");
}

Status ReservedSms::start(double deadline_seconds) {
  PLUMBLINE_TRY(signal_stop(0));
  std::memset(started_.as<int>(), 0, static_cast<std::size_t>(ctas_) * 4);
  deadline_ns_ = static_cast<std::int64_t>(deadline_seconds * 1e9);
  SmReservation reservation;
  reservation.from = from_.as<void>();
  reservation.to = to_host_memory_ ? to_host_.as<void>() : to_.as<void>();
  reservation.bytes = bytes_;
  reservation.nanoseconds_per_mib = nanoseconds_per_mib_;
  reservation.deadline = deadline_ns_;
  reservation.stop = stop_.as<int>();
  reservation.started = started_.as<int>();
  reservation.report = report_.as<std::int64_t>();
  PLUMBLINE_TRY(
      outcome(reserve_sms(reservation, ctas_, tools_.largest_dynamic_shared, stream_), "starting the copy kernel"));
  running_ = true;
  const auto* started = started_.as<volatile int>();
  const auto begin = std::chrono::steady_clock::now();
  while (std::any_of(started, started + ctas_, [](int flag) { return flag == 0; })) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() > start_timeout_seconds) return {"the copy kernel's blocks do not all start at once"};
  }
  return {};
}

Status ReservedSms::stop(ReservationReport& report) {
  running_ = false;
  PLUMBLINE_TRY(signal_stop(1));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(stream_), "stopping the copy kernel"));
  std::vector<std::int64_t> entries;
  PLUMBLINE_TRY(fetch(report_.as<std::int64_t>(), std::int64_t{ctas_} * reservation_report_entries, entries));
  std::set<std::int64_t> sms;
  report = {};
  for (std::size_t i = 0; i < entries.size(); i += reservation_report_entries) {
    // Bytes per nanosecond are GB/s.
    report.payload_gbps +=
        static_cast<double>(entries[i]) / static_cast<double>(std::max<std::int64_t>(entries[i + 1], 1));
    report.ended_early = report.ended_early || entries[i + 1] >= deadline_ns_;
    sms.insert(entries[i + 2]);
  }
  report.own_sms = static_cast<int>(sms.size()) == ctas_;
  return {};
}

}  // namespace plumbline::real::cuda
