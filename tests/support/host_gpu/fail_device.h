// How a test makes communication of a rank fail.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "real/cuda/vendor/library_search.h"

namespace plumbline::tests::host_gpu {

// Where the library is that stands in for NCCL.
inline const char* const nccl_folder = PLUMBLINE_HOST_NCCL_DIR;

// Communicators of the device find that another rank is gone.
inline void fail_device(int device) {
  using real::cuda::Library;
  std::string error;
  const auto library = Library::open(real::cuda::known_library("NCCL"), {nccl_folder}, error);
  ASSERT_NE(library, nullptr) << error;
  void (*fail)(int) = nullptr;
  ASSERT_TRUE(library->load(fail, "host_nccl_fail_device"));
  fail(device);
}

}  // namespace plumbline::tests::host_gpu
