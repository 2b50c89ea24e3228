#include "real/cuda/measure/case_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/collective_runner.h"
#include "real/cuda/measure/timing.h"
#include "real/cuda/measure/toolbox.h"
#include "real/cuda/vendor/library_search.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {
namespace {

using Json = nlohmann::ordered_json;

// cuDNN 91900 and NCCL 22809 are 9.19.0 and 2.28.9; cuBLASLt prints 130100 as 13.1.0.
std::string version_of(const std::string& name, const Library& library) {
  int number = 0;
  if (name == "NCCL") {
    int (*version)(int*) = nullptr;
    if (!library.load(version, "ncclGetVersion") || version(&number) != 0) return "";
  } else if (name == "cuBLASLt" || name == "cuDNN") {
    std::size_t (*version)() = nullptr;
    if (!library.load(version, name == "cuDNN" ? "cudnnGetVersion" : "cublasLtGetVersion")) return "";
    number = static_cast<int>(version());
  } else {
    return "";
  }
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

Json libraries(const std::vector<std::string>& folders) {
  Json all = Json::object();
  for (const LibraryName& name : known_libraries()) {
    std::string error;
    const auto library = Library::open(name, folders, error);
    Json& entry = all[name.name];
    if (library) {
      entry["path"] = library->path();
      const std::string version = version_of(name.name, *library);
      if (!version.empty()) entry["version"] = version;
    } else {
      entry["missing"] = error;
    }
  }
  return all;
}

// Measures the time of an empty pair of events, which is part of every time taken with events.
Status event_overhead(Toolbox& tools, double& microseconds) {
  std::vector<double> samples;
  PLUMBLINE_TRY(sample_hot([](cudaStream_t) { return Status{}; }, 50, tools.stream, samples));
  std::sort(samples.begin(), samples.end());
  microseconds = samples[samples.size() / 2];
  return {};
}

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return value;
}

// Describes device, clocks, power, driver, and the libraries' versions and paths as a JSON object; missing ones are
// named.
Status describe_environment(Toolbox& tools, std::string& object) {
  const cudaDeviceProp& p = tools.properties;
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::size_t free = 0, total = 0;
  PLUMBLINE_TRY(outcome(cudaMemGetInfo(&free, &total), "asking for the memory"));
  double overhead = 0;
  PLUMBLINE_TRY(event_overhead(tools, overhead));
  Json json = {{"compute_capability", std::to_string(p.major) + "." + std::to_string(p.minor)},
               {"bus_id", tools.bus_id},
               {"ecc", p.ECCEnabled != 0},
               {"memory_bytes", total},
               {"free_bytes", free},
               {"l2_bytes", p.l2CacheSize},
               {"shared_memory_per_sm_bytes", p.sharedMemPerMultiprocessor},
               {"shared_memory_claim_bytes", tools.largest_dynamic_shared}};
  if (const int khz = attribute(cudaDevAttrClockRate); khz > 0) json["highest_sm_mhz"] = khz / 1000;
  if (const int khz = attribute(cudaDevAttrMemoryClockRate); khz > 0) json["highest_memory_mhz"] = khz / 1000;
  json["memory_bus_bits"] = p.memoryBusWidth;
  json["event_pair_us"] = overhead;
  json["cuda_driver_api"] = driver;
  json["cuda_runtime"] = runtime;
  if (tools.nvml) {
    json["driver_version"] = tools.nvml->driver_version();
    if (const auto limit = tools.nvml->power_limit_w()) json["power_limit_w"] = *limit;
  } else {
    json["clock_readings"] = "none: " + tools.nvml_error;
  }
  if (!tools.cublaslt) json["matrix_products"] = "none: " + tools.cublaslt_error;
  json["libraries"] = libraries(tools.folders);
  object = json.dump();
  return {};
}

class GpuCaseMachine final : public CaseMachine {
 public:
  explicit GpuCaseMachine(ControlChannel& channel) : collectives_(channel) {}

  Status open(const CaseMachineOptions& options) {
    PLUMBLINE_TRY(tools_.open(options.device, library_folders(options.library_folders)));
    return describe_environment(tools_, environment_);
  }

  std::string device() const override { return tools_.properties.name; }
  int sms() const override { return tools_.properties.multiProcessorCount; }
  std::string environment() const override { return environment_; }
  bool lost() const override { return context_is_lost(); }

  model::Result<std::unique_ptr<Runner>> prepare(const KernelCase& what, int samples) override {
    std::unique_ptr<CaseRunner> runner = runner_of(what, samples);
    if (const Status prepared = runner->prepare(); !prepared.ok()) return infeasible(prepared.failure);
    return runner;
  }

 private:
  std::unique_ptr<CaseRunner> runner_of(const KernelCase& what, int samples) {
    using Make = std::unique_ptr<CaseRunner> (*)(const KernelCase&, Toolbox&, int);
    static constexpr std::array<std::pair<const char*, Make>, 5> makers = {{{"partition", make_partition_runner},
                                                                            {"copy", make_copy_runner},
                                                                            {"host_to_device", make_host_copy_runner},
                                                                            {"launch", make_launch_runner},
                                                                            {"graph", make_graph_runner}}};
    if (is_collective(what)) return collectives_.make_runner(what, tools_, samples);
    for (const auto& [op, make] : makers)
      if (what.op == op) return make(what, tools_, samples);
    return make_kernel_runner(what, tools_, samples);
  }

  Toolbox tools_;
  Collectives collectives_;
  std::string environment_;
};

}  // namespace

model::Result<std::unique_ptr<CaseMachine>> open_case_machine(const CaseMachineOptions& options,
                                                              ControlChannel& channel) {
  auto machine = std::make_unique<GpuCaseMachine>(channel);
  if (const Status opened = machine->open(options); !opened.ok()) return infeasible(opened.failure);
  return machine;
}

model::Result<std::string> list_libraries(const std::vector<std::string>& folders) {
  const std::vector<std::string> searched = library_folders(folders);
  std::string text;
  for (const LibraryName& name : known_libraries()) {
    std::string error;
    const auto library = Library::open(name, searched, error);
    if (library) {
      const std::string version = version_of(name.name, *library);
      text += name.name + (version.empty() ? "" : " " + version) + ": " + library->path() + "\n";
    } else {
      text += error + "\n";
    }
  }
  return text;
}

}  // namespace plumbline::real::cuda
