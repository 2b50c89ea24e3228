#include "real/cuda/measure/environment.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "real/cuda/measure/timing.h"

namespace plumbline::real::cuda {

namespace {

using Json = nlohmann::ordered_json;

std::string dotted(long long major, long long minor, long long patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

// cuDNN 91900 and NCCL 22809 are 9.19.0 and 2.28.9; cuBLASLt prints 130100 as 13.1.0.
std::string version_of(const std::string& name, const Library& library) {
  if (name == "cuBLASLt") {
    std::size_t (*version)() = nullptr;
    if (!library.load(version, "cublasLtGetVersion")) return "";
    const auto v = static_cast<long long>(version());
    return dotted(v / 10000, v / 100 % 100, v % 100);
  }
  if (name == "cuDNN") {
    std::size_t (*version)() = nullptr;
    if (!library.load(version, "cudnnGetVersion")) return "";
    const auto v = static_cast<long long>(version());
    return dotted(v / 10000, v / 100 % 100, v % 100);
  }
  if (name == "NCCL") {
    int (*version)(int*) = nullptr;
    int v = 0;
    if (!library.load(version, "ncclGetVersion") || version(&v) != 0) return "";
    return dotted(v / 10000, v / 100 % 100, v % 100);
  }
  return "";
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

// What a pair of events shows when there is nothing between them: part of every time taken with events.
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

}  // namespace

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
               {"shared_memory_claim_bytes", tools.largest_claim}};
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

std::string describe_libraries(const std::vector<std::string>& folders) {
  std::string text;
  for (const LibraryName& name : known_libraries()) {
    std::string error;
    const auto library = Library::open(name, folders, error);
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
