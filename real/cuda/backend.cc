#include "real/cuda/backend.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "real/cuda/comm/communicator.h"
#include "real/cuda/device/device.h"
#include "real/cuda/device/watch/clock_sampler.h"
#include "real/cuda/device/watch/cupti.h"
#include "real/cuda/device/watch/kernel_trace.h"
#include "real/cuda/device_state.h"
#include "real/cuda/plan_conditions.h"
#include "real/cuda/vendor/library_search.h"
#include "real/cuda/vendor/nvml.h"

namespace plumbline::real::cuda {
namespace {

// Short enough for a step of half a second; a reading takes some milliseconds of one core.
constexpr auto reading_pause = std::chrono::milliseconds(100);

model::Result<std::unique_ptr<Communicator>> communicator_of(const RunInput& input, const GpuOptions& gpu,
                                                             CudaDevice& device, ControlChannel& channel) {
  if (gpu.emulated)
    return make_emulated_communicator(device, emulation_options(input.plan, input.cluster, *gpu.emulated));
  return make_communicator(
      device, channel,
      {communication_sms(input.plan), static_cast<int>(input.plan.overlap.collective_sms.value_or(0))});
}

// Returns nullptr without NVML: clock readings are optional.
std::unique_ptr<ClockSampler> sampler_of(const Machine& machine) {
  std::array<char, 32> bus{};  // "00000000:00:00.0"
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), machine.ordinal) != cudaSuccess) return nullptr;
  std::string error;
  const std::shared_ptr<Nvml> nvml = Nvml::open(machine.folders, bus.data(), error);
  if (!nvml) return nullptr;
  return std::make_unique<ClockSampler>([nvml] { return nvml->read(); }, reading_pause);
}

// Records the kernels of the last step.
class LastStep {
 public:
  LastStep(const RunOptions& options, const GpuOptions& gpu, const std::vector<std::string>& folders)
      : last_(options.steps) {
    if (!gpu.kernels) return;
    recorder_ = KernelRecorder::open(folders, missing_);
    if (recorder_ && last_ == 1) start();
  }

  void after(std::int64_t step) {
    if (!recorder_) return;
    if (step == last_ - 1) start();
    if (step != last_ || !started_) return;
    std::vector<KernelActivity> activities;
    const Status stopped = recorder_->stop(activities);
    missing_ = stopped.failure;
    if (!stopped.ok()) return;
    if (activities.empty()) missing_ = "no kernel was recorded: may this process use the driver's profiling interface?";
    if (!activities.empty()) trace_ = kernel_trace(std::move(activities));
  }

  void report(GpuRunResult& result) const {
    result.kernels = trace_;
    result.kernels_missing = recorder_ && !started_ ? "the checkpoint left no step before the last one" : missing_;
  }

 private:
  void start() {
    const Status status = recorder_->start();
    started_ = status.ok();
    missing_ = status.failure;
  }

  std::int64_t last_;
  std::unique_ptr<KernelRecorder> recorder_;
  bool started_ = false;
  std::string trace_, missing_;
};

std::int64_t memory_in_use() {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  return static_cast<std::int64_t>(total - free);
}

model::Result<GpuRunResult> run_on(const RunInput& input, const RunOptions& options, const GpuOptions& gpu,
                                   CudaDevice& device, Communicator& communicator, const GpuObserver& observer) {
  const auto sampler = observer ? sampler_of(device.machine()) : nullptr;
  LastStep last(options, gpu, device.machine().folders);
  RunOptions own = options;
  own.emulated = gpu.emulated.has_value();
  std::int64_t memory = 0;
  auto run = TRY(run_rank(input, own, device, communicator, [&](const StepFigures& now) {
    last.after(now.step);
    memory = std::max(memory, memory_in_use());
    if (observer) observer(now, sampler ? sampler->take() : ClockReading{});
  }));
  GpuRunResult result{std::move(run), "", "", memory, communicator.transports()};
  if (gpu.kernels) last.report(result);
  return result;
}

}  // namespace

GpuReport describe_gpu(int ordinal) {
  const DeviceReport report = look_for_device(ordinal);
  return {report.state == DeviceState::ok ? GpuPresence::ready : GpuPresence::missing, report.message};
}

int usual_gpu(int local_rank) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) cudaGetLastError();
  return devices == 1 ? 0 : local_rank;
}

model::Result<GpuRunResult> run_on_gpu(const RunInput& input, const RunOptions& options, const GpuOptions& gpu,
                                       ControlChannel& channel, const GpuObserver& observer) {
  // Errors before the communicator exists are this rank's only: they are sent to the others, which would wait for it.
  const auto failed = [&](const model::Error& error) -> model::Result<GpuRunResult> {
    channel.abort(to_string(error));
    return tl::unexpected(error);
  };
  const auto sms = device_sms(gpu.device);
  if (!sms) return failed(sms.error());
  const int launched_on = gpu.target_sms.value_or(target_sms(input.plan, *sms));
  const auto device = CudaDevice::open({gpu.device, gpu.library_folders, launched_on});
  if (!device) return failed(device.error());
  const auto communicator = communicator_of(input, gpu, **device, channel);
  if (!communicator) return failed(communicator.error());
  return run_on(input, options, gpu, **device, **communicator, observer);
}

}  // namespace plumbline::real::cuda
