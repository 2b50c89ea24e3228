#include "real/cuda/measure/stage_measure.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <variant>

#include "model/base/statistics.h"
#include "real/cuda/comm/communicator.h"
#include "real/cuda/device/device.h"
#include "real/cuda/plan_conditions.h"
#include "real/cuda/vendor/nvml.h"
#include "real/measure/stage_runner.h"

namespace plumbline::real::cuda {
namespace {

// Reads clock and power after each round; without NVML the readings are unknown.
class Readings {
 public:
  explicit Readings(const Machine& machine) {
    std::array<char, 32> bus{};  // "00000000:00:00.0"
    std::string ignored;
    if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), machine.ordinal) == cudaSuccess)
      nvml_ = Nvml::open(machine.folders, bus.data(), ignored);
  }

  void take() {
    if (nvml_) readings_.push_back(nvml_->read());
  }

  ClockReading median() const {
    ClockReading median;
    if (readings_.empty()) return median;
    median = readings_.back();
    median.sm_mhz = middle(&ClockReading::sm_mhz);
    median.memory_mhz = middle(&ClockReading::memory_mhz);
    median.power_w = middle(&ClockReading::power_w);
    median.temperature_c = middle(&ClockReading::temperature_c);
    return median;
  }

 private:
  template <class Field>
  Field middle(Field ClockReading::*field) const {
    std::vector<Field> values;
    for (const ClockReading& reading : readings_) values.push_back(reading.*field);
    return model::upper_median(std::move(values));
  }

  std::unique_ptr<Nvml> nvml_;
  std::vector<ClockReading> readings_;
};

// Returns the distinct stages of the step, without its other workloads, such as group collectives.
std::vector<Sequence> stages_of(const model::StepProgram& program, const std::string& name, int sms) {
  std::vector<Sequence> stages;
  for (Workload& workload : plan_workloads(program, name, {sms}))
    if (auto* sequence = std::get_if<Sequence>(&workload)) stages.push_back(std::move(*sequence));
  return stages;
}

// Merges the samples of a case that two stages share.
void add(std::vector<Series> more, std::vector<Series>& all) {
  for (Series& series : more) {
    const auto known =
        std::ranges::find(all, series.subject.place(), [](const Series& s) { return s.subject.place(); });
    if (known == all.end())
      all.push_back(std::move(series));
    else
      known->seconds.insert(known->seconds.end(), series.seconds.begin(), series.seconds.end());
  }
}

}  // namespace

// Stages are measured one by one, because each may take nearly all the memory of a rank.
model::Result<StageMeasurement> measure_stages(const model::Plan& plan, const model::ClusterShape& cluster,
                                               const model::StepProgram& program, const std::string& name,
                                               const StageMeasureOptions& options, const MeasureObserver& observer) {
  const int sms = TRY(device_sms(options.device));
  const EmulationOptions emulation = emulation_options(plan, cluster, 0);
  StageMeasurement measured{.sms = sms,
                            .communication_sms = emulation.communication_sms,
                            .target_sms = target_sms(plan, sms),
                            .nic_gbps = emulation.nic_gbps};
  const auto device = TRY(CudaDevice::open({options.device, options.library_folders, measured.target_sms}));
  measured.device = device->machine().properties.name;
  const std::unique_ptr<Communicator> peers = make_emulated_communicator(*device, emulation);
  const std::vector<Sequence> stages = stages_of(program, name, sms);
  Readings readings(device->machine());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<RunnableWorkload> alone;
    alone.push_back(stage_workload(stages[stage], *device, *peers, {sms, emulation.communication_sms}));
    add(TRY(measure_in_rounds(alone, options.rounds,
                              [&](MeasureProgress progress, const auto& so_far) {
                                readings.take();
                                progress.done += stage * progress.total;
                                progress.total *= stages.size();
                                return !observer || observer(progress, so_far);
                              })),
        measured.series);
  }
  measured.clock = readings.median();
  return measured;
}

}  // namespace plumbline::real::cuda
