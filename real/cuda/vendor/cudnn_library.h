// cuDNN's backend interface, opened at run time.
#pragma once

#include <cudnn.h>
#include <cudnn_backend.h>

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/status.h"
#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {

// The functions in use.
#define PLUMBLINE_CUDNN_FUNCTIONS(DO)                   \
  DO(version, cudnnGetVersion)                          \
  DO(error_string, cudnnGetErrorString)                 \
  DO(last_error, cudnnGetLastErrorString)               \
  DO(create, cudnnCreate)                               \
  DO(destroy, cudnnDestroy)                             \
  DO(set_stream, cudnnSetStream)                        \
  DO(descriptor_create, cudnnBackendCreateDescriptor)   \
  DO(descriptor_destroy, cudnnBackendDestroyDescriptor) \
  DO(set, cudnnBackendSetAttribute)                     \
  DO(get, cudnnBackendGetAttribute)                     \
  DO(finalize, cudnnBackendFinalize)                    \
  DO(execute, cudnnBackendExecute)

struct Cudnn {
  std::shared_ptr<Library> library;
  PLUMBLINE_CUDNN_FUNCTIONS(PLUMBLINE_FUNCTION_MEMBER)

  // Opens the newest cuDNN in these folders; no device is needed. Returns nullptr if there is none, with the reason in
  // `error`.
  static std::unique_ptr<Cudnn> open(const std::vector<std::string>& folders, std::string& error);
  Status outcome(cudnnStatus_t status, const char* doing) const;
};

}  // namespace plumbline::real::cuda
