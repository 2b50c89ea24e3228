// A kernel alone and overlapped with a copy kernel that reserves some of the SMs, in turns.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/timing.h"
#include "real/cuda/measure/toolbox.h"
#include "real/cuda/measure/transfer.h"
#include "real/cuda/status.h"
#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real::cuda {
namespace {

struct ReservationReport {
  double payload_gbps = 0;   // of all blocks together
  bool own_sms = false;      // every block had an SM of its own
  bool ended_early = false;  // a block reached its deadline before it was stopped
};

constexpr std::int64_t bytes_per_cta = 16 << 20;  // more than the L2 cache holds with a few CTAs
constexpr double start_timeout_seconds = 2;
constexpr std::uint64_t seed_copied = 51;

// A running copy kernel that reserves SMs, as communication kernels do. It ends when it is stopped, and after a
// deadline at the latest, so that nothing can hang.
class ReservedSms {
 public:
  // The kernel runs on `stream`, which must have no other work.
  ReservedSms(Toolbox& tools, cudaStream_t stream) : tools_(tools), stream_(stream) {}
  // Stops the kernel if it still runs.
  ~ReservedSms() {
    if (!running_) return;
    ReservationReport ignored;
    static_cast<void>(stop(ignored).ok());
  }

  ReservedSms(const ReservedSms&) = delete;
  ReservedSms& operator=(const ReservedSms&) = delete;

  // Allocates; no kernel runs yet. Afterwards only start and stop are called, which allocate nothing: an allocation
  // waits for all kernels.
  Status prepare(const KernelCase& what) {
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

  // Starts the kernel and returns once every block runs. It fails if they do not all fit on the device.
  Status start(double deadline_seconds) {
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

  Status stop(ReservationReport& report) {
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

 private:
  Status signal_stop(int value) {
    *stop_value_.as<int>() = value;
    PLUMBLINE_TRY(
        outcome(cudaMemcpyAsync(stop_.as<void>(), stop_value_.as<void>(), 4, cudaMemcpyHostToDevice, tools_.control),
                "signalling the copy kernel"));
    return outcome(cudaStreamSynchronize(tools_.control), "signalling the copy kernel");
  }

  Toolbox& tools_;
  cudaStream_t stream_;
  int ctas_ = 0;
  std::int64_t bytes_ = 0, nanoseconds_per_mib_ = 0, deadline_ns_ = 0;
  bool running_ = false;
  DeviceMemory from_, to_, stop_, report_;
  PinnedMemory to_host_, started_, stop_value_;
  bool to_host_memory_ = false;
};

// The driver's functions, obtained through the runtime, because nothing links libcuda. Each number is the CUDA version
// that introduced the function.
struct Driver {
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuGetErrorString) error_string = nullptr;
  decltype(&::cuDeviceGetDevResource) device_resource = nullptr;
  decltype(&::cuDevSmResourceSplitByCount) split = nullptr;
  decltype(&::cuDevResourceGenerateDesc) describe = nullptr;
  decltype(&::cuGreenCtxCreate) create = nullptr;
  decltype(&::cuGreenCtxDestroy) destroy = nullptr;
  decltype(&::cuGreenCtxStreamCreate) stream_create = nullptr;

  template <typename Function>
  static Status load(Function*& function, const char* name, unsigned version) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
    function = reinterpret_cast<Function*>(found);
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess && found != nullptr) return {};
    cudaGetLastError();
    return {std::string("green contexts need a driver of CUDA 12.5 or newer: it has no ") + name};
  }

  Status open() {
    PLUMBLINE_TRY(load(device_get, "cuDeviceGet", 2000));
    PLUMBLINE_TRY(load(error_string, "cuGetErrorString", 6000));
    PLUMBLINE_TRY(load(device_resource, "cuDeviceGetDevResource", 12040));
    PLUMBLINE_TRY(load(split, "cuDevSmResourceSplitByCount", 12040));
    PLUMBLINE_TRY(load(describe, "cuDevResourceGenerateDesc", 12040));
    PLUMBLINE_TRY(load(create, "cuGreenCtxCreate", 12040));
    PLUMBLINE_TRY(load(destroy, "cuGreenCtxDestroy", 12040));
    return load(stream_create, "cuGreenCtxStreamCreate", 12050);
  }

  Status outcome(CUresult result, const char* doing) const {
    if (result == CUDA_SUCCESS) return {};
    const char* text = nullptr;
    error_string(result, &text);
    return {std::string(doing) + " failed: " + (text == nullptr ? std::to_string(result) : std::string(text))};
  }
};

struct Side {
  CUdevResource resource{};
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;

  int sms() const { return static_cast<int>(resource.sm.smCount); }
};

Status create(const Driver& driver, CUdevice device, int priority, Side& side) {
  CUdevResourceDesc description = nullptr;
  PLUMBLINE_TRY(driver.outcome(driver.describe(&description, &side.resource, 1), "cuDevResourceGenerateDesc"));
  PLUMBLINE_TRY(driver.outcome(driver.create(&side.context, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
                               "cuGreenCtxCreate"));
  return driver.outcome(driver.stream_create(&side.stream, side.context, CU_STREAM_NON_BLOCKING, priority),
                        "cuGreenCtxStreamCreate");
}

// Returns one group of `sms` SMs and the rest: as the hardware schedules them together, else SM by SM.
Status divide(const Driver& driver, const CUdevResource& all, int sms, Side& small, Side& large, bool& coscheduled) {
  for (const unsigned flags : {0u, static_cast<unsigned>(CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING)}) {
    coscheduled = flags == 0;
    unsigned groups = 1;
    const CUresult result = driver.split(&small.resource, &groups, &all, &large.resource, flags, sms);
    if (result == CUDA_SUCCESS && groups == 1 && small.sms() == sms) return {};
    if (!coscheduled) PLUMBLINE_TRY(driver.outcome(result, "cuDevSmResourceSplitByCount"));
  }
  return {"the driver makes no group of " + std::to_string(sms) + " SMs, but one of " + std::to_string(small.sms())};
}

// SMs divided by the driver: two green contexts with disjoint SMs and a stream each. Work in one stream never runs on
// the SMs of the other. A driver of CUDA 12.5 or newer is needed.
class GreenContexts {
 public:
  GreenContexts() = default;
  ~GreenContexts() {
    for (Side* side : {&small, &large}) {
      if (side->stream != nullptr) cudaStreamDestroy(side->stream);
      if (side->context != nullptr) driver_.destroy(side->context);
    }
  }
  GreenContexts(const GreenContexts&) = delete;
  GreenContexts& operator=(const GreenContexts&) = delete;

  // Gives `sms` SMs of device `ordinal` to the smaller context, whose stream has the highest priority, and the others
  // to the larger one. If that is no multiple of the SMs that the hardware schedules together (8 on Hopper), SMs are
  // divided one by one; fewer thread-block clusters may then fit. It fails if the device is too small or the driver too
  // old.
  Status open(int ordinal, int sms) {
    PLUMBLINE_TRY(driver_.open());
    int least = 0, greatest = 0;
    PLUMBLINE_TRY(outcome(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities"));
    CUdevice device = 0;
    PLUMBLINE_TRY(driver_.outcome(driver_.device_get(&device, ordinal), "cuDeviceGet"));
    CUdevResource all{};
    PLUMBLINE_TRY(
        driver_.outcome(driver_.device_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource"));
    if (sms < 1 || sms >= static_cast<int>(all.sm.smCount))
      return {"the device has " + std::to_string(all.sm.smCount) + " SMs, too few for this partition"};
    PLUMBLINE_TRY(divide(driver_, all, sms, small, large, coscheduled));
    PLUMBLINE_TRY(create(driver_, device, greatest, small));
    return create(driver_, device, least, large);
  }

  Side small, large;
  bool coscheduled = false;  // SMs that the hardware schedules together stay together

 private:
  Driver driver_;
};

class PartitionRunner final : public OperationRunner {
 public:
  using OperationRunner::OperationRunner;

  Status prepare() override {
    const int sms = tools_.properties.multiProcessorCount;
    if (what_.ctas >= sms || what_.target_sms > sms)
      return {"the device has " + std::to_string(sms) + " SMs, too few for this partition"};
    PLUMBLINE_TRY(open_streams());
    PLUMBLINE_TRY(prepare_operation(kernel_stream_, ""));
    for (Findings& each : findings_) each.note = "timed with " + sampled_.method() + division_;
    if (what_.ctas == 0) return {};
    reserved_.emplace(tools_, copy_stream_);
    return reserved_->prepare(what_);
  }

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    PLUMBLINE_TRY(sample(0, times[0]));
    finish_clock(0);
    return what_.ctas == 0 ? Status{} : time_overlapped(times[1]);
  }

 private:
  // Opens streams of one context, where the copy reserves its SMs, or of two green contexts.
  Status open_streams() {
    kernel_stream_ = tools_.stream;
    copy_stream_ = tools_.copy_stream;
    if (what_.by != "green") return {};
    int device = 0;
    PLUMBLINE_TRY(outcome(cudaGetDevice(&device), "asking for the device"));
    PLUMBLINE_TRY(green_.emplace().open(device, static_cast<int>(what_.ctas)));
    kernel_stream_ = green_->large.stream;
    copy_stream_ = green_->small.stream;
    division_ = "; green contexts of " + std::to_string(green_->small.sms()) + " and " +
                std::to_string(green_->large.sms()) + " SMs" + (green_->coscheduled ? "" : ", not coscheduled");
    return {};
  }

  Status sample(std::size_t subject, std::vector<double>& times) {
    return sampled_.hot(samples_, kernel_stream_, times, [&] { read_clock(kernel_stream_, subject); });
  }

  // The copy must span all samples: it starts before them, and is stopped after them and before its deadline.
  Status time_overlapped(std::vector<double>& times) {
    // Overlapped with the copy, a run may take several times as long; the graph of a short run repeats it for 200 us.
    const double per_run = std::max(sampled_.estimate_us(), 500.0) * 1e-6;
    PLUMBLINE_TRY(reserved_->start(1 + 20 * samples_ * per_run));
    const Status sampling = sample(1, times);
    ReservationReport report;
    const Status stopped = reserved_->stop(report);
    PLUMBLINE_TRY(sampling);
    PLUMBLINE_TRY(stopped);
    finish_clock(1);
    if (report.ended_early) return {"the copy kernel reached its deadline before the samples ended"};
    if (!report.own_sms) return {"two blocks of the copy kernel shared an SM: it cannot reserve SMs on this device"};
    copy_rate_ = report.payload_gbps * 1e9;
    return {};
  }

  std::optional<GreenContexts> green_;
  cudaStream_t kernel_stream_ = nullptr, copy_stream_ = nullptr;
  std::string division_;
  std::optional<ReservedSms> reserved_;
};

}  // namespace

std::unique_ptr<CaseRunner> make_partition_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<PartitionRunner>(what, tools, samples);
}

}  // namespace plumbline::real::cuda
