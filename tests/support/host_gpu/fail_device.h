// Makes communication of a rank fail in a test.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "real/cuda/vendor/library_search.h"

namespace plumbline::tests::host_gpu {

// The folder of the library that stands in for NCCL.
inline const char* const nccl_folder = PLUMBLINE_HOST_NCCL_DIR;

// Makes communicators of the device report that another rank is lost.
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
