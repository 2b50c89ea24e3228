#include "real/cuda/measure/toolbox.h"

#include <algorithm>

#include "real/cuda/kernels/measuring/measuring.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t least_flush_bytes = 16 << 20, flushes_of_cache = 5, workspace_bytes = 64 << 20;

}  // namespace

Toolbox::~Toolbox() {
  for (cudaStream_t each : {stream, copy_stream, control})
    if (each != nullptr) cudaStreamDestroy(each);
}

Status Toolbox::open(int ordinal, const std::vector<std::string>& library_folders) {
  folders = library_folders;
  PLUMBLINE_TRY(outcome(cudaSetDevice(ordinal), "taking the device"));
  PLUMBLINE_TRY(outcome(cudaGetDeviceProperties(&properties, ordinal), "asking for the device's properties"));
  PLUMBLINE_TRY(
      outcome(cudaDeviceGetAttribute(&largest_dynamic_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal),
              "asking for the shared memory"));
  char id[32] = "";
  PLUMBLINE_TRY(outcome(cudaDeviceGetPCIBusId(id, sizeof id, ordinal), "asking for the bus id"));
  bus_id = id;
  // The streams are non-blocking: the legacy default stream would wait for the copy kernel.
  int least = 0, greatest = 0;
  PLUMBLINE_TRY(outcome(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities"));
  PLUMBLINE_TRY(outcome(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, least), "creating a stream"));
  PLUMBLINE_TRY(
      outcome(cudaStreamCreateWithPriority(&copy_stream, cudaStreamNonBlocking, greatest), "creating a stream"));
  PLUMBLINE_TRY(outcome(cudaStreamCreateWithPriority(&control, cudaStreamNonBlocking, greatest), "creating a stream"));
  const std::int64_t flush_bytes =
      std::max<std::int64_t>(least_flush_bytes, flushes_of_cache * std::int64_t{properties.l2CacheSize});
  PLUMBLINE_TRY(flush.allocate(flush_bytes));
  PLUMBLINE_TRY(sink.allocate(16));
  PLUMBLINE_TRY(cycles.allocate(16));
  PLUMBLINE_TRY(workspace.allocate(workspace_bytes));
  PLUMBLINE_TRY(outcome(cudaMemset(flush.as<void>(), 0, static_cast<std::size_t>(flush_bytes)), "clearing memory"));
  PLUMBLINE_TRY(outcome(empty(stream), "starting a kernel"));
  // Loads the kernel's code here: later it would wait for concurrent copies.
  PLUMBLINE_TRY(outcome(count_cycles(0, cycles.as<std::int64_t>(), stream), "counting cycles"));
  PLUMBLINE_TRY(outcome(cudaDeviceSynchronize(), "running a kernel"));
  cublaslt = CublasLt::open(folders, cublaslt_error);
  nvml = Nvml::open(folders, bus_id, nvml_error);
  return {};
}

Status Toolbox::open_attention() {
  if (attention) return {};
  std::string error;
  attention = cuda::open_attention(folders, error);
  return attention ? Status{} : Status{"missing library: " + error};
}

Status Toolbox::flush_cache(cudaStream_t on) const {
  return outcome(cuda::flush_cache(flush.as<void>(), flush.bytes(), sink.as<std::uint32_t>(), on),
                 "flushing the cache");
}

}  // namespace plumbline::real::cuda
