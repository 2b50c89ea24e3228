#include "real/cuda/vendor/cudnn_library.h"

#include <type_traits>

namespace plumbline::real::cuda {

std::unique_ptr<Cudnn> Cudnn::open(const std::vector<std::string>& folders, std::string& error) {
  auto cudnn = std::make_unique<Cudnn>();
  cudnn->library = open_newest(known_library("cuDNN"), {"cudnn_version.h", "CUDNN"}, folders, error);
  if (!cudnn->library) return nullptr;
  const Library& l = *cudnn->library;
  const auto load = [&](auto& function, const char* name) {
    using Pointer = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Pointer>(l.symbol(name));
    if (function == nullptr) error = l.path() + " has no " + name;
  };
  load(cudnn->version, "cudnnGetVersion");
  load(cudnn->error_string, "cudnnGetErrorString");
  load(cudnn->last_error, "cudnnGetLastErrorString");
  load(cudnn->create, "cudnnCreate");
  load(cudnn->destroy, "cudnnDestroy");
  load(cudnn->set_stream, "cudnnSetStream");
  load(cudnn->descriptor_create, "cudnnBackendCreateDescriptor");
  load(cudnn->descriptor_destroy, "cudnnBackendDestroyDescriptor");
  load(cudnn->set, "cudnnBackendSetAttribute");
  load(cudnn->get, "cudnnBackendGetAttribute");
  load(cudnn->finalize, "cudnnBackendFinalize");
  load(cudnn->execute, "cudnnBackendExecute");
  return error.empty() ? std::move(cudnn) : nullptr;
}

Status Cudnn::outcome(cudnnStatus_t status, const char* doing) const {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  char detail[512] = {};
  last_error(detail, sizeof detail);
  std::string failure = std::string(doing) + " failed: " + error_string(status);
  if (detail[0] != '\0') failure += std::string(" (") + detail + ')';
  return {failure};
}

}  // namespace plumbline::real::cuda
