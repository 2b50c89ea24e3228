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

// The functions in use, by their own names.
struct Cudnn {
  std::shared_ptr<Library> library;
  decltype(&::cudnnGetVersion) version = nullptr;
  decltype(&::cudnnGetErrorString) error_string = nullptr;
  decltype(&::cudnnGetLastErrorString) last_error = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) descriptor_create = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) descriptor_destroy = nullptr;
  decltype(&::cudnnBackendSetAttribute) set = nullptr;
  decltype(&::cudnnBackendGetAttribute) get = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;

  // The newest in these folders. nullptr: `error` says what is missing. No device is needed.
  static std::unique_ptr<Cudnn> open(const std::vector<std::string>& folders, std::string& error);
  Status outcome(cudnnStatus_t status, const char* doing) const;
};

}  // namespace plumbline::real::cuda
