#include "real/cuda/device_state.h"

#include <cuda_runtime_api.h>

namespace plumbline::real::cuda {
namespace {

std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

DeviceReport absent(cudaError_t error) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  cudaGetLastError();
  switch (error) {
    case cudaErrorInsufficientDriver:
      if (driver == 0)
        return {DeviceState::no_driver, "no driver: libcuda.so.1 of the NVIDIA driver was not found", ""};
      return {DeviceState::driver_too_old,
              "driver too old: it supports CUDA " + version(driver) + ", this program needs " + version(CUDART_VERSION),
              ""};
    case cudaErrorStubLibrary:
      return {DeviceState::stub_library,
              "stub library: the libcuda.so.1 that was found is the toolkit's stub for linking, not a driver", ""};
    case cudaErrorNoDevice:
      return {DeviceState::no_device, "no device: there is a driver, but no GPU that this process may use", ""};
    default:
      return {DeviceState::unusable, std::string("the driver does not start: ") + cudaGetErrorString(error), ""};
  }
}

}  // namespace

DeviceReport look_for_device(int ordinal) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return absent(error);
  if (count == 0) return absent(cudaErrorNoDevice);
  if (ordinal >= count)
    return {DeviceState::no_device, "no device " + std::to_string(ordinal) + ": there are " + std::to_string(count),
            ""};
  cudaDeviceProp properties{};
  if (const cudaError_t failed = cudaGetDeviceProperties(&properties, ordinal); failed != cudaSuccess)
    return {DeviceState::unusable, std::string("the device does not answer: ") + cudaGetErrorString(failed), ""};
  if (properties.major < 8)
    return {DeviceState::unusable, std::string(properties.name) + " has compute capability below 8.0", ""};
  return {DeviceState::ok, properties.name, properties.name};
}

}  // namespace plumbline::real::cuda
