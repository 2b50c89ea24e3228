#include "real/cuda/probe/environment.h"

#include <algorithm>

#include "real/cuda/probe/timing.h"

namespace plumbline::real::cuda {

namespace {

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

JsonLine libraries(const std::vector<std::string>& folders) {
  JsonLine line;
  for (const LibraryName& name : known_libraries()) {
    std::string error;
    const auto library = Library::open(name, folders, error);
    JsonLine entry;
    if (library) {
      entry.text("path", library->path());
      const std::string version = version_of(name.name, *library);
      if (!version.empty()) entry.text("version", version);
    } else {
      entry.text("missing", error);
    }
    line.object(name.name, entry);
  }
  return line;
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

Status describe_environment(Toolbox& tools, JsonLine& line) {
  const cudaDeviceProp& p = tools.properties;
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::size_t free = 0, total = 0;
  PLUMBLINE_TRY(outcome(cudaMemGetInfo(&free, &total), "asking for the memory"));
  double overhead = 0;
  PLUMBLINE_TRY(event_overhead(tools, overhead));
  line.text("compute_capability", std::to_string(p.major) + "." + std::to_string(p.minor));
  line.text("bus_id", tools.bus_id).flag("ecc", p.ECCEnabled != 0);
  line.integer("memory_bytes", static_cast<std::int64_t>(total)).integer("free_bytes", static_cast<std::int64_t>(free));
  line.integer("l2_bytes", p.l2CacheSize);
  line.integer("shared_memory_per_sm_bytes", static_cast<std::int64_t>(p.sharedMemPerMultiprocessor));
  line.integer("shared_memory_claim_bytes", tools.largest_claim);
  if (const int khz = attribute(cudaDevAttrClockRate); khz > 0) line.integer("highest_sm_mhz", khz / 1000);
  if (const int khz = attribute(cudaDevAttrMemoryClockRate); khz > 0) line.integer("highest_memory_mhz", khz / 1000);
  line.integer("memory_bus_bits", p.memoryBusWidth).number("event_pair_us", overhead);
  line.integer("cuda_driver_api", driver).integer("cuda_runtime", runtime);
  if (tools.nvml) {
    line.text("driver_version", tools.nvml->driver_version());
    if (const auto limit = tools.nvml->power_limit_w()) line.number("power_limit_w", *limit);
  } else {
    line.text("clock_readings", "none: " + tools.nvml_error);
  }
  if (!tools.cublaslt) line.text("matrix_products", "none: " + tools.cublaslt_error);
  line.object("libraries", libraries(tools.folders));
  return {};
}

std::string list_libraries(const std::vector<std::string>& folders) {
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
