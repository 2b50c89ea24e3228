#include "real/cuda/vendor/nccl.h"

namespace plumbline::real::cuda {

std::unique_ptr<Nccl> Nccl::open(const std::vector<std::string>& folders, std::string& error) {
  auto nccl = std::make_unique<Nccl>();
  nccl->library = Library::open(known_library("NCCL"), folders, error);
  if (!nccl->library) return nullptr;
  const Library& library = *nccl->library;
  bool complete = true;
#define LOAD(member, name) complete &= library.load(nccl->member, #name);
  PLUMBLINE_NCCL_FUNCTIONS(LOAD)
#undef LOAD
  if (complete) return nccl;
  error = "NCCL (" + library.path() + ") is too old: 2.18 or newer is needed";
  return nullptr;
}

Status Nccl::outcome(ncclResult_t result, const char* doing, ncclComm_t communicator) const {
  return nccl_outcome(result, doing, error_string(result), last_error(communicator));
}

Status nccl_outcome(ncclResult_t result, const char* doing, const char* meaning, const char* last_words) {
  if (result == ncclSuccess || result == ncclInProgress) return {};
  Status status{std::string(doing) + " failed: " + (meaning == nullptr ? "unknown error" : meaning)};
  if (last_words != nullptr && *last_words != '\0') status.failure += std::string(", ") + last_words;
  return status;
}

}  // namespace plumbline::real::cuda
