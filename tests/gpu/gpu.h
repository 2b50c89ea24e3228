// Gives a test its GPU, or skips the test with the reason.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "real/cuda/device/device.h"
#include "real/cuda/device_state.h"

namespace plumbline::tests {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const real::cuda::DeviceReport report = real::cuda::look_for_device(0);
    if (report.state != real::cuda::DeviceState::ok) GTEST_SKIP() << report.message;
    auto opened = real::cuda::CudaDevice::open({});
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = std::move(*opened);
  }
  real::cuda::CudaDevice& device() { return *device_; }

 private:
  std::unique_ptr<real::cuda::CudaDevice> device_;
};

}  // namespace plumbline::tests
