// The runtime's devices and errors. Every device number exists, and each device reaches all others.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "tests/support/host_gpu/runtime.h"
#include "tests/support/host_gpu/stream.h"

namespace plumbline::tests::host_gpu {
namespace {

constexpr int devices = 64, multiprocessors = 4, shared_bytes = 227 << 10;

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

cudaError_t failed(cudaError_t error) {
  last_error = error;
  return error;
}

}  // namespace plumbline::tests::host_gpu

using namespace plumbline::tests::host_gpu;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    default:
      return "an error";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

// There is no driver below the runtime.
cudaError_t cudaGetDriverEntryPointByVersion(const char* /*name*/, void** function, unsigned int /*version*/,
                                             unsigned long long /*flags*/, cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= devices) return failed(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "stand-in on the host");
  properties->major = 9;
  properties->multiProcessorCount = multiprocessors;
  properties->sharedMemPerBlockOptin = shared_bytes;
  properties->totalGlobalMem = device_bytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = multiprocessors;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = shared_bytes;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    default:
      *value = 0;
      return cudaSuccess;
  }
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0) return failed(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int /*flags*/) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> enabled;
  const std::scoped_lock lock(mutex);
  if (peer == current_device()) return failed(cudaErrorInvalidDevice);
  return enabled.insert({current_device(), peer}).second ? cudaSuccess : failed(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02x:00.0", static_cast<unsigned>(device) & 0xffU);
  return cudaSuccess;
}

}  // extern "C"
