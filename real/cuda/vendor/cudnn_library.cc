#include "real/cuda/vendor/cudnn_library.h"

namespace plumbline::real::cuda {

std::unique_ptr<Cudnn> Cudnn::open(const std::vector<std::string>& folders, std::string& error) {
  auto cudnn = std::make_unique<Cudnn>();
  cudnn->library = open_newest(known_library("cuDNN"), {"cudnn_version.h", "CUDNN"}, folders, error);
  if (!cudnn->library) return nullptr;
#define LOAD(member, name) cudnn->library->load(cudnn->member, #name, error);
  PLUMBLINE_CUDNN_FUNCTIONS(LOAD)
#undef LOAD
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
